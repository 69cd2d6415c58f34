"""Rounds: waiting tasks are placed together; running tasks stay, or move off drained servers.

Read `rounds.py` first, then `relaxation.py` (column generation) with `mixes.py` (the best pattern for a
server). `running.py` has the tasks by their ids, and `groups.py` affinity and anti-affinity groups.
"""
