"""SRSF and SRSF-E: as SRTF, but by remaining service, the time left times the GPUs asked for.

A job that asks for many GPUs stands back, which favours those that use them well.

Source: AFS, sections 2.2 and 5.5; the rule is that of Tiresias (Gu et al., NSDI 2019).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from copter.problems.afs.roster import Pool
from copter.problems.cluster.workload import Kind
from copter.problems.rivals.srtf import Srtf


class Srsf(Srtf):
    """Shortest remaining service first, preemptive.

    Parameters
    ----------
    seed : int
        Nothing is drawn.
    """

    name = "srsf"

    def key(self, pool: Pool) -> NDArray[np.float64]:  # noqa: D102
        return super().key(pool) * pool.rows["request"]


class SrsfElastic(Srsf):
    """SRSF, and what is left over to running jobs.

    Parameters
    ----------
    seed : int
        Nothing is drawn.
    """

    name = "srsf-e"
    kind: Kind = "strong-scaling"
