"""Rounds go on from their journal: with every event that was taken, and no answer that was not accepted."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from copter import Rounds
from copter.errors import CopterError, DomainError, FileError
from copter.rounds import journal as journals
from copter.rounds.check import _program_of as content
from support.machines import Machines

ARRIVALS = [("arrive", f"m{k}", (0.2 + 0.01 * k, 0.1, 0.5)) for k in range(3)]


class Odd(Machines):
    """A domain that answers what it is told to, or raises it."""

    answers: Any = None

    def round(self, solution: Any) -> Any:
        """Make the answer."""
        if self.answers is None:
            return super().round(solution)
        made = self.answers()
        if isinstance(made, Exception):
            raise made
        return made


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rounds.sqlite"


def choice(rounds: Rounds) -> dict[Any, Any]:
    return dict(rounds.answer.choice)


class TestGoingOn:
    def test_from_events_of_a_round_that_was_not_accepted(self, path: Path) -> None:
        domain = Odd()
        domain.answers = RuntimeError
        with Rounds(domain, journal=path) as first, pytest.raises(RuntimeError):
            first.play(*ARRIVALS)
        with Rounds(Odd(), journal=path) as again:
            again.domain.answers = None  # type: ignore[attr-defined]
            assert (again.number, again.events, again.answer) == (0, 3, None)
            record = again.play(("leave", "m1"))
            assert record.edited == 4 and set(choice(again)) == {"m0", "m2"}

    def test_from_a_new_state_the_solver_goes_on_warm(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(journals, "_LEAST", 0)
        rng, domain = np.random.default_rng(0), Machines()
        with Rounds(domain, journal=path) as first:
            for _ in range(30):
                first.play(*domain.events(rng))
            kinds = [row[0] for row in sqlite3.connect(path).execute("SELECT kind FROM entries")]
        assert kinds.count("state") == 1 and kinds.count("answer") < 30
        with Rounds(fresh := Machines(), journal=path) as again:
            assert again.number == 30 and content(fresh) == content(domain)
            record = again.play()
            assert record.solution is not None and record.solution.warm_started
            assert dict(record.answer.choice) == choice(first)

    def test_a_solver_that_keeps_nothing(self, path: Path) -> None:
        with Rounds(Machines(), "highs-hot", journal=path) as first:
            first.play(*ARRIVALS)
        with Rounds(Machines(), "highs-hot", journal=path) as again:
            assert again.number == 1
            again.play(("leave", "m0"))


class TestWrong:
    def test_an_answer_that_cannot_be_pickled_is_not_accepted(self, path: Path) -> None:
        domain = Odd()
        with Rounds(domain, journal=path) as rounds:
            rounds.play(*ARRIVALS)
            last, domain.answers = domain.last, lambda: lambda: 0
            with pytest.raises(CopterError, match="cannot be pickled"):
                rounds.play()
            assert domain.last is last and rounds.number == 1
            domain.answers = None
            assert rounds.play().number == 1

    def test_a_domain_of_another_class(self, path: Path) -> None:
        Rounds(Machines(), journal=path).close()

        with pytest.raises(DomainError, match="the journal has a Machines, but the domain is a Odd"):
            Rounds(Odd(), journal=path)

    def test_a_damaged_entry(self, path: Path) -> None:
        with Rounds(Machines(), journal=path) as rounds:
            rounds.play(*ARRIVALS)
        database = sqlite3.connect(path)
        database.execute("UPDATE entries SET content = X'00' WHERE kind = 'answer'")
        database.commit()
        database.close()
        with pytest.raises(FileError, match="an entry of round 0 is damaged"):
            Rounds(Machines(), journal=path)

    def test_a_closed_journal_takes_no_event(self, path: Path) -> None:
        rounds = Rounds(domain := Machines(), journal=path)
        rounds.close()
        rounds.close()
        with pytest.raises(CopterError, match="is closed"):
            rounds.play(*ARRIVALS)
        assert not domain.program.request_ids

    def test_after_a_failed_write_nothing_more_is_taken(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rounds = Rounds(Machines(), journal=path)
        rounds.play(ARRIVALS[0])
        assert rounds._journal is not None
        rounds._journal.database.execute("PRAGMA max_page_count = 1")
        with pytest.raises(OSError, match="cannot be written"):
            for k in range(1000):
                rounds.play(("load", "m0", 1.0 + k))
        taken = rounds.number
        with pytest.raises(CopterError, match="open it again"):
            rounds.play()
        rounds.close()
        with Rounds(Machines(), journal=path) as again:
            assert again.number in (taken, taken - 1)  # an answer that took effect may not be written
            again.play()
