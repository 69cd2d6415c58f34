"""`copter check`: a sound domain passes, and each broken promise is found and made small."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from copter import FlowDomain
from copter.rounds import check
from copter.rounds.check import KINDS, CheckFailedError, check_domain
from support.machines import Machines


class Cores(FlowDomain):
    """Jobs share cores in any amounts."""

    def __init__(self) -> None:
        super().__init__()
        self.came = 0
        self.program.add_resource("core", upper=8)

    def apply(self, event: Any) -> None:
        """Make one event."""
        if event[0] == "cores":
            self.program.update_resources("core", upper=event[1])
        elif event[0] == "leave":
            self.program.remove_request(event[1])
        else:
            self.program.add_request(event[1], [-event[2]], {"core": 1.0}, total=3)
            self.came += 1

    def events(self, rng: Any) -> Any:
        """Draw the events of a round."""
        yield "arrive", f"job {self.came}", float(rng.uniform(0.1, 1.0))
        if rng.random() < 0.3:
            yield "cores", int(rng.integers(1, 12))
        if len(self.program) and rng.random() < 0.3:
            yield "leave", self.program.request_ids[0]


@pytest.mark.parametrize("make", [Machines, Cores])
def test_a_sound_domain_passes(make: Any) -> None:
    counts = check_domain(make, rounds=40, seed=1)
    assert set(KINDS) <= set(counts) and sum(counts[kind] for kind in KINDS) == 40
    assert counts["refused"] > 50 and counts["feasible"] >= 40 and counts["bound"] >= 20
    assert counts["late"] and counts["error"] and counts["restart"]


def test_a_time_limit_ends_the_rounds_and_progress_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks, told = itertools.count(), list[tuple[int, str]]()
    monkeypatch.setattr(check, "monotonic", lambda: float(next(ticks)))  # a second each time it is read
    counts = check_domain(Cores, seed=1, seconds=40.0, progress=lambda *each: told.append(each))
    played = sum(counts[kind] for kind in KINDS)
    assert 1 < played < 20 and [number for number, _ in told] == list(range(played))
    assert told[0][1] == "plain round (events: 1, requests: 0)" and "late solver round" in told[1][1]
    assert sum(check_domain(Cores, seconds=0.0)[kind] for kind in KINDS) == 1  # the first round always ends
    told.clear()
    with pytest.raises(CheckFailedError) as caught:
        check_domain(Overdrawing, seed=3, seconds=400.0, progress=lambda *each: told.append(each))
    assert told[-1][1].startswith("feasible failed; ") and len(caught.value.rounds) < told[-1][0] + 1


class Overdrawing(Machines):
    """Gives everybody the largest size."""

    def round(self, solution: Any) -> Any:
        return dict.fromkeys(self.program.request_ids, 2)

    def fallback(self) -> Any:
        return {}

    def accept(self, answer: Any) -> None:
        pass

    def figures(self, answer: Any) -> Any:
        return {}


class Stale(Machines):
    """Falls back to the last answer as it was."""

    def fallback(self) -> Any:
        return super().fallback() if self.last is None else self.last


class Edits(Machines):
    """Counts in a method that must not change anything."""

    looked = 0

    def figures(self, answer: Any) -> Any:
        self.looked += 1
        return {}


class HalfApplied(Machines):
    """Counts an arrival before it is checked."""

    def apply(self, event: Any) -> None:
        if event[0] == "arrive":
            self.came += 1
        super().apply(event)


class Forgetful(Machines):
    """Does not keep its program when it is pickled."""

    def __getstate__(self) -> Any:
        return {**vars(self), "program": Machines().program}


class Swallowing(Machines):
    """Never says that anything went wrong."""

    def round(self, solution: Any) -> Any:
        raise ValueError("always")


class Wishful(Machines):
    """Solves a program of other costs, and claims that it is this one."""

    def solve(self, solver: Any) -> Any:
        import dataclasses

        found = solver.solve(self.program)
        return dataclasses.replace(found, bound=found.objective + 10.0)


class Boasting(Machines):
    """Says that its answers are better than they can be."""

    def objective(self, answer: Any) -> float:
        return -1.0


@pytest.mark.parametrize(
    ("make", "check", "why"),
    [
        (Overdrawing, "feasible", "resource 'gpu'"),
        (Stale, "feasible", ""),
        (Edits, "unchanged", "figures changed the domain"),
        (HalfApplied, "error", "was rejected"),
        (Forgetful, "error|restart|raised", ""),
        (Swallowing, "raised", "ValueError: always"),
        (Wishful, "bound", "HiGHS"),
        (Boasting, "bound", "the answer has the objective -1.0, but the optimum is"),
    ],
)
def test_a_broken_promise_is_found(make: Any, check: str, why: str) -> None:
    with pytest.raises(CheckFailedError) as caught:
        check_domain(make, rounds=60, seed=0)
    assert caught.value.check in check.split("|"), caught.value
    assert why in str(caught.value)
