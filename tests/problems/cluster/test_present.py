"""A simulation that begins from the present of another one continues as the other one would have."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from copter.problems.cluster import Cluster, Configuration, GpuType, JobSubmission, Scenario, Simulator
from copter.problems.cluster.placement import SiaPlacer
from copter.problems.cluster.policy import Placement
from copter.problems.cluster.profiles.tables import CountProfile
from copter.problems.cluster.registry import make_policy
from copter.problems.cluster.simulation.ahead import Ahead
from copter.problems.cluster.simulation.present import Present, PresentJob
from copter.problems.policies.first_come import FirstCome
from support.policy_cases import cluster_of, random_scenario, scenario_of


def on_nodes(seed):
    """Jobs of up to 6 GPUs on nodes of four, some of which may be preempted and some have a priority."""
    rng = np.random.default_rng(seed)
    jobs, profiles = [], {}
    for k in range(16):
        gpus, name = int(rng.choice([1, 2, 3, 4, 6])), f"j{k}"
        work = float(rng.exponential(2500.0)) + 60.0
        speeds = {"a": [1.0]} if rng.random() < 0.3 else {"a": [1.0], "b": [float(rng.uniform(0.5, 3.0))]}
        profiles[name] = CountProfile(name, 200.0, work, [gpus], speeds)
        more = {"preemptible": bool(rng.random() < 0.5), "priority": int(rng.integers(0, 3))}
        jobs.append(JobSubmission(name, 110.0 * k, "", name, "rigid", gpus, **more))
    return Scenario(Cluster([GpuType("a", 4, 2), GpuType("b", 4, 1)]), jobs, profiles)


def outcome(simulator):
    return {job.name: (job.started, job.finished, job.run_seconds) for job in simulator.job_results()}


def rest_of(simulator):
    """Return the scenario of the jobs that have not completed."""
    left = {job.name for job in simulator.job_results() if math.isnan(job.finished)}
    known = {job.name for job in simulator.job_results()}
    jobs = [job for job in simulator.scenario.jobs if job.name in left or job.name not in known]
    return replace(simulator.scenario, jobs=jobs, cluster=simulator.cluster.copy())


@pytest.mark.parametrize("policy", ["fcfs", "at events", "backfill", "srpt", "tiresias"])
@pytest.mark.parametrize("case", [random_scenario, on_nodes])
def test_a_simulation_that_is_continued_is_the_same(policy, case):
    """These policies remember nothing of earlier rounds."""

    def make():
        return FirstCome(round_seconds=None) if policy == "at events" else make_policy(policy)

    seen, settings = Counter(), {} if policy == "at events" else {"round_seconds": 150.0}
    for seed in range(3):
        scenario = case(seed)
        settings["placer"] = SiaPlacer(sharing=True) if case is on_nodes else None
        whole = outcome(Simulator(scenario, make(), **settings).play())
        stopped = Simulator(scenario, make(), **settings)
        for number, _ in enumerate(stopped.run()):
            if number % 4 != seed or not stopped.jobs:
                continue
            present = stopped.present()
            waiting = [name for name, job in present.jobs.items() if job.held is None]
            seen["presents"] += 1
            seen["with waiting jobs"] += bool(waiting)
            seen["with running jobs"] += len(waiting) < len(present.jobs)
            seen["restarting"] += any(job.restart_until > present.time for job in present.jobs.values())
            seen["restarted before"] += any(job.restarts for job in present.jobs.values())
            scenario_left = rest_of(stopped)
            later = Simulator(scenario_left, make(), present=present, **settings).play()
            for name, figures in outcome(later).items():
                assert figures == pytest.approx(whole[name], rel=1e-9, abs=1e-6), (name, present.time)
            assert later.completed == len(scenario_left.jobs)
    assert min(seen[what] for what in ("presents", "with waiting jobs", "with running jobs")) > 10, seen
    if case is on_nodes:
        assert seen["restarting"] > 0, seen
        assert seen["restarted before"] > 0 or policy not in ("srpt", "tiresias"), seen


@pytest.mark.parametrize("case", [random_scenario, on_nodes])
def test_starts_played_ahead_are_those_of_the_simulation(case):
    """Under first come, first served no later job delays an earlier one."""
    seen = Counter()
    for seed in range(3):
        scenario, settings = case(seed), {"placer": SiaPlacer(sharing=True) if case is on_nodes else None}
        whole = outcome(Simulator(scenario, FirstCome(round_seconds=150.0), **settings).play())
        stopped = Simulator(scenario, FirstCome(round_seconds=150.0), **settings)
        for _ in stopped.run():
            present = stopped.present()
            waiting = {name for name, job in present.jobs.items() if job.held is None}
            jobs = [job for job in scenario.jobs if job.name in present.jobs]
            ahead = Ahead(replace(scenario, jobs=jobs), FirstCome(round_seconds=150.0), present, **settings)
            assert ahead.play_starts() == "started" and ahead.starts.keys() == waiting
            for name, time in ahead.starts.items():
                assert time == pytest.approx(whole[name][0])
                seen["later"] += time > present.time
            seen["now"] += len(waiting)
    assert seen["later"] > 50 and seen["now"] > 50, seen


def running(work=1000.0, gpus=1, **fields):
    """A present at 500 s in which j0 holds GPUs and has run for 400 s."""
    held = Configuration(gpus, gpus, "t0")
    return PresentJob(held=held, **{"progress": 400.0, "since": 100.0, "started": 100.0} | fields)


def scenario(*jobs, gpus=2):
    """Jobs as (name, GPUs, work, time)."""
    return scenario_of(cluster_of(gpus), [(name, (1.0,), n, work, time) for name, n, work, time in jobs])


def test_the_policy_is_first_asked_at_a_given_time():
    present = Present(500.0, {"run": running(gpus=2, progress=995.0), "wait": PresentJob()}, asks=530.0)
    jobs = scenario(("run", 2, 1000.0, 90.0), ("wait", 2, 100.0, 95.0))
    simulator = Simulator(jobs, make_policy("fcfs"), present=present).play()
    assert outcome(simulator)["run"][1] == 505.0
    assert outcome(simulator)["wait"][0] == simulator.records[0].time == 530.0
    assert simulator.records[0].completed == 1


def test_a_job_arrives_when_those_that_it_waits_for_have_completed():
    present = Present(500.0, {"run": running()}, after={"b": ["a"], "a": ["run"], "never": ["missing"]})
    names = ("a", "b", "never")
    jobs = scenario(("run", 1, 1000.0, 90.0), *((name, 1, 100.0, 95.0) for name in names))
    simulator = Simulator(jobs, make_policy("fcfs", round_seconds=60.0), present=present).play()
    found = outcome(simulator)
    assert (found["a"][0], found["b"][0]) == (1100.0, 1220.0)
    assert "never" not in found
    assert simulator.present().after == {"never": {"missing"}}


def test_nodes_that_are_down_stay_out_of_use():
    two = scenario(("run", 1, 1000.0, 90.0), ("wait", 1, 100.0, 95.0))
    held = PresentJob(400.0, Placement("t0", ((1, 1),)), since=100.0, started=100.0)
    jobs = replace(two, cluster=cluster_of(1))
    present = Present(500.0, {"run": held, "wait": PresentJob()}, down={"t0": frozenset({0})})
    simulator = Simulator(jobs, make_policy("fcfs"), placer=SiaPlacer(), present=present).play()
    assert [one.place for one in simulator.segments] == [((1, 1),)] * 2
    assert outcome(simulator)["wait"][0] > 1100.0


@pytest.mark.parametrize(
    ("present", "message"),
    [
        (lambda: Present(5.0, {}, asks=4.0), "asks = 4.0: must be finite and not before time = 5.0"),
        (lambda: Present(5.0, {"run": running()}, after={"run": ["b"]}), "after: job 'run': must not be in"),
        (lambda: Present(5.0, {"run": running(progress=2000.0)}), "job 'run': progress = 2000.0: must be"),
        (lambda: Present(5.0, {"run": running(gpus=3)}), "job 'run': held = .*: must be GPUs that work"),
        (
            lambda: Present(5.0, {"run": PresentJob(held=Placement("t0", ((0, 1),)))}),
            "job 'run': held = .*: must be a Configuration",
        ),
    ],
)
def test_an_impossible_present_is_refused(present, message):
    jobs = scenario(("run", 1, 1000.0, 90.0))
    with pytest.raises(ValueError, match=message):
        Simulator(jobs, make_policy("fcfs"), present=present())
