"""What a late round falls back to: the last allocation, as far as the program of now allows it."""

from __future__ import annotations

import numpy as np
import pytest

from copter import ChooseOneShim, ContinualProgram, FlowShim, make_solver
from copter.errors import UnplacedError
from copter.rounds.check import overdrawn
from copter.shims.flow import THETA, UtilisationShim


def used(program: ContinualProgram, choice: dict[object, object]) -> dict[object, float]:
    """What a choice uses of each resource, one request after the other."""
    total: dict[object, float] = dict.fromkeys(program.resource_ids, 0.0)
    for request, column in choice.items():
        if column is not None:
            k = list(program.requests[request].columns).index(column)
            for resource, (at, value) in program.requests[request].usage.items():
                total[resource] += float(value[at.tolist().index(k)]) if k in at.tolist() else 0.0
    return total


class TestChooseOne:
    def program(self, seed: int) -> ContinualProgram:
        rng = np.random.default_rng(seed)
        program = ContinualProgram()
        program.add_resources(["a", "b", "c"], upper=rng.integers(5, 15, 3).astype(float))
        for k in range(8):
            self.add(program, f"q{k}", rng)
        return program

    def add(self, program: ContinualProgram, id: str, rng: np.random.Generator) -> None:
        n = int(rng.integers(2, 5))
        usage = {r: rng.integers(0, 4, n).astype(float) for r in program.resource_ids}
        relation = "==" if rng.random() < 0.5 else "<="
        names = tuple(f"column {j}" for j in range(n)) if rng.random() < 0.5 else None
        program.add_request(id, rng.normal(size=n), usage, total=1, relation=relation, columns=names)  # type: ignore[arg-type]

    @pytest.mark.parametrize("seed", range(30))
    def test_after_any_edits_it_is_feasible_and_keeps_what_fits(self, seed: int) -> None:
        program, shim = self.program(seed), ChooseOneShim(unplaced="allow")
        solution = make_solver("copter").solve(program)
        if not solution.found:
            pytest.skip("nothing fits")
        last, rng = shim.round(program, solution), np.random.default_rng(seed + 100)
        before = dict(last.choice)
        program.remove_request("q0")
        self.add(program, "new", rng)
        shrunk = seed % 2 == 0
        if shrunk:
            program.update_resources("a", upper=float(rng.integers(0, 5)))
        repaired = shim.repair(program, last)
        choice = dict(repaired.choice)
        assert set(choice) == set(program.request_ids)
        for resource, amount in used(program, choice).items():
            assert amount <= program.resources[resource].upper
        placed = {id: c for id, c in choice.items() if c is not None}
        if not shrunk:
            kept = {id for id in before if id != "q0" and before[id] is not None}
            assert all(choice[id] == before[id] for id in kept)
        for id in placed:
            if program.requests[id].relation == "<=":
                assert choice[id] == before.get(id)  # nobody else gets another one
        cost = sum(
            program.requests[id].costs[list(program.requests[id].columns).index(c)]
            for id, c in placed.items()
        )
        lacking = [id for id in choice if choice[id] is None and program.requests[id].relation == "=="]
        assert repaired.objective == (np.inf if lacking else pytest.approx(cost, abs=1e-12))
        assert repaired.gap == np.inf

    def test_a_column_that_was_replaced_is_found_by_its_name(self) -> None:
        program, shim = ContinualProgram(), ChooseOneShim()
        program.add_resource("r", upper=10)
        program.add_request("q", [-2.0, -1.0], {"r": [1, 2]}, total=1, columns=("x", "y"))
        program.add_request("p", [-2.0, -1.0], {"r": [1, 2]}, total=1)
        last = shim.round(program, make_solver("copter").solve(program))
        assert last.choice["q"] == "x"
        program.add_columns("q", ["z"], -5.0, {"r": 1})
        program.remove_columns("q", ["y"])
        program.update_request("p", costs=[1.0, 0.0], usage={"r": [1, 2]})
        assert dict(shim.repair(program, last).choice) == {"q": "x", "p": None}
        program.remove_columns("q", ["x"])
        assert shim.repair(program, last).choice["q"] is None

    def test_who_must_have_a_column_and_finds_none_is_named(self) -> None:
        program = ContinualProgram()
        program.add_resource("r", upper=1)
        program.add_request("q", [0.0], {"r": 2}, total=1, relation="==")
        with pytest.raises(UnplacedError, match="'q'"):
            ChooseOneShim().repair(program, None)


class TestFlow:
    @pytest.mark.parametrize("seed", range(20))
    def test_after_any_edits_it_is_feasible_and_filled(self, seed: int) -> None:
        rng, program, shim = np.random.default_rng(seed), ContinualProgram(), FlowShim()
        program.add_resources(range(4), upper=rng.uniform(2, 6, 4))
        for k in range(6):
            usage = {r: rng.integers(0, 2, 3).astype(float) for r in range(4)}
            program.add_request(k, -rng.uniform(0.5, 1.5, 3), usage, total=float(rng.uniform(1, 3)))
        last = shim.round(program, make_solver("copter").solve(program))
        program.remove_request(0)
        program.add_request("new", [-1.0], {1: 1.0}, total=2.0)
        program.update_resources([1, 2], upper=rng.uniform(0, 4, 2))
        program.update_request(3, total=0.5)
        repaired = shim.repair(program, last)
        x = repaired.nonzeros
        amounts: dict[object, dict[int, float]] = {id: {} for id in program.request_ids}
        id_of = {slot: id for id, slot in program.slot_of.items()}
        for slot, column, value in zip(x.slot.tolist(), x.column.tolist(), x.value.tolist(), strict=True):
            amounts[id_of[slot]][column] = value
        assert not list(overdrawn(program, amounts))
        cost = sum(program.requests[i].costs[c] * v for i, own in amounts.items() for c, v in own.items())
        assert repaired.objective == pytest.approx(cost, abs=1e-9)
        # nothing that is left can be given to anybody
        load = {r: 0.0 for r in program.resource_ids}
        for id, own in amounts.items():
            for r, (at, value) in program.requests[id].usage.items():
                load[r] += sum(v * own.get(k, 0.0) for k, v in zip(at.tolist(), value.tolist(), strict=True))
        for id, own in amounts.items():
            one, room = program.requests[id], 0.0
            lacks = one.total - sum(own.values())  # type: ignore[operator]
            for j in range(len(one.costs)):
                need = {
                    r: dict(zip(at.tolist(), v.tolist(), strict=True)).get(j, 0.0)
                    for r, (at, v) in one.usage.items()
                }
                rows = [(program.resources[r].upper - load[r]) / a for r, a in need.items() if a > 0]
                room = max(room, min([lacks, *rows]))
            assert room < 1e-4, (id, room)

    def test_a_split_is_kept_for_new_volumes(self) -> None:
        program, shim = ContinualProgram(), UtilisationShim()
        program.add_resources(["top", "bottom"], upper=0.0)
        program.add_request(THETA, [1.0], {"top": -4.0, "bottom": -2.0}, upper=100.0)
        program.add_request("d", [0.0, 0.0], {"top": [1, 0], "bottom": [0, 1]}, total=3.0, relation="==")
        last = shim.round(program, make_solver("copter", tolerance=1e-7).solve(program))
        assert last.objective == pytest.approx(0.5, rel=1e-4)
        program.update_request("d", total=6.0)
        assert shim.repair(program, last).objective == pytest.approx(1.0, rel=1e-4)
        program.add_request("e", [0.0], {"bottom": 1.0}, total=2.0, relation="==")
        assert shim.repair(program, last).objective == pytest.approx(2.0, rel=1e-4)
