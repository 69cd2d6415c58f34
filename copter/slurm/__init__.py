"""`copter schedule --slurm`: Slurm keeps the jobs, and a policy of copter decides which get GPUs, and where.

Users submit held jobs with ``sbatch --hold``.  The scheduler reads jobs and nodes of one partition, asks the
policy, and acts by ``scontrol release``, ``requeuehold`` and ``update``; it never submits a job.  Read
`schedule.py` first.

- `commands.py` calls Slurm's commands; `read.py` turns their output into jobs and nodes.
- `declared.py` reads what a job declares in its comment, and `reports.py` the files in which it reports its
  speed; jobs write them by `reporting.py`.
- `decide.py` shows jobs and nodes to the policy as its world; `act.py` compares the decision with what Slurm
  has, and finds the commands that make them equal.
- `schedule.py` is the loop with its lock and its clock; `why.py` says why a job waits.
- `cli.py` has the commands `copter schedule` and `copter why`.

The scheduler has no state that matters.  It may be killed and started at any moment, also twice at once: what
it must know after that is in Slurm, in the priority of a job (0 if it is held) and in a mark that is part of
the job's `AdminComment` (:class:`.read.Mark`).
"""
