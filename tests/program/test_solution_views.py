"""Views of a solution: use and slack of resources, a frame of the nonzeros, and the table of a notebook."""

import pickle
from collections import Counter

import numpy as np
import pytest

from copter import ContinualProgram, Model, make_solver
from copter.errors import CopterError, NoAllocationError
from copter.rounds.record import RoundRecord, Seconds


def solved(seed=0):
    rng, program = np.random.default_rng(seed), ContinualProgram(sense="max")
    program.add_resources(["a", "b", "c"], upper=[4.0, 5.0, 1e9], lower=[0.0, 1.0, -1e9])
    for k in range(12):
        usage = {"a": rng.uniform(0, 1, 3), "b": rng.uniform(0, 1, 3)}
        names = ["x", "y", "z"] if k % 2 else None
        program.add_request(f"r{k}", rng.uniform(0, 2, 3), usage, total=1, columns=names)
    return program, make_solver("copter").solve(program)


def test_activity_and_slack_are_those_of_the_arrays():
    program, solution = solved()
    lp = program.to_arrays()
    dense = np.concatenate(
        [[*own.values()] if hasattr(own, "values") else own for own in solution.x.values()]
    )
    used = lp.A @ dense
    assert list(solution.activity) == ["a", "b", "c"]
    assert list(solution.activity.values()) == pytest.approx(used[:3], abs=1e-12)
    slack = np.minimum(lp.row_upper[:3] - used[:3], used[:3] - lp.row_lower[:3])
    assert list(solution.slack.values()) == pytest.approx(slack, abs=1e-9)
    assert min(abs(solution.slack["a"]), abs(solution.slack["b"])) <= 1e-5


@pytest.mark.parametrize("sense", ["min", "max"])
def test_reduced_costs_are_those_of_highs(sense):
    counts = Counter()
    for seed in range(20):
        rng, program = np.random.default_rng(seed), ContinualProgram(sense=sense)
        sign = -1.0 if sense == "min" else 1.0
        program.add_resources(["a", "b"], upper=[3.0, 4.0])
        for k in range(9):
            form = [{"total": 1}, {"total": 1, "relation": "=="}, {"upper": [1.0, 0.5, 2.0]}][k % 3]
            usage = {"a": rng.uniform(0, 1, 3), "b": rng.uniform(0, 1, 3)}
            program.add_request(f"r{k}", sign * rng.uniform(0, 2, 3), usage, scale=rng.uniform(1, 2), **form)
        solution = make_solver("highs-simplex").solve(program)
        lp = program.to_arrays()
        model = Model(lp).solve()
        assert solution.objective == pytest.approx(model.objective, rel=1e-9)
        wanted = (-1.0 if sense == "max" else 1.0) * model.certificate.reduced_costs
        found = np.concatenate(list(solution.reduced_costs.values()))
        assert found == pytest.approx(wanted, abs=1e-7)
        counts.update(np.sign(np.round(sign * found, 7)).tolist())
    assert min(counts[kind] for kind in (-1.0, 0.0, 1.0)) > 20
    assert make_solver("copter").solve(ContinualProgram()).reduced_costs == {}


def test_a_frame_has_the_nonzeros_by_name():
    program, solution = solved()
    frame = solution.to_frame()
    assert frame.columns.tolist() == ["request", "column", "value"]
    assert len(frame) == solution.nonzeros.slot.size > 6
    for request, column, value in frame.itertuples(index=False):
        assert solution.x[request][column] == value
    assert {type(column) for column in frame["column"]} == {int, str}


def test_a_notebook_shows_tables_and_sentences_with_escaped_names():
    program, solution = solved()
    shown = solution._repr_html_()
    assert shown.count("<tr>") == 7 and "optimal" in shown and f"{solution.objective:.10g}" in shown
    program.add_request("<b>", [-1.0], {}, total=1)
    solution = make_solver("copter").solve(program)
    explained = solution.explain("<b>")
    assert explained._repr_html_().count("<p>") == len(explained.sentences) > 0
    assert "&lt;b&gt;" in explained._repr_html_() and "<b>" not in explained._repr_html_()
    record = RoundRecord(0, 1, Seconds(0.0, 0.25, 0.0, 0.0), None, 1.0, 0.0, False, "solved", "a < b")
    table = record._repr_html_()
    assert "<th>solve_seconds</th><td>0.25</td>" in table and "a &lt; b" in table


def test_views_of_another_state_of_the_program_are_refused():
    program, solution = solved()
    with pytest.raises(CopterError, match="pickled"):
        pickle.loads(pickle.dumps(solution)).activity  # noqa: B018
    program.update_resource("a", upper=3.0)
    with pytest.raises(CopterError, match="edited after this solution"):
        solution.slack  # noqa: B018
    program.update_resource("b", lower=1e6, upper=2e6)
    none = make_solver("copter").solve(program)
    assert not none.found
    with pytest.raises(NoAllocationError):
        none.activity  # noqa: B018
    with pytest.raises(NoAllocationError):
        none.to_frame()
