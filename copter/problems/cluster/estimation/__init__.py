"""Estimation of the speed of jobs.

Read `estimators.py` first: the knowledge that a policy has of the profiles, from complete to own measurements
only.  `learned.py` derives a profile from a job's step times.  `fit.py` fits the throughput model to measured
steps, and `gradients.py` estimates gradient noise during training.
"""
