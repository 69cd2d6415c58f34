"""A maximisation is the minimisation of the negated costs: same allocations, same prices, negated figures."""

import copy
import itertools

import numpy as np
import pytest

from copter import (
    ChooseOneShim,
    ContinualProgram,
    FlowShim,
    Journal,
    LogTerm,
    Model,
    ProximalPoint,
    make_solver,
    read_model,
    write_mps,
)
from copter.bench.recording import Recorder, read_rounds
from copter.errors import CopterError, SettingError, UnplacedError
from copter.solvers.generation import MissingColumns, generations

SOLVERS = ("copter", "copter-exact", "copter-cold", "highs-hot", "highs-milp")


def negated(value):
    """Costs in any of the forms of an edit method, negated; handles and None stay."""
    if isinstance(value, dict):
        return {column: 0.0 - cost for column, cost in value.items()}
    return value if value is None or hasattr(value, "generation") else 0.0 - np.asarray(value)


class Pair:
    """The same edits of a minimisation, and, with negated costs, of a maximisation."""

    def __init__(self, seed, integral=False, low=None, high=None):
        self.rng, self.integral = np.random.default_rng(seed), integral
        self.low = ContinualProgram() if low is None else low
        self.high = ContinualProgram(sense="max") if high is None else high
        for k in range(3):
            self.both("add_resource", f"r{k}", upper=float(self.rng.integers(8, 16)))
        for q in range(10):
            self.add(q)

    def both(self, verb, *arguments, **options):
        getattr(self.low, verb)(*arguments, **options)
        given = {name: negated(v) if name in ("costs", "override") else v for name, v in options.items()}
        getattr(self.high, verb)(*arguments, **given)

    def add(self, id):
        rng, n = self.rng, int(self.rng.integers(2, 5))
        usage = {f"r{k}": rng.integers(0, 4, n).astype(float) for k in range(3)}
        override = {0: float(-rng.uniform(0.1, 2.0))} if rng.random() < 0.3 else None
        costs, scale = -rng.uniform(0.1, 2.0, n), float(rng.uniform(0.5, 2.0))
        more = {"scale": scale, "override": override, "integral": self.integral}
        self.both("add_request", id, costs=costs, usage=usage, total=1, **more)

    def edit(self):
        rng = self.rng
        for id in self.low.request_ids:
            n = self.low.requests[id].costs.size
            kind = int(rng.integers(6))
            if kind == 0:
                self.both("remove_request", id)
            elif kind == 1:
                self.both("update_request", id, costs=-rng.uniform(0.1, 2.0, n))
            elif kind == 2:
                self.both("update_request", id, override={n - 1: -float(rng.uniform(0.1, 2.0))})
            elif kind == 3:
                self.both("price_moves", id, [0], 0.25)
        self.add(int(rng.integers(1000, 10**9)))
        self.both("update_resources", "r1", upper=float(rng.integers(8, 16)))


def same(low, high):
    """Assert that two answers are the same but for the sense."""
    assert (low.status, low.iterations, low.found) == (high.status, high.iterations, high.found)
    assert [part.tobytes() for part in low.nonzeros] == [part.tobytes() for part in high.nonzeros]
    assert low.y.tobytes() == high.y.tobytes() and dict(low.price) == dict(high.price)
    assert (low.gap, low.relative, low.gap_denominator) == (high.gap, high.relative, high.gap_denominator)
    assert (-low.objective, -low.bound, -low.constant_cost) == (
        high.objective,
        high.bound,
        high.constant_cost,
    )
    assert vars(low.certificate) == vars(high.certificate)
    assert (low.integer is None) == (high.integer is None)
    if low.integer is not None:
        assert (-low.integer.bound, low.integer.gap) == (high.integer.bound, high.integer.gap)


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("seed", range(4))
def test_answers_are_the_same_with_negated_figures(name, seed):
    pair = Pair(seed, integral=name in ("copter-exact", "highs-milp"))
    one, other = make_solver(name), make_solver(name)
    for _ in range(4):
        low, high = one.solve(pair.low), other.solve(pair.high)
        same(low, high)
        assert low.found and high.objective >= 0.0 and high.objective <= high.bound + high.rounding
        pair.edit()


@pytest.mark.parametrize("seed", range(6))
def test_roundings_are_the_same_with_negated_objectives(seed):
    pair, one, other = Pair(seed), make_solver("copter"), make_solver("copter")
    shims = [(make(), make()) for make in (ChooseOneShim, FlowShim)]
    for _ in range(3):
        low, high = one.solve(pair.low), other.solve(pair.high)
        for least, most in shims:
            a, b = least.round(pair.low, low), most.round(pair.high, high)
            assert (-a.objective, a.gap) == (b.objective, b.gap) and 0.0 <= b.gap < 1.0
            again = least.repair(pair.low, a), most.repair(pair.high, b)
            assert -again[0].objective == again[1].objective
            if isinstance(least, ChooseOneShim):
                assert dict(a.choice) == dict(b.choice)
                best = sum(pair.high.requests[q].costs[j] for q, j in b.choice.items() if j is not None)
                assert b.objective == pytest.approx(best)
            else:
                assert a.flow.values.tobytes() == b.flow.values.tobytes()
        pair.edit()


def test_an_allocation_without_a_request_that_needs_a_column_is_worth_minus_infinity():
    program = ContinualProgram(sense="max")
    program.add_resources(["here", "there"], upper=1.5)
    for id in range(3):  # halves fit, whole columns do not
        usage = {"here": [1, 0], "there": [0, 1]}
        program.add_request(id, [1.0, 2.0], usage, total=1, relation="==")
    solution = make_solver("copter").solve(program)
    assert solution.objective == pytest.approx(4.5, rel=1e-4)
    with pytest.raises(UnplacedError) as error:
        ChooseOneShim().round(program, solution)
    assert error.value.rounded.objective == -np.inf and error.value.rounded.gap == np.inf


def test_figures_are_those_that_are_worked_out_by_hand():
    program = ContinualProgram(sense="max")
    program.add_resource("gpu", upper=3)
    program.add_request("a", [2.0, 3.0], {"gpu": [1, 2]}, total=1)
    program.add_request("b", [1.0], {"gpu": [4]}, upper=1)
    solution = make_solver("copter").solve(program)
    assert solution.objective == pytest.approx(3.25) and solution.bound == pytest.approx(3.25)
    assert solution.price["gpu"] == pytest.approx(0.25)  # one more GPU is worth a quarter
    assert solution.bound >= solution.objective - solution.rounding
    assert repr(solution).startswith("<Solution optimal: objective 3.25")
    assert repr(program).endswith("maximised>") and program.sense == solution.sense == "max"
    assert "maximised" not in repr(ContinualProgram())


def test_a_convex_term_is_subtracted():
    program = ContinualProgram(sense="max")
    program.add_resource("link", upper=4)
    program.add_request("a", [0.0], {"link": [1]}, term=LogTerm(2.0, 1.0, image=[1.0]), upper=1e3)
    solution = make_solver("copter").solve(program)
    assert solution.x["a"].tolist() == pytest.approx([4.0])
    assert solution.objective == pytest.approx(2.0 * np.log(5.0), rel=1e-5)


def test_files_have_the_sense(tmp_path):
    pair = Pair(3)
    write_mps(pair.high, tmp_path / "program.mps")
    assert "OBJSENSE\n    MAX" in (tmp_path / "program.mps").read_text()
    lp, arrays = read_model(tmp_path / "program.mps"), pair.high.to_arrays()
    assert lp.maximize and arrays.maximize
    assert lp.c.tolist() == arrays.c.tolist() == pair.low.to_arrays().c.tolist()
    expected = make_solver("copter").solve(pair.high).objective
    assert Model(lp).solve().objective == pytest.approx(expected, rel=1e-4)


def test_a_journal_has_the_sense_of_its_program(tmp_path):
    low, high = tmp_path / "low", tmp_path / "high"
    with Journal(low, ProximalPoint()) as a, Journal(high, ProximalPoint(), sense="max") as b:
        pair = Pair(5, low=a, high=b)
        same(a.solve(), b.solve())
        pair.edit()
        same(a.solve(), b.solve())
        assert b.sense == copy.deepcopy(b).sense == "max"
    with Journal(low, ProximalPoint()) as a, Journal(high, ProximalPoint()) as b:
        assert (a.sense, b.sense) == ("min", "max")
        pair.low, pair.high = a, b
        pair.edit()
        same(a.solve(), b.solve())
    with pytest.raises(CopterError, match="sense = 'min': must be 'max'"):
        Journal(high, sense="min")
    with Journal(tmp_path / "given", program=ContinualProgram(sense="max")) as journal:
        assert journal.sense == "max"


def test_recordings_are_replayed_in_the_sense_of_the_program(tmp_path):
    with Recorder(tmp_path / "rounds", sense="max") as program:
        program.add_request("a", [1.0, 2.0], {}, total=1)
        program.end_round()
    for sense, costs in (("max", [1.0, 2.0]), ("min", [-1.0, -2.0])):
        program = ContinualProgram(sense=sense)
        for edit in itertools.chain.from_iterable(read_rounds(tmp_path / "rounds", program)):
            edit()
        assert program.requests["a"].costs.tolist() == costs


def test_column_generation_has_an_upper_bound():
    program = ContinualProgram(sense="max")
    program.add_resource("gpu", upper=2)
    program.add_request("a", [1.0], {"gpu": [1]}, upper=1e3)
    steps = iter([MissingColumns(1, 5.0), MissingColumns(0, 0.0)])

    def pricing(solution):
        missing = next(steps)
        if missing.added:
            program.add_request("b", [2.0], {"gpu": [1]}, upper=1e3)
        return missing

    bounds = [each.bound for each in generations(program, make_solver("copter"), pricing)]
    assert bounds == pytest.approx([7.0, 4.0], rel=1e-4)


@pytest.mark.parametrize("sense", ["maximise", None, 1, "MAX"])
def test_another_sense_is_refused(sense):
    with pytest.raises(SettingError, match=r'must be "min" or "max"'):
        ContinualProgram(sense=sense)
