"""Explanations: every sentence is judged on the changed program; random domains are in `domain_rounds`."""

import math
import pickle
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from copter import ContinualProgram, LogTerm, ProximalPoint
from copter.errors import CopterError, NoAllocationError, UnknownIdError
from copter.solution import Start, Status, Timings, make_solution
from copter.store.allocation import NOTHING
from support.strategies import KINDS, random_plain
from support.why_judge import Judge, Sentences

EXACT = 1e-9
"""Tolerance of the solver whose answers are explained here."""


def check(program, solution, ids, seen):
    """Judge all sentences about some requests; count them by kind."""
    judge = Judge(program, solution, seen)
    for id in ids:
        Sentences(judge, id, seen).check(solution.explain(id).sentences)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sense", ["min", "max"])
def test_random_programs(kind, sense):
    seen = Counter()
    for seed in range(12):
        rng = np.random.default_rng([seed, len(kind)])
        plain = random_plain(rng, kind)
        program = ContinualProgram(sense=sense)
        if sense == "max":
            for request in plain.requests.values():
                request.costs = [-cost for cost in request.costs]
        plain.build(program)
        solution = ProximalPoint(tolerance=EXACT).solve(program)
        if not solution.is_optimal(EXACT):
            seen["unproved"] += 1
            continue
        check(program, solution, rng.permutation(list(program.request_ids))[:3].tolist(), seen)
    assert min(seen["worse"], seen["increase"]) > 3 and seen["tight"] > 0 and seen["unproved"] <= 2, seen
    assert min(seen["may"], seen["lacking"]) > 3 or kind == "boxes", seen


def queue(seed, resources=3, requests=24):
    """Return a program in which requests compete for few resources, and some can never run."""
    rng = np.random.default_rng(seed)
    program = ContinualProgram(sense="max")
    for k in range(resources):
        program.add_resource(("gpu", k), upper=float(rng.integers(2, 12)))
    for id in range(requests):
        sizes = np.sort(rng.choice([1, 2, 4, 8, 16], rng.integers(1, 4), replace=False)).astype(float)
        usage = {("gpu", k): sizes for k in rng.choice(resources, rng.integers(1, 3), replace=False).tolist()}
        worth = rng.uniform(1, 3) * sizes**0.8
        program.add_request(
            id, worth, usage, total=1, columns=[f"{size:g} GPUs" for size in sizes], integral=True
        )
    return program


def test_requests_that_wait():
    seen = Counter()
    for seed in range(6):
        program = queue(seed)
        solution = ProximalPoint(tolerance=EXACT).solve(program)
        waiting = [id for id in program.request_ids if not solution.x.nonzeros(id)[1].size]
        check(program, solution, waiting[:4], seen)
    assert not seen["has"] and min(seen[kind] for kind in ("increase", "too large")) > 3, seen


def test_a_sentence_rounds_its_bounds_down():
    program = queue(1)
    solution = ProximalPoint(tolerance=EXACT).solve(program)
    checked = 0
    for id in program.request_ids:
        why = solution.explain(id)
        for sentence in why.sentences:
            if "worse by at least" in sentence:
                column = sentence.split("'")[1]
                (one,) = (each for each in why.columns if each.column == column)
                printed = Fraction(sentence.split("at least ")[1].split(";")[0])
                assert Fraction(one.loss) * Fraction(99999, 100000) <= printed <= Fraction(one.loss)
                checked += 1
    assert checked > 20


def test_wrong_calls():
    program = queue(0)
    solver = ProximalPoint()
    solution = solver.solve(program)
    with pytest.raises(UnknownIdError, match="nobody"):
        solution.explain("nobody")
    again = pickle.loads(pickle.dumps(solution))
    with pytest.raises(CopterError, match="was deleted, or the solution was pickled"):
        again.explain(0)
    program.update_resources([("gpu", 0)], upper=[1.0])
    with pytest.raises(CopterError, match="edited after"):
        solution.explain(0)
    program.add_request("must", [1.0], {("gpu", 0): 99.0}, total=1, relation="==")
    with pytest.raises(NoAllocationError):
        solver.solve(program).explain("must")
    gone = ProximalPoint().solve(queue(0))
    with pytest.raises(CopterError, match="was deleted"):
        gone.explain(0)


def test_a_generous_bound_and_small_units_hide_nothing():
    for upper, room in ((1e9, 500.0), (1e3, 5e-7), (1e12, 1e9)):
        program = ContinualProgram(sense="max")
        program.add_resource("r", upper=room)
        program.add_request("q", [1.0], {"r": 1.0}, upper=[upper])
        solution = ProximalPoint(tolerance=EXACT).solve(program)
        assert f"has {room:.6g} of column 0" in solution.explain("q").sentences[0]


def test_nothing_is_claimed_of_a_solution_that_is_not_optimal():
    program = ContinualProgram(sense="max")
    program.add_resource("r", upper=10.0)
    for id, worth in enumerate((5.0, 6.0, 7.0)):
        program.add_request(id, [worth], {"r": 4.0}, total=1)
    nothing = make_solution(
        program,
        NOTHING,
        np.ones(1),
        status=Status.DEADLINE,
        reason="by the test",
        iterations=0,
        timings=Timings(),
        warm=Start(False, "by the test"),
    )
    why = nothing.explain(2)
    assert "has nothing" in why.sentences[0]
    assert not why.columns[0].loss


def test_what_is_missing_counts_what_others_use_too_much():
    program = ContinualProgram()
    program.add_resource("r", upper=-5.0)
    program.add_request("q", [0.0, 0.0], {"r": [-10.0, 1.0]}, total=1)
    program.add_request("b", [-10.0], {"r": 1.0}, upper=[2.0])
    why = ProximalPoint(tolerance=EXACT).solve(program).explain("q")
    assert why.columns[1].lacking["r"] == pytest.approx(8.0)


def test_a_convex_term_is_not_forgotten_in_the_sentences():
    program = ContinualProgram(sense="max")
    program.add_resource("r", upper=4.0)
    program.add_request(
        "q", [0.0, 0.0], {"r": [1.0, 1.0]}, upper=3.0, term=LogTerm(1.0, 1.0, image=[1.0, 1.5])
    )
    said = str(ProximalPoint(tolerance=EXACT).solve(program).explain("q"))
    assert "contributes 0 to the objective, besides its convex term" in said
    assert "adds 0 to the objective, besides its convex term" in said


@pytest.mark.parametrize("frees", [0.0, 3.0])
def test_a_column_for_which_no_allocation_leaves_enough(frees):
    """A request with a negative use frees some of the resource, and the column fits then."""
    program = ContinualProgram()
    program.add_resource("r", upper=5.0)
    program.add_request("big", [-1.0, 0.5], {"r": [7.0, 2.0]}, total=1)
    program.add_request("frees", [9.0], {"r": -frees}, total=1)
    solution = ProximalPoint(tolerance=EXACT).solve(program)
    why = solution.explain("big")
    first = why.columns[0]
    if frees:
        assert not first.blocked and math.isfinite(first.loss)
    else:
        assert first.blocked == {"r": (7.0, 5.0)} and first.loss == math.inf and not first.increases
        said = (
            "No allocation has 1 of column 0, because it needs 7 of 'r', and no allocation leaves more than "
        )
        assert f"{said}5." in why.sentences
    check(program, solution, ["big"], Counter())


def test_uses_that_free_count_up_to_their_bound():
    for others, upper in (({"total": 2}, math.inf), ({}, [4.0])):
        program = ContinualProgram()
        program.add_resource("r", upper=1.0)
        program.add_request("q", [-1.0, 0.0], {"r": [9.0, -1.0]}, total=1)
        program.add_request("frees", [1.0], {"r": -1.0}, upper=upper, **others)
        one = ProximalPoint(tolerance=EXACT).solve(program).explain("q").columns[0]
        left = 1.0 + (2.0 if others else 4.0)
        assert one.blocked == {"r": (9.0, left)}, (others, upper)


def test_what_the_certificate_does_not_know_is_not_claimed():
    """Two resources exclude a column only together: at prices of 0, nothing proves it."""
    program = ContinualProgram()
    for id in "rs":
        program.add_resource(id, lower=-math.inf, upper=1.0)
    program.add_request("must", [1.0, 1.0], {"r": [1.0, 0.0], "s": [0.0, 1.0]}, total=1, relation="==")
    program.add_request("q", [0.0], {"r": 1.0, "s": 1.0}, total=1)
    solution = ProximalPoint(tolerance=EXACT).solve(program)
    why = solution.explain("q")
    (one,) = why.columns
    if not one.has and not one.loss:
        assert "The certificate does not exclude that an allocation with 1 of column 0" in why.sentences[1]
    check(program, solution, ["q"], Counter())
