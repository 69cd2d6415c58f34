"""Goodput profiles of the papers' training jobs on four types of GPU, without the authors' data files.

Noise, batch sizes and throughput models are fits to published measurements.  The noise of a level is the
median over the measured batch sizes.  The parameters minimise the squared logarithmic error of goodput, for
t4 against Pollux' measurements, and for the other types against the tables of Sia's authors.  The parameters
are in builtin.toml, with the median error of a whole job's run time over the configurations.  Goodput does
not determine some parameters, such as the division of a pass at the largest local batch into alpha and beta.
The types are those of Sia's evaluation: t4 (4 per node), rtx (8), quad (4) and a100 (8).  The papers give
only the range of a checkpoint-restore, 25 to 250 s; the seconds of each job are those of the authors'
simulator.

Sources: thesis sections 3.4.2 and 3.3.5, table 3.2; Pollux table 1 (ncf).
"""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from copter.problems.cluster.profiles.goodput import BatchLimits, GoodputProfile, TypeModel
from copter.problems.cluster.profiles.throughput import ThroughputParameters


@cache
def _fitted() -> dict[str, Any]:
    """Return the contents of builtin.toml, by model."""
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def builtin_goodput_profiles(*, calibrated: bool = False) -> dict[str, GoodputProfile]:
    """Return the profiles of the training jobs, by model.

    Parameters
    ----------
    calibrated : bool
        Divide speeds by the factors with which the thesis' authors matched their simulator to their testbed.

    Returns
    -------
    dict of str to GoodputProfile
        New profiles for the types t4, rtx, quad and a100; progress is in steps at the initial batch size.
    """
    return {name: _profile(name, fitted, calibrated=calibrated) for name, fitted in _fitted().items()}


def _profile(name: str, fitted: dict[str, Any], *, calibrated: bool) -> GoodputProfile:
    models = {
        type: TypeModel(ThroughputParameters(*parameters), local)
        for type, (parameters, local) in fitted["models"].items()
    }
    return GoodputProfile(
        name,
        fitted["restart_seconds"],
        fitted["progress"],
        fitted["noise"],
        models,
        BatchLimits(*fitted["limits"]),
        rule=fitted["rule"],
        calibration=fitted["calibration"] if calibrated else 1.0,
    )
