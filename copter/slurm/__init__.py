"""`copter schedule --slurm`: Slurm keeps the jobs; a policy of copter decides which jobs get which GPUs.

Users submit held jobs with ``sbatch --hold``.  The scheduler reads the jobs and nodes of one partition, asks
the policy, and acts through ``scontrol release``, ``requeuehold`` and ``update``; it never submits a job.
Read `schedule.py` first.

- `commands.py` calls Slurm's commands; `read.py` turns their output into jobs and nodes.
- `declared.py` reads what a job declares in its comment, and `reports.py` the files in which a job reports
  its speed; jobs write these files with `reporting.py`.
- `decide.py` shows jobs and nodes to the policy as its world; `act.py` compares the decision with the state
  of Slurm, and finds the commands that make them agree.
- `schedule.py` has the loop, its lock and its clock; `why.py` finds the reasons why a job waits.
- `cli.py` has the commands `copter schedule` and `copter why`.

The scheduler may be killed and started at any moment, and two schedulers may run at once, because it keeps
no state of its own that it needs after a restart.  All such state is in Slurm: in the priority of a job
(0 if it is held), and in a mark that is part of the job's `AdminComment` (:class:`.read.Mark`).
"""
