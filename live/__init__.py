"""Schedulers that run jobs: the policies of :mod:`copter.problems.cluster` on real clusters.

`copter serve` is a service with a policy inside: users submit jobs over HTTP, every round the policy says
which GPUs each one gets, and a backend starts, stops and resizes them as processes of this machine, actors of
a Ray cluster or jobs of Slurm.  The jobs report how fast they are, and the policy goes by that.

- `backends/`: where runs are, and the agent that starts the processes of a run on a node;
- `training/`: the job's side, what a training script imports;
- `examples/`: jobs that really train.
"""
