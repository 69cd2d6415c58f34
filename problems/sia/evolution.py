"""How slowly the program evolves from round to round, and how integral its fractional answers are.

A variable is a job's share x of one configuration, or of "no allocation".  Between rounds t - 1 and t, with
C the variables of both programs,

    changed  =  |{v in C: |x_t(v) - x_{t-1}(v)| > 1e-3}| / |C|
    added    =  1 - |C| / |V_t|,               removed = 1 - |C| / |V_{t-1}|
    integral =  |{v in V_t: x_t(v) within 1e-3 of 0 or 1}| / |V_t|
    path_x   =  ||x_t - x_{t-1}||^2,         path_n = | |V_t| - |V_{t-1}| |

with values padded by 0 where a variable is in one program only.  The sums of the last two over the rounds are
the path lengths P_x and P_eta of Definition 1 (eta is the number of variables: there are fewer rows).

Source: thesis section 4.3.1, Definition 1, and Figures 4.2 and 4.4.
"""

from __future__ import annotations

import math
from collections.abc import Hashable

import numpy as np

from copter.problems.sia.columns import Choices
from copter.problems.sia.policy import SiaPolicy
from copter.solution import Solution

SAME = 1e-3
"""Values that differ by less are the same."""

NAMES = ("changed", "added", "removed", "integral", "path_x", "path_n")


class Evolution:
    """Follows the answers to a policy's program."""

    def __init__(self, policy: SiaPolicy) -> None:
        self.policy = policy
        self._choices: dict[Hashable, Choices] = {}
        self._values: dict[tuple[Hashable, int], float] = {}
        self._variables = 0

    def measure(self, solution: Solution) -> dict[str, float]:
        """Compare a round's answer with that of the round before.

        Parameters
        ----------
        solution : Solution
            Of the program as it is now.

        Returns
        -------
        dict of str to float
            The shares and lengths of the module, by :data:`NAMES`; NaN where there is nothing to compare.
        """
        if not solution.found or solution.x is None:
            return dict.fromkeys(NAMES, math.nan)
        choices = self.policy.choices()
        values = self._nonzeros(solution, choices)
        variables = self.policy.program.n_variables
        common, changed = self._common(choices), 0
        path = 0.0
        for variable in self._values | values:
            before, now = self._values.get(variable, 0.0), values.get(variable, 0.0)
            if before != now:
                path += (now - before) ** 2
                changed += abs(now - before) > SAME and self._in_both(variable, choices)
        between = sum(SAME < value < 1.0 - SAME for value in values.values())
        figures = {
            "changed": changed / common if common else math.nan,
            "added": 1.0 - common / variables if variables else math.nan,
            "removed": 1.0 - common / self._variables if self._variables else math.nan,
            "integral": 1.0 - between / variables if variables else math.nan,
            "path_x": path,
            "path_n": float(abs(variables - self._variables)),
        }
        self._choices, self._values, self._variables = choices, values, variables
        return figures

    def _nonzeros(
        self, solution: Solution, choices: dict[Hashable, Choices]
    ) -> dict[tuple[Hashable, int], float]:
        """Values that are not 0, by job and code of the configuration, -1 for none."""
        codes = self.policy.cluster.configurations.codes
        slots = self.policy.program.slot_of
        jobs = {slots[job]: job for job in choices}
        values = {}
        assert solution.x is not None
        for slot, column, value in zip(*(part.tolist() for part in solution.x.sparse), strict=True):
            job = jobs[slot]
            configuration = int(choices[job].columns[column])
            values[job, int(codes[configuration]) if configuration >= 0 else -1] = value
        return values

    def _common(self, choices: dict[Hashable, Choices]) -> int:
        """Number of variables in both programs."""
        common = 0
        for job, now in choices.items():
            before = self._choices.get(job)
            if before is None:
                continue
            if before.key == now.key:
                common += now.columns.size
            else:
                common += np.intersect1d(_codes(before), _codes(now)).size
                common += before.has_null and now.has_null
        return common

    def _in_both(self, variable: tuple[Hashable, int], choices: dict[Hashable, Choices]) -> bool:
        job, code = variable
        both = [table.get(job) for table in (self._choices, choices)]
        return all(
            one is not None and (one.has_null if code < 0 else bool((_codes(one) == code).any()))
            for one in both
        )


def _codes(choices: Choices) -> np.ndarray:
    """Codes of the configurations of some choices."""
    return np.frombuffer(choices.key[1], np.int64)
