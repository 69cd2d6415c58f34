"""Tasks on servers: what every policy keeps to, FGD against a plain twin, the plan against all patterns."""

import itertools
import math
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linprog

from copter.errors import InputError
from copter.problems.placement import (
    Place,
    ReservationPlanner,
    Servers,
    TaskKind,
    Tasks,
    arrivals,
    make_policy,
    play,
    policy_names,
    read_servers,
    read_tasks,
)
from copter.problems.placement.occupancy import Fleet, Free

MODELS = ("", "A", "B")


def servers_of(rows):
    """Servers of rows (cpu, memory, gpus, model)."""
    cpu, memory, gpus, model = zip(*rows, strict=True)
    names = tuple(f"s{number:03d}" for number in range(len(rows)))
    index = [MODELS.index(name) for name in model]
    return Servers(names, *(np.array(each, np.int64) for each in (cpu, memory, gpus, index)), MODELS)


def drawn(seed, n=12, kinds=14, tasks=80):
    """A small cluster and a list of tasks of every sort."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(n):
        gpus = int(rng.choice([0, 1, 2, 4]))
        rows.append(
            (
                int(rng.integers(8, 64)) * 1000,
                int(rng.integers(32, 256)) * 1024,
                gpus,
                "AB"[gpus % 2] * bool(gpus),
            )
        )
    rows[0] = (64000, 262144, 4, "A")
    drawn_kinds = {}
    while len(drawn_kinds) < kinds:
        gpus = int(rng.choice([0, 1, 1, 1, 2, 4]))
        milli = 0 if not gpus else 1000 if gpus > 1 else int(rng.choice([1000, 500, 460, 330, 120]))
        models = () if not gpus or rng.random() < 0.7 else (str(rng.choice(["A", "B"])),)
        kind = TaskKind(int(rng.integers(1, 12)) * 1000, int(rng.integers(1, 32)) * 1024, gpus, milli, models)
        drawn_kinds[kind] = None
    return servers_of(rows), Tasks(tuple(drawn_kinds), rng.integers(kinds, size=tasks))


class Ledger:
    """What is free, in plain Python."""

    def __init__(self, servers):
        self.servers = servers
        self.cpu, self.memory = servers.cpu.tolist(), servers.memory.tolist()
        self.gpus = [[1000] * int(count) for count in servers.gpus]

    def fits(self, kind, server):
        model = self.servers.models[self.servers.model[server]]
        if kind.gpus and kind.models and model not in kind.models:
            return False
        enough = sum(left >= kind.milli for left in self.gpus[server]) if kind.gpus else 0
        return self.cpu[server] >= kind.cpu and self.memory[server] >= kind.memory and enough >= kind.gpus

    def take(self, kind, place):
        assert self.fits(kind, place.server)
        chosen = [gpu for gpu in range(64) if place.gpus >> gpu & 1]
        assert len(chosen) == kind.gpus
        for gpu in chosen:
            self.gpus[place.server][gpu] -= kind.milli
            assert self.gpus[place.server][gpu] >= 0
        self.cpu[place.server] -= kind.cpu
        self.memory[place.server] -= kind.memory


@pytest.mark.parametrize("name", policy_names())
@pytest.mark.parametrize("seed", range(3))
def test_no_server_is_over_and_whatever_fits_is_placed(name, seed):
    servers, tasks = drawn(seed)
    coming = arrivals(tasks, servers, seed)
    policy = make_policy(name, servers, tasks, seed)
    course, ledger = play(policy, coming), Ledger(servers)
    for kind, place in zip(coming, course.places, strict=True):
        if place is None:
            assert not any(ledger.fits(tasks.kinds[kind], server) for server in range(len(servers)))
        else:
            ledger.take(tasks.kinds[kind], place)
    assert None in course.places  # the list asks for more than there is
    assert policy.free.cpu.tolist() == ledger.cpu
    for kind, place in zip(coming, course.places, strict=True):
        if place is not None:
            policy.leave(int(kind), place)
    empty = Free.of(servers)
    assert all((left == all_).all() for left, all_ in zip(policy.free, empty, strict=True))
    assert policy.place(int(coming[0])) is not None


@pytest.mark.parametrize("name", policy_names())
def test_units_change_nothing(name):
    servers, tasks = drawn(8)
    coming = arrivals(tasks, servers, 1)
    kinds = tuple(kind._replace(cpu=2 * kind.cpu, memory=4 * kind.memory) for kind in tasks.kinds)
    larger = Servers(
        servers.names, 2 * servers.cpu, 4 * servers.memory, servers.gpus, servers.model, servers.models
    )
    places = play(make_policy(name, servers, tasks), coming).places
    assert places == play(make_policy(name, larger, Tasks(kinds, tasks.kind)), coming).places


def fragments(cpu, left, model, types):
    """Mean fragments of a server (Weng et al., section 4.2)."""
    total = 0.0
    for (asked, gpus, milli, models), share in types:
        can = gpus and asked <= cpu and (not models or model in models)
        can = can and sum(one >= milli for one in left) >= gpus
        total += share * (sum(one for one in left if one < milli) if can else sum(left))
    return total


def plain_fgd(servers, tasks, coming):
    """FGD without kernels or anything kept."""
    count = Counter(
        (kind.cpu, kind.gpus, kind.milli, kind.models) for kind in (tasks.kinds[k] for k in tasks.kind)
    )
    chosen = []
    for key in sorted(count, key=lambda key: (-count[key], key)):
        if sum(count[one] for one in chosen) >= 0.95 * len(tasks):
            break
        chosen.append(key)
    types = [(key, count[key] / sum(count[one] for one in chosen)) for key in chosen]
    ledger, places = Ledger(servers), []
    for kind in (tasks.kinds[k] for k in coming):
        best = None
        for server in range(len(servers)):
            if not ledger.fits(kind, server):
                continue
            model = servers.models[servers.model[server]]
            left, cpu = ledger.gpus[server], ledger.cpu[server]
            before = fragments(cpu, left, model, types)
            enough = [gpu for gpu, free in enumerate(left) if free >= kind.milli]
            share = kind.gpus == 1 and kind.milli < 1000
            for gpus in [(gpu,) for gpu in enough] if share else [tuple(enough[: kind.gpus])]:
                new = [free - kind.milli * (gpu in gpus) for gpu, free in enumerate(left)]
                after = fragments(cpu - kind.cpu, new, model, types)
                score = int(100 / (1 + math.exp((after - before) / 1000)))
                if best is None or score > best[0]:
                    best = score, server, sum(1 << gpu for gpu in gpus)
        places.append(best and best[1:])
        if best:
            ledger.take(kind, Place(*best[1:]))
    return places


@pytest.mark.parametrize("seed", range(4))
def test_fgd_is_its_plain_twin(seed):
    servers, tasks = drawn(seed + 20)
    coming = arrivals(tasks, servers, seed)
    course = play(make_policy("fgd", servers, tasks), coming)
    assert [place and tuple(place) for place in course.places] == plain_fgd(servers, tasks, coming)


def patterns(free, kinds):
    """All mixes that fit on a server with one GPU, which `kinds` are shares of."""
    ranges = [range(1000 // kind.milli + 1) for kind in kinds]
    for counts in itertools.product(*ranges):
        use = [
            sum(n * getattr(kind, what) for n, kind in zip(counts, kinds, strict=True))
            for what in ("cpu", "memory", "milli")
        ]
        if use[0] <= free[0] and use[1] <= free[1] and use[2] <= 1000:
            yield counts


@pytest.mark.parametrize("seed", range(4))
def test_a_plan_is_worth_what_all_patterns_are(seed):
    rng = np.random.default_rng(seed)
    sizes = [(int(rng.integers(8, 20)) * 1000, int(rng.integers(20, 60)) * 1024) for _ in range(2)]
    servers = servers_of([(*sizes[number % 2], 1, "A") for number in range(10)])
    kinds = tuple(
        TaskKind(int(rng.integers(1, 9)) * 1000, int(rng.integers(1, 20)) * 1024, 1, milli, ())
        for milli in (460, 330, 250, 210)
    )
    tasks = Tasks(kinds, np.arange(4))
    demand = rng.uniform(3.0, 9.0, 4)
    worth = tasks.asked.worth.astype(float)
    every = [(group, mix) for group, size in enumerate(sizes) for mix in patterns(size, kinds)]
    usage = np.array(
        [[*(mix[k] for k in range(4)), *(group == g for g in range(2))] for group, mix in every]
    ).T
    best = linprog([-float(worth @ mix) for _, mix in every], usage, [*demand, 5.0, 5.0])
    planner = ReservationPlanner(
        Free.of(servers), Fleet.of(servers, tasks), demand, worth, np.random.default_rng(0)
    )
    shares = planner.improve()
    assert planner.value == pytest.approx(-best.fun, rel=2e-3)
    assert planner.value <= -best.fun * (1 + 1e-4)
    ledger = Ledger(servers)
    given = planner.assign(shares)
    assert given
    for server, pattern in given.items():
        for kind, gpus in zip(pattern.kinds, pattern.gpus, strict=True):
            ledger.take(kinds[kind], Place(server, int(gpus)))


NODES = "sn,cpu_milli,memory_mib,gpu,model\nb,64000,262144,2,T4\na,32000,131072,1,P100\n"
PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
    "p0,4000,8192,1,460,\np1,8000,8192,1,1000,T4\np2,2000,4096,0,0,\np3,4000,8192,1,460,P100|T4\n"
)


@pytest.fixture
def files(tmp_path):
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "pods.csv").write_text(PODS)
    return tmp_path / "nodes.csv", tmp_path / "pods.csv"


def test_files_are_read(files):
    servers, tasks = read_servers(files[0]), read_tasks(files[1])
    assert servers.names == ("a", "b")  # ties go to the first by name, whatever the order of the file
    assert servers.gpus.tolist() == [1, 2]
    assert [servers.models[model] for model in servers.model] == ["P100", "T4"]
    assert tasks.kinds[3].models == ("P100", "T4")
    assert tasks.allowed(servers)[1].tolist() == [False, True]
    assert [kind.group for kind in tasks.kinds] == ["gpu-share", "1-gpu", "cpu", "gpu-share"]


@pytest.mark.parametrize(
    ("which", "line", "says"),
    [
        (0, "b,1,1,1,T4", "sn: 'b': must be unique"),
        (0, "c,1,1,1,", "model: must be given, because the server has GPUs"),
        (0, "c,1,1,70,T4", "gpu: 70: must be at most 63"),
        (1, "p0,1,1,1,1000,", "name: 'p0': must be unique"),
        (1, "p9,1,1,1,0,", "gpu_milli: 0: must be from 1 to 1000"),
    ],
)
def test_a_wrong_line_is_named(files, which, line, says):
    files[which].write_text((NODES, PODS)[which] + line + "\n")
    with pytest.raises(InputError, match=r"line \d") as caught:
        (read_servers, read_tasks)[which](files[which])
    assert says in str(caught.value)


@pytest.mark.long
@pytest.mark.data
@pytest.mark.parametrize("mix", ["default", "gpushare100", "multigpu50"])
def test_fgd_is_the_authors(mix):
    folder = os.environ.get("COPTER_DATA")
    data = Path(folder or "", "placement", "alibaba_gpu_v2023")
    if not folder or not data.is_dir():
        pytest.skip("needs placement/alibaba_gpu_v2023 in the folder named by COPTER_DATA")
    rows = (data / "fgd_results.csv").read_text().splitlines()
    at = rows[0].split(",").index("allocated_at_100")
    theirs = [
        float(row.split(",")[at]) for row in rows[1:] if row.startswith(f"openb_pod_list_{mix},06-FGD,")
    ]
    servers, tasks = (
        read_servers(data / "openb_node_list_gpu_node.csv"),
        read_tasks(data / f"openb_pod_list_{mix}.csv"),
    )
    ours = [
        play(make_policy("fgd", servers, tasks, seed), arrivals(tasks, servers, seed)).allocated_at(100)
        for seed in range(10)
    ]
    assert np.mean(ours) == pytest.approx(np.mean(theirs), abs=0.3)
