"""Names of POP's methods, which several domains have: ``pop-16`` and ``pop-16-ray``.

Both solve 16 parts each round.  ``pop-16`` solves them here, one after the other: its measured time is that
of all parts, and the time of 16 machines side by side is an estimate, ``t_parallel_estimated``: the slowest
part and what cannot be split.  ``pop-16-ray`` solves them on Ray, its own engine in the paper: its measured
time is what passes until all answers are here, on as many processors as there are.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from copter.spreading.tasks import Here, Spread

PATTERN = re.compile(r"pop-([1-9][0-9]*)(-ray)?")


class PopName(NamedTuple):
    """What a name says."""

    parts: int
    on_ray: bool

    def spread(self) -> Spread:
        """Return where the parts are solved; a Ray that is started for them ends with the process."""
        if not self.on_ray:
            return Here()
        from copter.spreading.on_ray import OnRay

        return OnRay()


def pop_name(name: str) -> PopName | None:
    """Read the name of a method; None if it is not one of POP's."""
    found = PATTERN.fullmatch(name)
    return None if found is None else PopName(int(found[1]), found[2] is not None)
