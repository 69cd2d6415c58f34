"""Why a job waits, in random rounds of several policies: sentences are checked by playing changed clusters.

A job of which a sentence says that it cannot start, or that it could use some GPUs, is alone on such a
cluster, under the same policy.  What a policy was asked and what it decided is recorded next to the service.
"""

import re
from collections import Counter

import numpy as np
import pytest

from copter.live.admission import RefusedError
from copter.live.files import ClusterFile
from support.amounts import longer
from support.live_cases import ELASTIC, RIGID, asked, look, make_service, named, said, step, would_start
from support.why_judge import HAS, NONE, Judge

SIZES = {"a100": (4, 2), "t4": (2, 3)}
"""GPUs of a node, and nodes, of each type."""


def cluster(nodes):
    """Return a cluster with some nodes of each type."""
    rows = [
        {"type": type, "gpus_per_node": SIZES[type][0], "nodes": count}
        for type, count in nodes.items()
        if count
    ]
    return ClusterFile(gpus=rows)


class Alone:
    """Whether a policy gives GPUs to a job that is alone on a cluster; remembered by job and cluster."""

    def __init__(self, folder, policy):
        self.folder, self.policy, self.known = folder, policy, {}

    def runs(self, file, nodes):
        nodes = {type: count for type, count in nodes.items() if count}
        key = file.model_copy(update={"name": "alone", "after": ()}).model_dump_json(), str(nodes)
        if key not in self.known:
            self.known[key] = bool(nodes) and self._play(file, nodes)
        return self.known[key]

    def _play(self, file, nodes):
        folder = self.folder / f"alone-{len(self.known)}"
        service = make_service(folder, policy=self.policy, cluster=cluster(nodes))
        try:
            service.admission.submit(named(file, "alone", after=()))
            for _ in range(3):
                step(service, 100.0)
            return service.record.state.jobs["alone"].allocation is not None
        except RefusedError:
            return False
        finally:
            service.close()


class Decisions:
    """What the policy of a service was asked last, and what it answered."""

    def __init__(self, service):
        self.service, self.own = service, service.rounds.policy.schedule
        self.asked, self.given, self.capacity = {}, {}, {}
        self.given_at = {}
        service.rounds.policy.schedule = self.schedule

    def schedule(self, now):
        answer = self.own(now)
        self.asked, self.given, self.capacity = dict(now.jobs), dict(answer), dict(now.cluster.capacity)
        self.given_at[now.time] = set(answer)
        return answer


def random_job(rng, number, present):
    """Return a random job: rigid or elastic, of some types, sometimes after another job."""
    types = [["t4"], ["a100"], []][rng.integers(3)]
    after = (str(rng.choice(present)),) if present and rng.random() < 0.15 else ()
    if rng.random() < 0.3:
        least = int(rng.choice([1, 2, 4]))
        return named(ELASTIC, f"job-{number}", min_gpus=least, types=types, after=after)
    return named(RIGID, f"job-{number}", gpus=int(rng.choice([1, 2, 3, 4, 6, 8])), types=types, after=after)


def play(service, rng, number, decisions):
    """Let something happen: submissions, drains, ends and rounds."""
    state, admission = service.record.state, service.admission
    names = list(state.jobs)
    if len(names) < 14:
        for _ in range(int(rng.integers(1, 3))):
            number += 1
            try:
                admission.submit(random_job(rng, number, names))
            except RefusedError:
                continue
    what = rng.random()
    if what < 0.2:
        type = str(rng.choice(list(SIZES)))
        admission.drain(type, int(rng.integers(SIZES[type][1])), back=bool(rng.random() < 0.4))
        look(service, 1.0)
    elif what < 0.45:
        for run in [run for run in service.backend.started if rng.random() < 0.3]:
            service.backend.end(run.id)
        look(service, 1.0)
    else:
        step(service, float(rng.choice([1.0, 60.0])))
    return number


def check(service, name, decisions, alone, seen):
    """Check the sentences about a job."""
    state = service.record.state
    job, answer = state.jobs[name], asked(service, name)
    queue = [each.name for each in state.jobs.values() if each.status == "queued" and each.eligible]
    assert answer["position"] == (queue.index(name) + 1 if name in queue else None)
    assert queue == sorted(queue, key=lambda each: state.jobs[each].submitted)
    usable = {type: nodes - sum(t == type for t, _ in state.unusable) for type, (_, nodes) in SIZES.items()}
    types = job.file.types or list(SIZES)
    there, given = {type: usable[type] * SIZES[type][0] for type in types}, state.given()
    if (out := said(answer, r"GPUs of one type, but only ([^.]*) are in use")) is not None:
        seen["short of nodes"] += 1
        shown = {type: int(gpus) for gpus, type in re.findall(r"(\d+) (\w+)", out[0])}
        assert shown == {type: there[type] for type in types} and max(shown.values()) < job.least_gpus
    if (out := said(answer, r"not given to any job: ([^.]*)\.")) is not None:
        seen["free"] += 1
        shown = {type: int(gpus) for gpus, type in re.findall(r"(\d+) (\w+)", out[0])}
        assert shown and all(gpus == there[type] - given.get(type, 0) for type, gpus in shown.items())
    if (out := said(answer, r"has had (\d+) GPUs?")) is not None:
        seen["has"] += 1
        assert int(out[0]) == job.allocation.gpus
    if said(answer, "so it cannot start now") is not None:
        seen["cannot start"] += 1
        assert not alone.runs(job.file, usable)
    if (out := said(answer, "have GPUs that it could use: (.*)\\.")) is not None:
        others = re.sub(r" and \d+ more$", "", out[0]).split(", ")
        for other in others:
            seen["could use"] += 1
            type = state.jobs[other].allocation.type
            assert alone.runs(job.file, {type: usable[type]}), (name, other, type, job.file, usable)
            assert state.jobs[other].submitted >= job.submitted
    if said(answer, "the job got no GPUs") is not None:
        seen["got nothing"] += 1
        unplaced = said(answer, "gave it GPUs, but the nodes did not have") is not None
        seen["unplaced"] += unplaced
        assert name in decisions.asked and (name in decisions.given) == unplaced, (name, answer)
    if said(answer, "has not decided since then") is not None:
        seen["not decided"] += 1
        lost = said(answer, "It lost its GPUs") is not None
        assert name not in decisions.asked or lost, (name, answer)
    if (out := said(answer, "taken away in a round, in which the policy gave GPUs to (.*)\\.")) is not None:
        seen["taken"] += 1
        last = job.taken_in
        assert last.places[name] is None
        seen["taken, without nodes"] += name in decisions.given_at[last.asked]
        assert all(last.places[each] for each in re.sub(r" and \d+ more$", "", out[0]).split(", "))
    for sentence in answer["policy"]:
        policy = service.rounds.policy
        if policy.name == "sia":
            check_sia(policy, name, sentence, seen)
        else:
            assert policy.name == "queue", policy.name
            check_queue(decisions, job, sentence, alone, seen)


def check_dry_run(service, rng, alone, seen):
    """Check the sentences about a job that is not submitted."""
    file = random_job(rng, 10**6, [])
    try:
        job = service.admission.dry_run(file)
        sentences = would_start(service, job)
    except RefusedError:
        seen["refused"] += 1
        assert not alone.runs(file, {type: nodes for type, (_, nodes) in SIZES.items()})
        return
    seen["accepted"] += 1
    assert sentences[0] == "The service would accept it: this cluster can run it."
    assert alone.runs(file, {type: nodes for type, (_, nodes) in SIZES.items()}), file
    state = service.record.state
    usable = {type: nodes - sum(t == type for t, _ in state.unusable) for type, (_, nodes) in SIZES.items()}
    text = " ".join(sentences)
    if "cannot start now" in text:
        assert not alone.runs(file, usable)


def check_queue(decisions, job, sentence, alone, seen):
    """Check a sentence of the queue against its last decision."""
    if sentence == "No type has enough GPUs for it on the nodes in use.":
        seen["queue: none enough"] += 1
        nodes = {type: gpus // SIZES[type][0] for type, gpus in decisions.capacity.items()}
        assert not alone.runs(job.file, nodes)
        return
    gpus, type, free, held = re.fullmatch(r"It needs (\d+) (\w+): (\d+) are free(.*)\.", sentence).groups()
    seen["queue: held"] += 1
    assert alone.runs(job.file, {type: decisions.capacity[type] // SIZES[type][0]})
    assert int(gpus) == job.least_gpus
    used = [one.gpus for one in decisions.given.values() if one.type == type]
    assert int(free) == decisions.capacity[type] - sum(used)
    assert sum(int(each) for each in re.findall(r"(\d+) are held", held)) == sum(used)


# ---- sentences of Sia's certificate ---------------------------------------------------------------------

_NUMBER = r"(-?[0-9.]+(?:e[-+]?[0-9]+)?)"
_PARTS = {
    "worse": rf"every schedule with it costs at least {_NUMBER} more than the best fractional one",
    "has": rf"the best fractional schedule has {_NUMBER} of it",
    "may": r"the prices do not exclude that a schedule with it is as good as this one",
    "never": rf"no schedule has it, because it needs {_NUMBER} of (.+) and none leaves more than {_NUMBER}",
    "lacking": rf"{_NUMBER} more of (.+) is needed than others leave",
    "prices": rf"its own cost is {_NUMBER}, and its GPUs cost (.+) at the round's prices",
}


def check_sia(policy, name, sentence, seen):
    """Check a sentence about a configuration by solving the round's program with it."""
    program, solution = policy._policy.program, policy.last.solution
    judge = Judge(program, solution)
    configurations = policy._policy.configurations_of(name)
    if sentence == "No configuration is open to it in this round.":
        seen["sia: none open"] += 1
        for k, one in enumerate(configurations):
            assert one is None or judge.optimum(fixed={judge.first[name] + k: 1.0}) == NONE
        return
    what, parts = re.fullmatch(r"(.+ nodes?): (.+)\.", sentence).groups()
    shown = [
        f"{c.gpus} {c.type} on {c.nodes} node{'s' if c.nodes > 1 else ''}" if c else ""
        for c in configurations
    ]
    j = judge.first[name] + shown.index(what)
    rows = {
        id if isinstance(id, str) else f"{id[0]} in parts of {id[1]} GPUs or more": k
        for k, id in enumerate(judge.resources)
    }
    forced = judge.optimum(fixed={j: 1.0})
    own = list(judge.own(name))
    for part in parts.split("; "):
        ((kind, groups),) = [
            (kind, match.groups()) for kind, p in _PARTS.items() if (match := re.fullmatch(p, part))
        ]
        seen[f"sia: {kind}"] += 1
        if kind == "worse":
            assert forced.high - judge.objective >= float(groups[0]), (sentence, forced, judge.objective)
            seen["sia: tight"] += forced.low - judge.objective <= 1.1 * float(groups[0])
        elif kind == "has":
            assert float(groups[0]) == float(f"{judge.x[j]:.3g}") and judge.x[j] > 0
        elif kind == "may":
            assert judge.x[j] <= HAS
        elif kind == "never":
            assert forced == NONE and float(groups[0]) == judge.A[rows[groups[1]], j]
        elif kind == "lacking":
            row, others = rows[groups[1]], judge.x.copy()
            others[own] = 0.0
            missing = judge.A[row, j] - (judge.row_upper[row] - judge.A[row] @ others)
            assert abs(float(groups[0]) - missing) <= 1e-5 * (1.0 + missing), (sentence, missing)
        else:
            assert float(groups[0]) == float(f"{judge.cost[j]:.3g}")
            for each in groups[1].split(", "):
                price, id = re.fullmatch(rf"{_NUMBER} for (.+)", each).groups()
                assert float(price) == float(f"{judge.price[rows[id]] * judge.A[rows[id], j]:.3g}")


def judged(folder, policy, rounds, seed):
    """Play random rounds, and return the counts of judged sentences."""
    rng, seen, number = np.random.default_rng([seed, *policy.encode()]), Counter(), 0
    alone = Alone(folder, policy)
    service = make_service(folder / "service", policy=policy, cluster=cluster({"a100": 2, "t4": 3}))
    decisions = Decisions(service)
    try:
        for _ in range(rounds):
            number = play(service, rng, number, decisions)
            for name in list(service.record.state.jobs):
                check(service, name, decisions, alone, seen)
            check_dry_run(service, rng, alone, seen)
    finally:
        service.close()
    return seen


@pytest.mark.parametrize(
    ("policy", "rounds"),
    [
        ("sia", 10),
        ("queue", 10),
        *(longer(each, 100) for each in ("sia", "queue", "fcfs", "srtf", "backfill")),
    ],
)
def test_sentences_stay_true_on_changed_clusters(tmp_path, policy, rounds):
    seen = judged(tmp_path, policy, rounds, seed=2)  # one of the few seeds in which nodes are too scattered
    print(policy, dict(seen))
    if rounds == 100:
        kinds = ["cannot start", "got nothing", "not decided", "accepted", "refused"]
        kinds += ["short of nodes", "free", "has"]
        kinds += ["could use"] if policy != "fcfs" else []
        kinds += ["unplaced"] if policy == "fcfs" else []
        kinds += ["queue: held", "queue: none enough"] if policy == "queue" else []
        kinds += [f"sia: {kind}" for kind in ("worse", "lacking", "prices", "has")] if policy == "sia" else []
        missing = [kind for kind in kinds if not seen[kind]]
        assert not missing, (missing, seen)
