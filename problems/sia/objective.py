"""The Sia objective: normalised goodput, restart factor, and costs with the signs that work.

For job i and configuration j with goodput G_ij (thesis section 3.3.4, section 4.4.1):

    G_ij   <-  N_i^min G_ij / min_j G_ij           over all configurations that can run the job
    r_i     =  (T_i - N_i S_i) / (T_i + S_i)       on every configuration but the current one

    p < 0:  minimise   sum_ij (r_i G_ij)^p X_ij  +  lambda sum_i (1 - sum_j X_ij)
    p > 0:  maximise   sum_ij (r_i G_ij)^p X_ij  -  lambda sum_i (1 - sum_j X_ij)

The printed signs of lambda are wrong in both places.  Here both are minimised: p > 0 with its sign flipped.
Because (r G)^p = r^p G^p, a change of r_i alone is a change of one scale.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MIN_RESTART_FACTOR = 0.01
"""Floor of the restart factor.

A young job that restarted often has N S >= T, a factor of zero or less, and (r G)^p would be infinite or no
number.  At the floor and p = -0.5 a move costs ten times as much as it is worth: the job stays where it is.
"""


def normalised(goodput: NDArray[np.float64], min_gpus: int) -> NDArray[np.float64]:
    """Goodputs of a job, all positive, scaled so that the smallest is ``min_gpus``."""
    if not goodput.size:
        return goodput
    return goodput * (min_gpus / goodput.min())


def restart_factor(
    age: NDArray[np.float64], restarts: NDArray[np.int64], restart_seconds: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Share of its time that a job spends running if it goes on restarting as it did, after one restart more.

    Parameters
    ----------
    age : (k,) array
        Seconds since submission.
    restarts : (k,) array
        Restarts so far, the first start not counted.
    restart_seconds : (k,) array
        Time of one restart.

    Returns
    -------
    (k,) array
        In [:data:`MIN_RESTART_FACTOR`, 1]; 1 for a job that restarts in no time.
    """
    lived = age + restart_seconds
    factor = np.divide(age - restarts * restart_seconds, lived, out=np.ones(lived.shape), where=lived > 0)
    return factor.clip(MIN_RESTART_FACTOR, 1.0)


@dataclass(frozen=True)
class Objective:
    """Costs of the Sia policy.

    Attributes
    ----------
    p : float
        Fairness knob, not zero; the thesis' default is -0.5.
    lam : float
        Cost of leaving a job without GPUs, >= 0; the thesis' default is 1.1.
    """

    p: float = -0.5
    lam: float = 1.1

    def __post_init__(self) -> None:
        if not math.isfinite(self.p) or self.p == 0:
            raise ValueError(f"p = {self.p}: must be finite and not zero")
        if not 0 <= self.lam < math.inf:
            raise ValueError(f"lam = {self.lam}: must be finite and not negative")

    def costs(self, goodput: NDArray[np.float64]) -> NDArray[np.float64]:
        """Cost of each configuration without restart factor, to be minimised: ``+-G^p``."""
        return math.copysign(1.0, -self.p) * goodput**self.p

    def scales(self, factor: NDArray[np.float64]) -> NDArray[np.float64]:
        """Factor on costs for a restart factor: ``r^p``."""
        return factor**self.p
