"""Conversion of scipy's options of `linprog` and `milp` to HiGHS' options, with scipy's warnings.

As in scipy, an unknown option or an invalid value causes a warning and is ignored.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

_NAMES = {
    "disp": ("output_flag",),
    "maxiter": ("simplex_iteration_limit", "ipm_iteration_limit"),
    "node_limit": ("mip_max_nodes",),
}
"""HiGHS' names of the options that have other names in scipy."""
_WEIGHTS = {"choose": -1, "dantzig": 0, "devex": 1, "steepest-devex": 1, "steepest": 2}
"""HiGHS' numbers for the values of scipy's simplex_dual_edge_weight_strategy."""
_SWITCHES = ("presolve", "output_flag")
LINPROG = frozenset(
    {
        "disp",
        "dual_feasibility_tolerance",
        "ipm_optimality_tolerance",
        "maxiter",
        "mip_max_nodes",
        "mip_rel_gap",
        "presolve",
        "primal_feasibility_tolerance",
        "simplex_dual_edge_weight_strategy",
        "time_limit",
    }
)
MILP = frozenset({"disp", "mip_rel_gap", "node_limit", "presolve", "time_limit"})


def highs_options(
    given: Mapping[str, Any] | None, known: frozenset[str], category: type[Warning]
) -> dict[str, Any]:
    """Return HiGHS' options for scipy's options, without those that are None.

    Names outside `known` count as HiGHS' own, with a warning of the class `category`. ``presolve`` is True or
    False in the result, as in scipy.
    """
    settings: dict[str, Any] = {}
    strange = {name: value for name, value in (given or {}).items() if name not in known}
    if strange:
        told = f"Unrecognized options detected: {strange}. These will be passed to HiGHS verbatim."
        warnings.warn(told, category, stacklevel=3)
    for name, value in (given or {}).items():
        if value is None:
            continue
        if name == "simplex_dual_edge_weight_strategy":
            value = _WEIGHTS.get(value, value) if isinstance(value, str) else value
        for own in _NAMES.get(name, (name,)):
            fitting = _fitting(own, value)
            if fitting is None:
                told = f"Option {name!r} is {value!r}, which HiGHS rejects; its default is used"
                warnings.warn(told, category, stacklevel=3)
                break
            settings[own] = fitting
    return settings


def _fitting(name: str, value: Any) -> Any:
    """Return the value in the type of HiGHS' option; None if the option or the value is invalid."""
    import highspy

    from copter.models.highs import HighsEngine

    if name in _SWITCHES:
        return bool(value) if isinstance(value, bool | np.bool_) else None
    highs = HighsEngine()
    status, kind = highs.getOptionType(name)
    if status != highspy.HighsStatus.kOk:
        return None
    types = {
        highspy.HighsOptionType.kBool: (bool, (bool, np.bool_)),
        highspy.HighsOptionType.kInt: (int, (int, np.integer)),
        highspy.HighsOptionType.kDouble: (float, (int, float, np.integer, np.floating)),
        highspy.HighsOptionType.kString: (str, (str,)),
    }
    wanted, accepted = types[kind]
    if not isinstance(value, accepted):
        return None
    fitting = wanted(value)
    return fitting if highs.setOptionValue(name, fitting) == highspy.HighsStatus.kOk else None
