"""The service of `copter serve`: policies of :mod:`copter.problems.cluster` schedule jobs on real nodes.

Users submit jobs over HTTP.  A policy decides which GPUs each job gets, and a backend starts and stops the
runs of the jobs.  Read `service.py` first, then `record.py` and `events.py`.

- `service.py` combines `admission.py` (accepts or refuses requests), `rounds.py` (asks the policy, in a
  thread of `policy_thread.py` and with a deadline), `launcher.py` (starts, stops and kills runs) and
  `record.py` (the journal and the state, and the recovery of the state after a restart).
- `events.py`, `journal.py`, `cluster.py` and `jobs.py`: the events, their file, and the state that follows
  from them.
- `tokens.py` has the names and roles of the authors of requests.
- `files.py`, `report.py`, `folder.py`, `http.py`, `views.py`, `metrics.py` and `page/`: the data that users
  and runs write, and the views for users.  `untrusted.py` reads files that jobs can write.
  `connections.py` limits a server's connections.
- `why.py` explains why a job waits, and `forecast.py` estimates when it would start, by `ahead.py` in a
  separate process.
- `routes.py` is the table of the routes.  `client.py` and `cli.py` use a service from Python and from the
  command line.
- `backends/` start runs on this machine or on Ray.  Training scripts import `training/`.

The folder may import all of copter; in copter, only :mod:`copter.slurm` imports it.  `training/` (except
`torch.py`) needs no extra, and `backends/agent.py` needs the standard library only, because both run in the
jobs.
"""

ENDINGS = {"completed": "completed", "failed": "failed", "cancelled": "was cancelled"}
"""Statuses of jobs that have ended, and the words for each in a sentence about a job.

They are here so that commands need not import the service."""
