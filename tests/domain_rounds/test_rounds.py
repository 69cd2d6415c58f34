"""A round of a domain: what it reports, when it falls back, and that nothing is half-applied."""

from __future__ import annotations

import asyncio
import math
import threading
from typing import Any

import pytest

from copter import ContinualProgram, Move, Rounds
from copter.clock import time_left
from copter.errors import ConcurrentUseError, DomainError, EditError, NoAllocationError, SettingError
from support.machines import Machines
from support.ticking import Ticking, tick

ARRIVALS = [("arrive", f"m{k}", (0.2 + 0.01 * k, 0.1, 0.5)) for k in range(3)]


class Pumps:
    """Pumps with a common supply and shares of it, in an answer of any kind."""

    def __init__(self, kind: Any, sense: Any = "min") -> None:
        self.program, self.kind, self.value = (
            ContinualProgram(sense=sense),
            kind,
            1.0 if sense == "max" else -1.0,
        )
        self.program.add_resource("water", upper=9)

    def apply(self, event: Any) -> None:
        self.program.add_request(event, [self.value], {"water": 1}, total=3)

    def round(self, solution: Any) -> Any:
        return self.kind({name: [float(solution.x[name][0])] for name in self.program.request_ids})

    def fallback(self) -> Any:
        return {}

    def accept(self, answer: Any) -> None:
        pass


class Answers(dict[Any, Any]):
    """A mapping whose items are attributes, too."""

    def __getattr__(self, name: str) -> Any:
        return self[name][0]


def choice(answer: Any) -> dict[Any, Any]:
    return dict(answer.choice)


class TestRecord:
    def test_events_are_solved_rounded_and_accepted(self) -> None:
        rounds = Rounds(Machines())
        record = rounds.play(*ARRIVALS)
        assert (record.number, record.edited, record.path, record.late) == (0, 3, "solved", False)
        assert record.answer is rounds.answer is rounds.domain.last  # type: ignore[attr-defined]
        assert rounds.number == 1
        assert record.solution is not None and record.bound == record.solution.bound
        assert record.gap == record.answer.gap and record.reason.startswith("optimal: ")
        assert all(seconds >= 0 for seconds in record.seconds)
        assert record.seconds.total == sum(record.seconds)

    def test_moves_are_what_is_different_from_the_last_answer(self) -> None:
        rounds = Rounds(Machines())
        first = rounds.play(*ARRIVALS).answer
        assert {move.who for move in first.moves} == {
            who for who, k in choice(first).items() if k is not None
        }
        assert all(move.source is None for move in first.moves)
        second = rounds.play(("memory", "gpu", 0.0)).answer
        expected = {
            Move(who, choice(first)[who], choice(second)[who])
            for who in choice(second)
            if choice(first)[who] != choice(second)[who]
        }
        assert expected and set(second.moves) == expected
        assert rounds.play().answer.moves == ()

    def test_metrics_count_rounds(self) -> None:
        pytest.importorskip("prometheus_client")
        rounds = Rounds(Machines(), metrics=True)
        rounds.play(*ARRIVALS)
        assert rounds.metrics is not None
        text = rounds.metrics.text()
        assert 'copter_played_rounds_total{domain="Machines",late="false",path="solved"} 1.0' in text
        assert 'copter_rounds_total{domain="Machines",status="optimal"} 1.0' in text


class TestDeadline:
    """A clock that the test moves: `slow` seconds pass in one method of the domain."""

    def slow(self, monkeypatch: pytest.MonkeyPatch, method: str, seconds: float) -> tuple[Any, Ticking]:
        clock = tick(monkeypatch, 0.0)

        class Slow(Machines):
            passing = seconds

            def solve(self, solver: Any) -> Any:
                self.given = time_left()
                found = solver.solve(self.program)
                clock.now += self.passing if method == "solve" else 0.0
                return found

            def round(self, solution: Any) -> Any:
                self.left = time_left()
                answer = super().round(solution)
                clock.now += self.passing if method == "round" else 0.0
                return answer

        return Slow(), clock

    @pytest.mark.parametrize("method", ["solve", "round"])
    def test_a_late_round_falls_back(self, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
        domain, _ = self.slow(monkeypatch, method, 0.0)
        rounds = Rounds(domain, time_limit=0.2)
        before = rounds.play(*ARRIVALS)
        assert before.path == "solved"
        domain.passing = 0.3
        record = rounds.play(("arrive", "late", (0.0, 0.0, 0.0)), ("memory", "gpu", 16.0))
        assert (record.path, record.late) == ("fallback", True)
        assert "0.3 s of 0.2 s" in record.reason
        assert "rounding" in record.reason if method == "round" else "solver" in record.reason
        assert math.isinf(record.gap) and math.isnan(record.bound)
        used = sum({1: 16, 2: 40}.get(k, 0) for k in choice(record.answer).values() if k is not None)
        assert used <= 16

    def test_the_solver_leaves_what_rounding_took(self, monkeypatch: pytest.MonkeyPatch) -> None:
        domain, _ = self.slow(monkeypatch, "round", 0.05)
        rounds = Rounds(domain, time_limit=0.2)
        rounds.play(*ARRIVALS)
        assert domain.given == pytest.approx(0.18)  # nobody knew: a tenth
        rounds.play()
        assert domain.given == pytest.approx(0.15)

    def test_a_deadline_is_a_number_of_seconds(self) -> None:
        with pytest.raises(SettingError, match="time_limit"):
            Rounds(Machines(), time_limit=-1.0)
        rounds = Rounds(Machines())
        with pytest.raises(SettingError, match="time_limit"):
            rounds.time_limit = math.nan
        with pytest.raises(SettingError, match="solver = 5: must be the name of a solver"):
            Rounds(Machines(), 5)  # type: ignore[arg-type]

    def test_edits_that_take_all_of_the_deadline(self, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = tick(monkeypatch, 0.0)

        class Slow(Machines):
            def prepare(self) -> None:
                clock.now += 1.0

            def solve(self, solver: Any) -> Any:
                raise AssertionError("there is no time for it")

        record = Rounds(Slow(), time_limit=0.2).play(*ARRIVALS)
        assert (record.path, record.late) == ("fallback", True)
        assert record.reason == "edits left no time: 1 s of 0.2 s had passed"
        assert record.seconds.edit == pytest.approx(1.0) and record.seconds.solve == 0.0

    def test_rounding_that_was_slow_once_is_tried_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        domain, _ = self.slow(monkeypatch, "round", 0.0)
        rounds = Rounds(domain, time_limit=0.2)
        rounds.play(*ARRIVALS)
        domain.passing = 30.0
        assert rounds.play().late
        domain.passing = 0.0
        paths = [rounds.play().path for _ in range(12)]
        assert paths[0] == "fallback" and paths[-1] == "solved"


class TestErrors:
    @pytest.mark.parametrize("method", ["round", "fallback", "accept", "prepare"])
    def test_an_error_leaves_domain_and_program_and_the_round_is_played_again(self, method: str) -> None:
        class Broken(Machines):
            broken = False

            def prepare(self) -> None:
                self.fail("prepare")

            def fail(self, here: str) -> None:
                if self.broken and method == here:
                    raise RuntimeError("broken")

            def round(self, solution: Any) -> Any:
                if self.broken and method == "fallback":
                    raise NoAllocationError("infeasible", "")
                answer = super().round(solution)
                self.fail("round")
                return answer

            def fallback(self) -> Any:
                self.fail("fallback")
                return super().fallback()

            def accept(self, answer: Any) -> None:
                self.fail("accept")
                super().accept(answer)

        domain = Broken()
        rounds = Rounds(domain)
        rounds.play(*ARRIVALS)
        domain.broken, last = True, domain.last
        event = ("arrive", "more", (0.0, 0.0, 0.0))
        with pytest.raises(RuntimeError, match="broken"):
            rounds.play(event)
        assert rounds.number == 1 and domain.last is last
        clock = domain.program.store.clock
        domain.broken = False
        record = rounds.play()
        assert record.edited == 1 and record.number == 1
        assert domain.program.store.clock == clock and "more" in choice(record.answer)

    def test_an_invalid_event_is_named_and_those_before_it_count(self) -> None:
        rounds = Rounds(Machines())
        with pytest.raises(EditError, match="'a'") as caught:
            rounds.play(ARRIVALS[0], ("leave", "a"), ARRIVALS[1])
        assert caught.value.__notes__ == ["event number 1 (from 0) of 3: ('leave', 'a')"]
        assert rounds.number == 0 and rounds.events == 1
        record = rounds.play(ARRIVALS[1])
        assert record.edited == 2 and set(choice(record.answer)) == {"m0", "m1"}

    @pytest.mark.parametrize("method", ["round", "fallback", "objective"])
    def test_only_apply_may_edit(self, method: str) -> None:
        class Editing(Machines):
            def edit(self, here: str) -> None:
                if here == method:
                    self.program.update_resources("gpu", by=-1.0)

            def round(self, solution: Any) -> Any:
                self.edit("round")
                raise NoAllocationError("", "")

            def fallback(self) -> Any:
                self.edit("fallback")
                return super().fallback()

            def objective(self, answer: Any) -> float:
                self.edit("objective")
                return 0.0

        with pytest.raises(DomainError, match=f"Editing.{method} edited the program"):
            Rounds(Editing()).play(*ARRIVALS)

    @pytest.mark.parametrize("missing", ["program", "apply", "round", "fallback", "accept"])
    def test_what_is_missing_of_a_domain_is_named(self, missing: str) -> None:
        members: dict[str, Any] = {name: None for name in ("program", "apply", "round", "fallback", "accept")}
        del members[missing]
        with pytest.raises(DomainError, match=f"Half must have {missing}"):
            Rounds(type("Half", (), members)())

    def test_two_threads_do_not_play_at_once(self) -> None:
        begun, go_on = threading.Event(), threading.Event()

        class Waiting(Machines):
            def round(self, solution: Any) -> Any:
                begun.set()
                go_on.wait(10)
                return super().round(solution)

        rounds = Rounds(Waiting())
        thread = threading.Thread(target=rounds.play, args=ARRIVALS)
        thread.start()
        try:
            assert begun.wait(60)
            with pytest.raises(ConcurrentUseError, match="another round is running"):
                rounds.play()
        finally:
            go_on.set()
            thread.join()
        assert rounds.number == 1


class TestOptional:
    @pytest.mark.parametrize("kind", [dict, Answers, "Series", "DataFrame"])
    def test_requests_that_are_called_like_figures(self, kind: Any) -> None:
        """The values of requests in an answer are no figures of the record."""
        kind = getattr(pytest.importorskip("pandas"), kind) if isinstance(kind, str) else kind
        names = ("gap", "bound", "objective", "solution")
        record = Rounds(Pumps(kind)).play(*names)
        assert math.isnan(record.gap) and math.isnan(record.objective)
        assert record.bound == record.solution.bound == pytest.approx(-9.0)
        assert record.relaxation_gap == record.solution.gap <= 1e-6
        row = record.row()
        assert math.isnan(row["answer_gap"]) and math.isnan(row["answer_objective"])
        assert (row["answer_bound"], row["relaxation_gap"]) == (record.bound, record.relaxation_gap)

    @pytest.mark.parametrize("sense", ["min", "max"])
    def test_the_gap_of_an_answer_is_that_of_its_own_objective(self, sense: Any) -> None:
        class Worse(Pumps):
            """Gives the first pump a third of what it may have, and nothing to the others."""

            def round(self, solution: Any) -> Any:
                return {self.program.request_ids[0]: 1.0}

            def objective(self, answer: Any) -> float:
                return self.value * sum(answer.values())

        record = Rounds(Worse(dict, sense)).play("a", "b", "c")
        optimum = 9.0 if sense == "max" else -9.0
        assert (record.path, record.objective) == ("solved", optimum / 9)
        assert record.bound == pytest.approx(optimum)
        assert record.gap == pytest.approx(8 / 9) and record.relaxation_gap <= 1e-6
        assert (
            record.row()["answer_objective"] == record.objective and record.row()["answer_gap"] == record.gap
        )

    def test_a_class_instead_of_a_domain(self) -> None:
        with pytest.raises(DomainError, match="Rounds needs an instance of Pumps and not the class itself"):
            Rounds(Pumps)  # type: ignore[arg-type]

    def test_events_that_are_no_events(self) -> None:
        class Nothing(Pumps):
            def events(self, rng: Any) -> Any:
                return None

        with pytest.raises(DomainError, match=r"Nothing\.events returned None; it must return an iterable"):
            Rounds(Nothing(dict)).warm_up()


class TestAsynchronous:
    def test_events_that_come_during_a_round_count_for_the_next(self) -> None:
        begun, go_on = threading.Event(), threading.Event()

        class Waiting(Machines):
            def round(self, solution: Any) -> Any:
                begun.set()
                go_on.wait(10)
                return super().round(solution)

        async def run() -> list[Any]:
            rounds = Rounds(Waiting())
            first = asyncio.create_task(rounds.play_async(ARRIVALS[0]))
            await asyncio.to_thread(begun.wait, 60)
            second = asyncio.create_task(rounds.play_async(ARRIVALS[1]))
            third = asyncio.create_task(rounds.play_async(ARRIVALS[2]))
            await asyncio.sleep(0)
            go_on.set()
            return list(await asyncio.gather(first, second, third))

        first, second, third = asyncio.run(run())
        assert (first.number, first.edited, set(choice(first.answer))) == (0, 1, {"m0"})
        assert second is third
        assert (second.number, second.edited, set(choice(second.answer))) == (1, 2, {"m0", "m1", "m2"})

    def test_an_invalid_event_is_an_error_of_its_own_call(self) -> None:
        async def run() -> list[Any]:
            rounds = Rounds(Machines())
            good, bad = rounds.play_async(ARRIVALS[0]), rounds.play_async(("leave", "nobody"))
            return list(await asyncio.gather(good, bad, return_exceptions=True))

        good, bad = asyncio.run(run())
        assert set(choice(good.answer)) == {"m0"}
        assert isinstance(bad, EditError) and bad.__notes__ == [
            "event number 0 (from 0) of 1: ('leave', 'nobody')"
        ]

    def test_an_error_in_the_round_reaches_all_and_the_next_goes_on(self) -> None:
        class Broken(Machines):
            broken = True

            def round(self, solution: Any) -> Any:
                if self.broken:
                    raise RuntimeError("broken")
                return super().round(solution)

        async def run() -> tuple[list[Any], Any]:
            domain = Broken()
            rounds = Rounds(domain)
            both = await asyncio.gather(
                rounds.play_async(ARRIVALS[0]), rounds.play_async(ARRIVALS[1]), return_exceptions=True
            )
            domain.broken = False
            return list(both), await rounds.play_async()

        both, after = asyncio.run(run())
        assert all(isinstance(error, RuntimeError) for error in both)
        assert after.edited == 2 and set(choice(after.answer)) == {"m0", "m1"}


class Overrunning(Machines):
    """A domain whose solver notices its deadline a little late, as branch and bound does."""

    clock: Any = None

    def solve(self, solver: Any) -> Any:
        assert time_left() < math.inf
        end = self.clock.now + time_left() + 0.005
        found = solver.solve(self.program)
        self.clock.now = max(self.clock.now, end)
        return found


def test_time_is_kept_for_a_solver_that_overruns_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    domain = Overrunning()
    rounds = Rounds(domain, time_limit=1.0)
    domain.clock = tick(monkeypatch, 1e-7)
    records = [rounds.play(*ARRIVALS), *(rounds.play() for _ in range(4))]
    assert [record.path for record in records] == ["solved"] * 5
    assert all(record.seconds.total > 0.8 for record in records)
