"""Policies that place one task when it arrives, and move no task.

Read `policy.py` first, then `reserving.py` (copter's own) with its `plan.py` (column generation), and
`scored.py` (FGD and its baselines).  `play.py` plays a policy by the protocol in `inflation.py`.
"""
