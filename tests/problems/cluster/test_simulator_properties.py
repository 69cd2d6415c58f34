"""What holds of every simulation, whatever the policy: checked on what came out of it."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copter.problems.cluster import Cluster, GpuType, JobSubmission, Scenario, Simulator
from copter.problems.cluster.jobs import job_profile
from copter.problems.cluster.nodes import NodeChange, NodeFailure
from copter.problems.cluster.placement import SiaPlacer
from copter.problems.cluster.profiles.goodput import BatchLimits, GoodputProfile, TypeModel
from copter.problems.cluster.profiles.tables import TableProfile
from copter.problems.cluster.profiles.throughput import ThroughputParameters
from copter.problems.cluster.registry import make_policy, policy_names
from support.amounts import examples

SIZES = {"a": 4, "b": 8}
POLICIES = [name for name in policy_names() if name not in ("pop-8", "pop-16", "pop-32")]
"""All but those that are as pop-4 with more parts."""
SHORT = {"pollux": {"generations": 1, "population": 6}}
"""Settings with which a policy answers soon enough for tests."""
OF_SIA = {"sia", "lp-star"}
"""Give jobs Sia's configurations only, so that nothing else runs a rigid job."""
PARTS = {"pop-4": 4}
"""Split the cluster into so many, of which each must be able to run any job."""


@st.composite
def profiles(draw, cluster):
    """Work of some minutes in two levels, faster on more GPUs, but less than in proportion."""
    grid, speed = [], []
    fast = {name: draw(st.sampled_from([0.5, 1.0, 2.0])) for name in SIZES}
    power = draw(st.sampled_from([0.3, 0.7, 1.0]))
    for configuration in cluster.configurations:
        grid.append(configuration)
        speed.append(fast[configuration.type] * configuration.gpus**power)
    for gpus in (3, 6):
        for type in cluster.types:
            if gpus <= type.gpus:
                grid.append(cluster.packed(type.name, gpus))
                speed.append(fast[type.name] * gpus**power)
    unique = dict(zip(grid, speed, strict=True))
    levels = [list(unique.values()), [value * 1.5 for value in unique.values()]]
    work = draw(st.sampled_from([200.0, 1500.0, 4000.0]))
    return TableProfile("app", draw(st.sampled_from([0.0, 25.0])), [work / 3, work], list(unique), levels)


def trained(cluster):
    """A job that knows of batch sizes, some minutes long."""
    models = {
        name: TypeModel(ThroughputParameters(0.02, seconds, 0.03, 0.005, 0.1, 0.003, 2.0), 256)
        for name, seconds in (("a", 0.002), ("b", 0.001))
        if name in cluster.names
    }
    return GoodputProfile("trained", 25.0, [1000.0, 4000.0], [200.0, 2000.0], models, BatchLimits(64, 2048))


def limited(draw, gpus, options):
    """Limits of the user within which a job runs on so many GPUs, and whether it may be preempted."""
    return {
        "min_gpus": draw(st.sampled_from([None, None, *(n for n in options if n <= gpus)])),
        "max_gpus": draw(st.sampled_from([None, None, *(n for n in options if n >= gpus)])),
        "max_batch_size": draw(st.sampled_from([None, 64, 300])),
        "preemptible": draw(st.sampled_from([True, True, False])),
    }


@st.composite
def simulations(draw, counts=(1, 2, 3, 4, 6, 8), parts=1):
    """A cluster, jobs of all kinds, and nodes that come and go and are all there in the end."""
    cluster = Cluster(
        GpuType(name, SIZES[name], parts * draw(st.integers(1, 3)))
        for name in list(SIZES)[: draw(st.integers(1, 2))]
    )
    apps = {"app0": draw(profiles(cluster)), "app1": draw(profiles(cluster)), "app2": trained(cluster)}
    most = min(type.gpus_per_node if parts > 1 else type.gpus for type in cluster.types)
    jobs = []
    for k in range(draw(st.integers(1, 6))):
        options = [n for n in counts if n <= most]
        gpus = draw(st.sampled_from(options))
        kind = draw(st.sampled_from(["adaptive", "adaptive", "strong-scaling", "rigid"]))
        time = draw(st.sampled_from([0.0, 59.0, 60.0, 777.7, 2000.0]))
        count = {"gpus": gpus} if kind == "rigid" else {"tuned_gpus": gpus}
        count |= limited(draw, gpus, options)
        jobs.append(JobSubmission(f"j{k}", time, "", f"app{draw(st.integers(0, 2))}", kind, **count))
    events = []
    if parts == 1 and draw(st.sampled_from([True, False])):  # of all nodes, for a while
        nodes = [(type.name, node) for type in cluster.types for node in range(type.nodes)]
        events += [NodeFailure(95.5, *node, 7200.0) for node in nodes]
    for type in cluster.types if parts == 1 and not events else ():
        if draw(st.booleans()):
            begin = draw(st.sampled_from([0.0, 60.0, 95.5, 600.0]))
            events.append(NodeChange(begin, type.name, draw(st.integers(0, type.nodes + 1))))
            events.append(NodeChange(begin + draw(st.sampled_from([30.0, 900.0])), type.name, type.nodes))
        if draw(st.booleans()):
            node = draw(st.integers(0, type.nodes - 1))
            begin = draw(st.sampled_from([1000.0, 1045.0, 2222.0]))
            events.append(NodeFailure(begin, type.name, node, draw(st.sampled_from([10.0, 500.0]))))
    return Scenario(cluster, jobs, apps), events


def play(name, scenario, events):
    simulator = Simulator(
        scenario, make_policy(name, **SHORT.get(name, {})), placer=SiaPlacer(), events=events, max_hours=24.0
    )
    for _ in simulator.run():
        pass
    return simulator


def working(scenario, events, type, time):
    """Nodes of a type that work at a time, by playing the events again."""
    (nodes,) = (one.nodes for one in scenario.cluster.types if one.name == type)
    down = {}
    changes = [one for one in events if one.type == type and one.time <= time]
    points = [(one.time, k, one) for k, one in enumerate(changes)]
    while points:
        points.sort(key=lambda point: point[:2])
        begin, _, one = points.pop(0)
        numbers = [node for node in range(nodes + len(down)) if node not in down][:nodes]
        if isinstance(one, NodeChange):
            nodes = one.nodes
        elif isinstance(one, NodeFailure) and one.node in numbers:
            down[one.node] = True
            nodes -= 1
            if begin + one.repair_seconds <= time:
                points.append((begin + one.repair_seconds, len(changes), one.node))
        elif isinstance(one, int):
            del down[one]
            nodes += 1
    return {node for node in range(nodes + len(down)) if node not in down} & set(
        [node for node in range(100) if node not in down][:nodes]
    )


def check_capacities(scenario, events, segments):
    """At every beginning of a segment or change of nodes, all that is held is there, and held once."""
    times = {one.begin for one in segments} | {one.time for one in events}
    for time in sorted(times):
        now = [one for one in segments if one.begin <= time < one.end]
        for type in scenario.cluster.types:
            there = working(scenario, events, type.name, time)
            used, distributed = dict.fromkeys(there, 0), set()
            for one in now:
                if one.type != type.name:
                    continue
                assert sum(gpus for _, gpus in one.place) == one.gpus and len(one.place) == one.nodes
                for node, gpus in one.place:
                    assert node in there
                    used[node] = used.get(node, 0) + gpus
                if one.nodes > 1:
                    assert distributed.isdisjoint(node for node, _ in one.place)
                    distributed |= {node for node, _ in one.place}
            assert all(gpus <= type.gpus_per_node for gpus in used.values())


def check_job(scenario, events, job, segments):
    """Times and GPU time add up; progress is that of the profile, and falls only when a node fails."""
    (submission,) = (one for one in scenario.jobs if one.name == job.name)
    profile = job_profile(submission, scenario.profiles[submission.application], job.kind)
    assert job.gpu_seconds == pytest.approx(sum(one.gpus * (one.end - one.begin) for one in segments))
    assert job.run_seconds == pytest.approx(
        sum(one.end - one.begin - one.restart_seconds for one in segments), abs=1e-6
    )
    assert job.started == segments[0].begin >= job.submitted
    assert job.finished == segments[-1].end
    assert segments[-1].progress == pytest.approx(profile.work)
    ends = [0.0, *profile.progress.tolist()]
    before, end = 0.0, job.submitted
    for one in segments:
        assert end <= one.begin < one.end
        clock = profile.clock(type_of(one))
        ran = one.end - one.begin - one.restart_seconds
        assert 0.0 <= one.restart_seconds <= profile.restart_seconds + 1e-9
        # seconds that it takes from what was there before to what is there now
        spent = interpolate(one.progress, ends, clock) - interpolate(before, ends, clock)
        assert spent == pytest.approx(ran, abs=1e-6)
        failed = any(isinstance(event, NodeFailure) and event.time == one.end for event in events)
        before, end = (
            profile.checkpoint(one.progress) if failed and lost(one, events) else one.progress,
            one.end,
        )


def check_stays(scenario, events, segments):
    """A job that must not be preempted loses what it holds only with a node that goes."""
    for one in segments[:-1]:
        assert not {node for node, _ in one.place} <= working(scenario, events, one.type, one.end)


def lost(segment, events):
    """Whether the end of a segment is the failure of one of its nodes."""
    nodes = {node for node, _ in segment.place}
    return any(
        isinstance(one, NodeFailure)
        and (one.time, one.type) == (segment.end, segment.type)
        and one.node in nodes
        for one in events
    )


def type_of(segment):
    from copter.problems.cluster import Configuration

    return Configuration(segment.nodes, segment.gpus, segment.type)


def interpolate(value, points, values):
    for low, high, a, b in zip(points, points[1:], values, values[1:], strict=False):
        if low <= value <= high:
            return a + (b - a) * (value - low) / (high - low)
    return values[-1]


@pytest.mark.parametrize("name", POLICIES)
@settings(deadline=None, max_examples=examples(8, fewest=4), derandomize=True)
@given(data=st.data())
def test_every_simulation(name, data):
    counts = (1, 2, 4, 8) if name in OF_SIA | PARTS.keys() else (1, 2, 3, 4, 6, 8)
    scenario, events = data.draw(simulations(counts, PARTS.get(name, 1)))
    simulator = play(name, scenario, events)
    jobs = simulator.job_results()
    unmoved = {job.name for job in scenario.jobs if not job.preemptible}
    assert {job.name for job in jobs} | set(simulator.rejected) == {job.name for job in scenario.jobs}
    check_capacities(scenario, events, simulator.segments)
    for job in jobs:
        mine = sorted((one for one in simulator.segments if one.job == job.name), key=lambda one: one.begin)
        check_job(scenario, events, job, mine)
        if job.name in unmoved:
            check_stays(scenario, events, mine)
    again = play(name, scenario, events)
    assert again.job_results() == jobs and again.segments == simulator.segments
    untimed = [replace(one, policy_seconds=0.0, figures={}) for one in simulator.records]
    assert [replace(one, policy_seconds=0.0, figures={}) for one in again.records] == untimed


"""All but those that are as pop-4 with more parts."""
