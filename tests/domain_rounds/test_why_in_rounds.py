"""Explanations in random rounds of the domains: every sentence is checked by solving the changed program.

The judge (:mod:`support.why_judge`) reads sentences, solves by HiGHS and states its own error.
"""

import pickle
import re
from collections import Counter
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest

from copter import Rounds, make_solver
from copter.problems.cluster.cluster import Cluster, GpuType
from copter.problems.cluster.profiles.tables import ReplicaProfile
from copter.problems.load_balancing.balancer import LoadBalancer
from copter.problems.placement.rounds.rounds import PlacementRounds
from copter.problems.placement.servers import MILLI, Servers
from copter.problems.placement.tasks import TaskKind
from copter.problems.shockwave.scheduler import Planner, Settings, make_relaxation
from copter.problems.sia.interface import SiaJob
from copter.problems.sia.policy import SiaPolicy
from copter.problems.traffic.model import TrafficEngineering
from copter.problems.traffic.search import k_shortest_paths
from copter.problems.traffic.topology import Topology
from support.amounts import longer
from support.why_judge import Judge, Sentences, check_prices, read

LIFE = 20
"""Rounds of a domain before another one of another size begins."""


class Jobs(SiaPolicy):
    """Sia with jobs of every kind, among them some that never fit."""

    def events(self, rng):
        yield from super().events(rng)
        if rng.random() < 0.3:
            name, speeds = f"more {int(rng.integers(1 << 40))}", {"T4": (1, 60.0), "A100": (1, 200.0)}
            gpus = int(rng.choice([1, 2, 8, 32, 512]))
            kind = {"kind": "rigid", "gpus": gpus} if rng.random() < 0.5 else {"min_gpus": gpus}
            yield "submit", SiaJob(name, ReplicaProfile(name, 60.0, 1e6, speeds), self.now, **kind)


class Network(TrafficEngineering):
    """Traffic engineering with more links that fail, so that some pairs have no path."""

    def events(self, rng):
        yield from super().events(rng)
        links = self.topology.n_links
        yield "fail_links", rng.choice(links, int(rng.integers(0, links // 3)), replace=False)


class Market(Planner):
    """The market on a cluster whose GPUs fail and return."""

    def events(self, rng):
        for state in super().events(rng):
            yield replace(state, gpus=int(rng.integers(3, 12)))


def sia(rng):
    types = [GpuType("T4", 4, int(rng.integers(1, 5))), GpuType("A100", 8, int(rng.integers(0, 3)))]
    return Jobs(Cluster(types))


def shards(rng):
    balancer, count = LoadBalancer(), int(rng.integers(14, 30))
    for server in range(int(rng.integers(3, 6))):
        balancer.add_server(f"server {server}", 40.0)
    balancer.add_shards([f"shard {k}" for k in range(count)], rng.integers(1, 30, count).astype(float))
    return balancer


def traffic(rng, objective):
    graph = nx.random_regular_graph(3, int(rng.choice([6, 8, 10])), seed=int(rng.integers(1 << 30)))
    topology = Topology.from_networkx(graph, name="example", capacity=float(rng.uniform(1.0, 4.0)))
    paths = k_shortest_paths(topology, None, 3, cache=False)
    return Network(topology, paths, objective)


def shockwave(rng):
    settings = Settings(rounds=int(rng.integers(4, 16)), lam=float(rng.uniform(0.0, 5.0)), shim_seconds=0.1)
    return Market(settings, make_relaxation("copter", tolerance=float(10.0 ** -rng.integers(4, 8))))


def placement(rng):
    n = int(rng.integers(3, 7))
    gpus = rng.choice([0, 2, 4], n)
    servers = Servers(
        tuple(f"server {k}" for k in range(n)),
        rng.choice([8_000, 16_000], n),
        rng.choice([32_000, 64_000], n),
        gpus,
        gpus // 2,
        ("", "T4", "V100"),
    )
    kinds = [
        TaskKind(int(cpu), int(memory), int(gpus), int(milli) if gpus else 0, ())
        for cpu, memory, gpus, milli in zip(
            rng.integers(1, 12, 5) * 1_000,
            rng.integers(1, 30, 5) * 1_000,
            [0, 0, 1, 1, 2],
            [0, 0, 500, MILLI, MILLI],
            strict=True,
        )
    ]
    return PlacementRounds(servers, kinds, gap=1e-6, moves=4)


DOMAINS = {
    "sia": sia,
    "shards": shards,
    "max-flow": lambda rng: traffic(rng, "max-flow"),
    "min-MLU": lambda rng: traffic(rng, "min-mlu"),
    "placement": placement,
    "shockwave": shockwave,
}
MUST_HAPPEN = {
    "sia": "has given partly-given worse may lacking prices increase price",
    "shards": "has given partly-given worse may lacking prices increase never price",
    "max-flow": "has given partly-given nothing worse may lacking prices increase never price never-anything",
    "min-MLU": "has given partly-given nothing worse may lacking prices increase never price",
    "placement": "has given partly-given nothing worse may lacking prices price",
    "shockwave": "has given partly-given nothing worse may lacking prices increase price",
}
"""Kinds of sentences and of requests that many rounds must have."""


def judged_rounds(name, count, seed, asked=2):
    """Play rounds until so many were explained, and check all sentences; return their counts by kind."""
    rng, counts, played = np.random.default_rng([seed, *name.encode()]), Counter(), 0
    while counts["rounds"] < count:
        if played % LIFE == 0:
            tolerance = float(rng.choice([1e-3, 1e-5, 1e-8]))
            rounds = Rounds(DOMAINS[name](rng), solver=make_solver("copter", tolerance=tolerance))
        played += 1
        record = rounds.play(*rounds.domain.events(rng))
        solution = record.solution
        if solution is None or not solution.found or solution.program() is None:
            continue
        program = solution.program()
        if not len(program) or solution.clock != program.store.clock:
            counts["edited since"] += 1
            continue
        counts["rounds"] += 1
        judge = Judge(program, solution, counts)
        check_prices(judge, rng, counts)
        ids = list(program.request_ids)
        for at in rng.permutation(len(ids))[:asked].tolist():
            judged = Sentences(judge, ids[at], counts)
            why = solution.explain(ids[at])
            try:
                judged.check(why.sentences)
            except AssertionError as false:
                where = f"{name}, seed {seed}, round {played}, request {ids[at]!r}"
                raise AssertionError(f"{where}: {false}") from false
    return counts


@pytest.mark.parametrize("name", DOMAINS)
def test_no_sentence_is_false(name):
    counts = judged_rounds(name, 4, seed=1)
    assert counts["rounds"] == 4 and counts["has"] + counts["nothing"] > 4, counts


@pytest.mark.parametrize("name", [longer(name) for name in DOMAINS])
def test_no_sentence_is_false_in_1000_rounds(name):
    """200 rounds of each domain; traffic has two programs."""
    counts = judged_rounds(name, 100 if name in ("max-flow", "min-MLU") else 200, seed=2)
    print(name, dict(counts))
    missing = [kind for kind in MUST_HAPPEN[name].split() if counts[kind.replace("-", " ")] < 3]
    assert not missing, (missing, counts)


def test_the_judge_finds_false_sentences():
    """Numbers that are changed by a hundredth, and sentences that are left out."""
    rng, found = np.random.default_rng(6), Counter()
    rounds = Rounds(sia(rng), solver=make_solver("copter", tolerance=1e-8))
    for _ in range(4):
        solution = rounds.play(*rounds.domain.events(rng)).solution
        program = solution.program()
        for id in list(program.request_ids)[:3]:
            judge, true = Judge(program, solution), list(solution.explain(id).sentences)
            for k, sentence in enumerate(true):
                kind, _ = read(sentence)
                for lie in lies(sentence, kind):
                    try:
                        Sentences(judge, id).check([*true[:k], *lie, *true[k + 1 :]])
                    except (AssertionError, KeyError):
                        found[kind, "caught"] += 1
                    else:
                        found[kind, "passed"] += 1
    for kind in ("has", "lacking", "prices"):
        assert found[kind, "caught"] > 5 and not found[kind, "passed"], found
    assert found["worse", "caught"] > 10, found  # a bound that is not tight stays true


def lies(sentence, kind):
    """Yield replacements of a sentence that are false if its figures are exact or tight."""
    numbers = list(re.finditer(r"(?<![\w.'])\d+(?:\.\d+)?(?![\w.]*')", sentence))
    of = {"has": 0, "worse": 2, "lacking": 2, "prices": 1}.get(kind)
    if of is not None:
        number = numbers[of]
        yield [f"{sentence[: number.start()]}{1.01 * float(number[0]):.6g}{sentence[number.end() :]}"]
    if kind in ("has", "lacking"):
        yield []


@pytest.mark.parametrize("name", ["placement", "shockwave"])
def test_a_domain_that_solves_a_program_of_its_own_shows_the_solution(name):
    rng, solutions = np.random.default_rng(2), 0
    rounds = Rounds(DOMAINS[name](rng))
    for _ in range(20):
        record = rounds.play(*rounds.domain.events(rng))
        if record.solution is not None:
            solutions += 1
            program = record.solution.program()
            assert record.solution.explain(program.request_ids[0]).sentences
            assert record.row()["status"] == str(record.solution.status)
    assert solutions > 2
    assert rounds.domain.program is None
    again = pickle.loads(pickle.dumps(rounds.answer))  # as a journal keeps it
    held = again.relaxed.relaxation if name == "shockwave" and again.relaxed is not None else again
    assert getattr(held, "solution", None) is None
