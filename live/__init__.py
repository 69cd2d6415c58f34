"""The service of `copter serve`: policies of :mod:`copter.problems.cluster` schedule jobs that really run.

Users submit jobs over HTTP, a policy decides which GPUs each job gets, and a backend starts and stops its
runs.  Read `service.py` first, then `record.py` and `events.py`.

- `service.py` is made of `admission.py` (requests are accepted or refused), `rounds.py` (the policy is asked,
  by a deadline), `launcher.py` (runs are launched, ended and killed) and `record.py` (the journal, the state,
  and how a restart makes it again).
- `events.py`, `journal.py`, `cluster.py`, `jobs.py`: what happens, its file, and the state that follows.
- `files.py`, `folder.py`, `http.py`, `views.py`, `past.py`, `metrics.py`, `page/`: what users write and see.
  `untrusted.py` reads what jobs can write.
- `client.py`, `cli.py` and `process.py` use a service from Python and from the command line.  `replay.py`
  asks the policy of a recorded run again, for comparison.  `demo.py` is `make live`, on the jobs of
  `examples/`.
- `backends/` start runs on this machine, on Ray or on Slurm.  `training/` is what a training script imports.

The folder may import all of copter; nothing else in copter imports it.  `training/` needs no extra but in
`torch.py`, and `backends/agent.py` needs the standard library only: they run in the jobs.
"""
