"""Rounds: tasks that wait are placed together, those that run stay or move within a budget.

Read `rounds.py` first, then `relaxation.py` (column generation) with `mixes.py` (the best mix for a server).
`running.py` has the tasks by their names, `groups.py` those that belong together or apart; `moving.py` and
`gathering.py` move tasks that run.  `baselines.py` are other ways to place a round; `steady.py` and
`scale.py` measure.
"""
