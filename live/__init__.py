"""Schedulers that run jobs: the policies of :mod:`copter.problems.cluster` on real clusters.

`copter serve` is a service with a policy inside: users submit jobs over HTTP, every round the policy says
which GPUs each one gets, and a backend starts, stops and resizes them as processes of this machine, actors of
a Ray cluster or jobs of Slurm.  The jobs report how fast they are, and the policy goes by that.

- `service.py`: rounds, and seeing to it that what was decided runs; `events.py`, `journal.py`, `cluster.py`,
  `jobs.py`: what happens, where it is written, and the state that follows; `replay.py`: a record, again;
- `files.py`, `http.py`, `views.py`, `past.py`, `metrics.py`, `page/`: what users hand in and are shown;
  `client.py`, `cli.py`, `process.py`: the same from Python and from the command line;
- `backends/`: where runs are, and the agent that starts the processes of a run on a node;
- `training/`: the job's side, what a training script imports;
- `examples/`, `demo.py`: jobs that really train.
"""
