"""Rounds: waiting tasks are placed together; running tasks stay, or move within a budget.

Read `rounds.py` first, then `relaxation.py` (column generation) with `mixes.py` (the best pattern for a
server). `running.py` has the tasks by their ids, and `groups.py` affinity and anti-affinity groups.
`moving.py` and `gathering.py` move running tasks.  `baselines.py` has other methods to place a round.
`steady.py` and `scale.py` measure.
"""
