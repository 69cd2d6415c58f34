"""Metrics, tables and pictures of simulations.

Read `metrics.py` first: the metrics of a simulation, and their means over seeds.  `fairness.py` computes
finish time fairness.  `run.py` writes the folder of `copter run cluster`, and `page.py` its report.html.
"""
