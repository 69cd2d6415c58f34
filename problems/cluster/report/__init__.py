"""What comes of simulations: figures and pictures.

`metrics.py` comes first: the figures of a simulation, and of several with different seeds; `fairness.py` has
those of finish time fairness.  `run.py` writes the folder of `copter run cluster`, `page.py` its report.html,
and `sweep.py` plays `copter bench cluster`.
"""
