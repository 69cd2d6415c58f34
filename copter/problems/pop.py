"""Common part of POP in all domains: names such as ``pop-16``.

Each domain splits its problem as in the experiment that it repeats, and joins the answers of the parts.  The
parts are solved one after the other, and the measured time is the total.  The time on as many machines in
parallel is estimated in ``parallel_seconds_estimated``: the time of the slowest part, to which a domain may
add that of its sequential work.
"""

from __future__ import annotations

import re

_PATTERN = re.compile(r"pop-([1-9][0-9]*)")


def pop_parts(name: str) -> int | None:
    """Return the number of parts in a method's name; None if it is not a name of POP."""
    found = _PATTERN.fullmatch(name)
    return None if found is None else int(found[1])
