"""Rounds of a domain: events become edits, the program is solved by a deadline, and an answer takes effect.

Read `rounds.py` first.

- `domain.py` has the protocol of a domain. `choose_one.py`, `flow.py` and `counts.py` have base classes of
  domains; `flow.py` and `counts.py` extend `amounts.py`. `events.py` has the base class of domains whose
  events are calls of their methods.
- `record.py` has the report of a round. `journal.py` has the file that a restart reads.
- `check.py` has the checks of `copter check`. `named.py` finds a domain by ``module:Name``.
"""

from copter.rounds.domain import Domain
from copter.rounds.record import Move, RoundRecord, Seconds
from copter.rounds.rounds import Rounds

__all__ = ["Domain", "Move", "RoundRecord", "Rounds", "Seconds"]
