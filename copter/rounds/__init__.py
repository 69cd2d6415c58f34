"""Rounds: events become edits, the program is solved by a deadline, an answer takes effect; read `rounds.py`.

`domain.py` is what the author of a domain implements, `choose_one.py` and `flow.py` are bases of domains,
`record.py` is what a round reports, `journal.py` what a restart reads, `check.py` has the checks of `copter
check`, `named.py` finds a domain by ``module:Name``.
"""

from copter.rounds.domain import Domain
from copter.rounds.record import Move, RoundRecord, Seconds
from copter.rounds.rounds import DomainError, Rounds

__all__ = ["Domain", "DomainError", "Move", "RoundRecord", "Rounds", "Seconds"]
