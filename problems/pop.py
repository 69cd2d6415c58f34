"""Common part of POP in all domains: names, ``pop-16`` and ``pop-16-ray``, and how parts are solved.

A domain splits its own way, as the experiment that it repeats does, and joins the parts' answers.

Both solve 16 parts each round.  ``pop-16`` solves them here, one after the other: its measured time is that
of all parts, and the time of 16 machines side by side is an estimate, ``parallel_seconds_estimated``: the
slowest part and what cannot be split.  ``pop-16-ray`` solves them on Ray, its own engine in the paper: its
measured time is what passes until all answers are here, on as many processors as there are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, NamedTuple

from copter.tasks.tasks import Here, Task, TaskRunner

_PATTERN = re.compile(r"pop-([1-9][0-9]*)(-ray)?")


class PopName(NamedTuple):
    """What a name says."""

    parts: int
    on_ray: bool

    def spread(self) -> TaskRunner | None:
        """Return where parts are solved, None for here; a Ray that it starts ends with the process."""
        if not self.on_ray:
            return None
        from copter.tasks.on_ray import OnRay

        return OnRay()


def pop_name(name: str) -> PopName | None:
    """Read the name of a method; None if it is not one of POP's."""
    found = _PATTERN.fullmatch(name)
    return None if found is None else PopName(int(found[1]), found[2] is not None)


def solve_parts(
    solve: Callable[..., Any], parts: Sequence[tuple[Any, ...]], spread: TaskRunner | None
) -> tuple[list[Any], float]:
    """Solve parts, each by its arguments; returns their answers, and the seconds until all were here."""
    tasks = [Task(f"part {number}", solve, own) for number, own in enumerate(parts)]
    begin = perf_counter()
    answers = [ended.result() for ended in (spread or Here()).each(tasks)]
    return answers, perf_counter() - begin
