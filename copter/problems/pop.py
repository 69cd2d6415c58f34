"""Common part of POP in all domains: names such as ``pop-16`` and ``pop-16-ray``, and the solution of parts.

Each domain splits its problem as the experiment that it repeats does, and joins the answers of the parts.

Both methods solve 16 parts in each round.  ``pop-16`` solves them in this process, one after the other, and
its measured time is the total.  The time on 16 machines in parallel is estimated in
``parallel_seconds_estimated``, the time of the slowest part plus that of the sequential work.  ``pop-16-ray``
solves the parts on Ray, as the paper does.  Its measured time is that until all answers have arrived, on the
processors of the Ray cluster.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, NamedTuple

from copter.tasks.tasks import Here, Task, TaskRunner

_PATTERN = re.compile(r"pop-([1-9][0-9]*)(-ray)?")


class PopName(NamedTuple):
    """Number of parts in the name of a method, and whether they are solved on Ray."""

    parts: int
    on_ray: bool

    def spread(self) -> TaskRunner | None:
        """Return the runner of the parts, None for this process; a new Ray ends with the process."""
        if not self.on_ray:
            return None
        from copter.tasks.on_ray import OnRay

        return OnRay()


def pop_name(name: str) -> PopName | None:
    """Return the parts of a method's name; None if it is not a name of POP."""
    found = _PATTERN.fullmatch(name)
    return None if found is None else PopName(int(found[1]), found[2] is not None)


def solve_parts(
    solve: Callable[..., Any], parts: Sequence[tuple[Any, ...]], spread: TaskRunner | None
) -> tuple[list[Any], float]:
    """Solve parts, each given by its arguments; return their answers, and the seconds until all arrived."""
    tasks = [Task(f"part {number}", solve, own) for number, own in enumerate(parts)]
    begin = perf_counter()
    answers = [ended.result() for ended in (spread or Here()).each(tasks)]
    return answers, perf_counter() - begin
