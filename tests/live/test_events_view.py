"""Events as sentences for users."""

from copter.live.events import (
    KINDS,
    Begun,
    Closed,
    Decided,
    Drained,
    Ended,
    Launched,
    NodesChanged,
    Noted,
    Opened,
    Reported,
    Submitted,
    Told,
)
from copter.live.views import sentence

_SENTENCES = [
    (
        Opened(time=0.0, policy="sia", settings={}, kind="rigid", round_seconds=60.0, cluster={}, began=0.0),
        "the policy 'sia' begins, with a round every 60 s",
    ),
    (
        Opened(time=0.0, policy="srtf", settings={}, kind="rigid", round_seconds=None, cluster={}, began=0.0),
        "the policy 'srtf' begins",
    ),
    (Submitted(time=0.0, job="x", file={}), "the job was submitted"),
    (
        Launched(time=0.0, job="x", number=2, place=("t4", ((3, 1),)), hosts=("t4-3",), devices=((0,),)),
        "run 2 is started on 1 GPU of type t4: t4-3",
    ),
    (Begun(time=0.0, job="x", number=2), "run 2 has begun; its time counts from now on"),
    (Told(time=0.0, job="x", number=2), "run 2 was told to write a checkpoint and end"),
    (Ended(time=0.0, job="x", number=2, outcome="completed"), "run 2 completed"),
    (Ended(time=0.0, job="x", number=2, outcome="stopped"), "run 2 was stopped"),
    (Ended(time=0.0, job="x", number=2, outcome="failed", reason="exit code 3"), "run 2 failed: exit code 3"),
    (
        Ended(time=0.0, job="x", number=2, outcome="lost", reason="a node failed"),
        "run 2 was lost: a node failed",
    ),
    (Closed(time=0.0, job="x", ending="completed"), "the job is completed"),
    (
        Closed(time=0.0, job="x", ending="failed", reason="time limit of 5 s"),
        "the job has failed: time limit of 5 s",
    ),
    (
        Closed(time=0.0, job="x", ending="cancelled", reason="cancelled by bob", author="bob"),
        "the job was cancelled: cancelled by bob",
    ),
    (NodesChanged(time=0.0, down=(("t4", 1, "no power"),)), "these nodes do not work: t4-1 (no power)"),
    (NodesChanged(time=0.0, down=()), "no node fails any more"),
    (Drained(time=0.0, type="t4", node=1), "node t4-1 was taken out of use"),
    (Drained(time=0.0, type="t4", node=1, back=True), "node t4-1 is in use again"),
    (Noted(time=0.0, text="a remark"), "a remark"),
]


def test_every_event_that_is_listed_is_a_sentence():
    for event, text in _SENTENCES:
        assert sentence(event) == text
    assert {type(event) for event, _ in _SENTENCES} == set(KINDS.values()) - {Decided, Reported}
