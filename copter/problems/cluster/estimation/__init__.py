"""Estimation of the speed of jobs.

Read `estimators.py` first: it defines what a policy knows of the profiles, from everything to measurements
only.  `learned.py` derives a profile from a job's step times.  `fit.py` fits the throughput model to measured
steps, and `gradients.py` estimates gradient noise during training.
"""
