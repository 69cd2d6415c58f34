"""What is learned of how fast jobs run.

`estimators.py` comes first: what a policy knows of the profiles, from everything to what it has seen itself.
`learned.py` is what a job's steps tell.  `fit.py` fits the throughput model to measured steps, `gradients.py`
estimates gradient noise while a job trains, and `calibration.py`, a program of its own, fits the constants of
the built-in profiles.
"""
