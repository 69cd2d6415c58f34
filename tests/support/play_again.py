"""A recorded run of a service, asked again: with the same reports, a policy decides the same."""

from copter.live.cluster import LiveCluster
from copter.live.events import Decided, Opened
from copter.live.journal import JOURNAL, LiveJournal
from copter.live.policy_thread import NO_DECISION
from copter.live.rounds import look_at, make_rounds
from copter.problems.cluster.registry import make_policy


def play_again(folder):
    """Ask the policy of a record again; return the number of rounds, and those that differ.

    A round that differs is its time with the recorded and the answered places.  The journal must have all
    jobs.
    """
    journal = LiveJournal(folder / JOURNAL, read_only=True)
    events = list(journal.events())
    journal.close()
    decisions = [event for _, event in events if isinstance(event, Decided)]
    asked = {event.seen: event.asked for event in decisions}
    silent = {event.seen for event in decisions if event.error.startswith(NO_DECISION)}
    opened = events[0][1]
    state = LiveCluster(opened.cluster, opened.kind)
    rounds, decision, different = _rounds(opened, state), None, []
    for number, event in events:
        if isinstance(event, Decided):
            if decision is not None:
                rounds.carry_out(decision)
            answered, state.changes = state.changes, {}
            recorded = dict(event.places)
            if recorded != answered or (decision is None) != bool(event.error):
                different.append((event.asked, recorded, answered))
        with journal.applying(number, event):
            state.apply(event)
        if isinstance(event, Opened):
            rounds = _rounds(event, state)
        if number in asked:
            state.timer.time = asked[number]
            now, decision = look_at(rounds), None
            if number in silent:  # asking again could take as long again; a new policy follows anyway
                continue
            try:
                decision = rounds.decide(now)
            except KeyboardInterrupt:
                raise
            except BaseException:  # the record has an error here too, or the round counts as different
                decision = None
    return len(asked), different


def _rounds(opened, state):
    return make_rounds(make_policy(opened.policy, **opened.settings), state, opened.round_seconds)
