"""Whether what a suite measured can be believed: nothing here looks at speed."""

from __future__ import annotations

import math
from collections.abc import Iterator

from copter.bench.settings import Record
from copter.bench.suite.claims import of_integers, unconfirmed
from copter.bench.suite.results import LineResult, SolverResult, SuiteResult
from copter.bench.suite.statistics import OURS

_ROUNDING = 1e-9
_INTEGRAL = ("exact", "shockwave")
"""Families whose bounds are on the integral allocation."""


def problems(suite: SuiteResult) -> list[str]:
    """What is wrong, a sentence each; empty if all is well.

    An answer of copter's that is not certified, a claim that the checker does not confirm, a solver that
    failed, programs of one round that differ, two certified answers for it whose objectives cannot both be
    right, a line that is not done.

    Returns
    -------
    list of str
    """
    found = [f"{name}: not begun" for name in suite.order if name not in suite.lines]
    for line in suite.lines.values():
        found += [f"{line.name}: {name} is not done" for name in line.order if name not in line.solvers]
        for one in line.solvers.values():
            found += [f"{line.name}: {one.solver} {what}" for what in _of_solver(line, one)]
        found += [f"{line.name}: {what}" for what in _disagreements(line)]
    return found


def _of_solver(line: LineResult, one: SolverResult) -> Iterator[str]:
    if one.status == "failed":
        yield f"failed: {one.reason}"
        return
    if claims := unconfirmed(one):
        yield f"claims an optimum that the checker does not confirm, in rounds {claims}"
    held = one.solver == line.order[0] and one.solver.startswith(OURS)
    if held and one.status != "not run" and not line.certified(one.solver):
        rounds = [record["round"] for record in one.records if not record["certified"]]
        yield f"is {one.status} and has no certified answer in rounds {rounds}: {one.reason}"


def _disagreements(line: LineResult) -> Iterator[str]:
    """Programs that are not the same, and answers below a bound that another solver has."""
    if line.own_rounds:
        return
    yield from _programs(line)
    value = "integral_objective" if line.family in _INTEGRAL else "objective"
    for number in range(line.rounds):
        records = [
            record
            for one in line.solvers.values()
            for record in one.records
            if record["round"] == number and _counts(line, record) and math.isfinite(record[value])
        ]
        bounds = [record for record in records if math.isfinite(record["bound"])]
        if not bounds:
            continue
        best = min(records, key=lambda record: record[value])
        held = max(bounds, key=lambda record: record["bound"])
        size = max(abs(best[value]), abs(held["bound"]))
        if best[value] < held["bound"] - (line.tolerance + _ROUNDING) * size:
            yield (
                f"round {number}: {best['solver']} has {best[value]:.9g}, below the bound "
                f"{held['bound']:.9g} of {held['solver']}"
            )


def _counts(line: LineResult, record: Record) -> bool:
    """Whether an answer and its bound can be held against others': checked, or of the integral program."""
    return bool(record["certified"]) or (line.family in _INTEGRAL and of_integers(record))


def _programs(line: LineResult) -> Iterator[str]:
    """Rounds in which two solvers of the line's program had programs of different sizes."""
    for number in range(line.rounds):
        sizes: dict[tuple[float, float], str] = {}
        for one in line.solvers.values():
            for record in one.records:
                # a method or branch and bound makes a model of its own, and has no objective of the program
                if record["round"] == number and math.isfinite(record["objective"]):
                    sizes.setdefault((record["n_variables"], record["nnz"]), one.solver)
        if len(sizes) > 1:
            told = (f"{who}'s of {n:g} columns, {nnz:g} nonzeros" for (n, nnz), who in sizes.items())
            yield f"round {number}: programs differ: {'; '.join(told)}"
