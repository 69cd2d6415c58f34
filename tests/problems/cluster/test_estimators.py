"""What a scheduler learns of a job: equation 3.1, perfect scaling, and fits that come near the truth."""

import pytest

from copter.problems.cluster import Cluster, Configuration, GpuType, JobSubmission, Scenario, Simulator
from copter.problems.cluster.estimation.estimators import (
    Bootstrap,
    NoProf,
    Remember,
    TypeBlind,
    _LinearBeyond,
    make_estimator,
)
from copter.problems.cluster.estimation.learned import NOMINAL
from copter.problems.cluster.profiles.analytic import Scaling, TrainingProfile
from copter.problems.cluster.profiles.builtin import builtin_goodput_profiles

CLUSTER = Cluster([GpuType("t4", 4, 2), GpuType("a100", 8, 1)])
PROFILES = builtin_goodput_profiles()


class Fixed:
    """Gives the one job what the list says, round by round."""

    name, kind, round_seconds = "fixed", "adaptive", 60.0

    def __init__(self, *wanted):
        self.wanted, self.seen = wanted, []

    def schedule(self, now):
        job = now.jobs["a"]
        self.seen.append(job.seen)
        return {"a": self.wanted[min(now.index, len(self.wanted) - 1)]}


def play(estimator, *wanted, rounds=8, application="bert", **options):
    policy = Fixed(*wanted)
    scenario = Scenario(CLUSTER, [JobSubmission("a", 0.0, "", application, **options)], PROFILES)
    simulator = Simulator(scenario, policy, estimator=estimator, max_hours=rounds / 60)
    list(simulator.run())
    return policy.seen, simulator


def speed(profile, nodes, gpus, type):
    return profile.curve(Configuration(nodes, gpus, type))[0]


ONE_T4, FOUR_T4 = Configuration(1, 1, "t4"), Configuration(1, 4, "t4")


def test_before_several_gpus_ran_scaling_is_perfect_and_one_gpu_is_known():
    seen, _ = play(Bootstrap(noise=0.0), ONE_T4)
    for type in ("t4", "a100"):
        fixed = seen[0].at_fixed_batch(64)
        assert speed(fixed, 1, 1, type) == pytest.approx(
            speed(PROFILES["bert"].at_fixed_batch(64), 1, 1, type), rel=0.02
        )
        parameters = seen[0].models[type].parameters
        assert parameters.alpha_local == parameters.alpha_node == 0
        local = seen[0].models[type].max_local_batch
        assert parameters.throughput(1, 4, local) == pytest.approx(4 * parameters.throughput(1, 1, local))


def test_one_type_teaches_the_other_by_the_ratio_of_their_single_gpus():
    seen, _ = play(Bootstrap(noise=0.0), ONE_T4, FOUR_T4)
    t4, a100 = (seen[-1].models[type].parameters for type in ("t4", "a100"))
    assert t4.sync_seconds(1, 4) > 0  # alpha or beta: 4 GPUs alone do not tell them apart
    batch = PROFILES["bert"].limits.initial
    ratio = t4.throughput(1, 4, batch) / t4.throughput(1, 1, batch)
    assert a100.throughput(1, 4, batch) / a100.throughput(1, 1, batch) == pytest.approx(float(ratio))
    # What was measured replaces what was carried over.
    own, _ = play(Bootstrap(noise=0.0), ONE_T4, FOUR_T4, Configuration(1, 8, "a100"), rounds=12)
    truth = speed(PROFILES["bert"], 1, 8, "a100")
    assert speed(own[-1], 1, 8, "a100") == pytest.approx(truth, rel=0.03)
    assert abs(speed(seen[-1], 1, 8, "a100") / truth - 1) > 0.03


def test_blind_to_types_one_model_stands_for_all():
    seen, _ = play(TypeBlind(noise=0.0), FOUR_T4)
    first, last = seen[0].models, seen[-1].models
    assert first["t4"].parameters == first["a100"].parameters == NOMINAL
    assert last["t4"].parameters == last["a100"].parameters != NOMINAL
    truth = PROFILES["bert"].models["t4"]
    local = PROFILES["bert"].best_batch(FOUR_T4, 0).local_batch
    fitted = last["a100"].parameters.step_seconds(1, 4, local)
    assert fitted == pytest.approx(truth.parameters.step_seconds(1, 4, local), rel=0.05)


def test_profiling_is_charged_to_the_first_start():
    starts = []
    for estimator in (NoProf(), Bootstrap(gpu_hours=0.1)):
        _, simulator = play(estimator, ONE_T4, rounds=8)
        (job,) = simulator.job_results()
        starts.append(job.run_seconds)
    assert starts[0] - starts[1] == pytest.approx(0.1 * 3600 / 2)  # two types at the same time


class Counted(NoProf):
    """Notes how many reports of the job there were when it was asked."""

    def __init__(self):
        super().__init__(noise=0.0)
        self.reports = {}

    def observe(self, now):
        super().observe(now)
        self.reports[now.time] = {type: one.total for type, one in self._known["a"].reports.items()}


def test_reports_do_not_depend_on_how_often_the_policy_is_asked():
    """One t4 from 0 to 420 s, then an a100 from 420 to 840 s, each after a restart of 120 s."""
    seen = {}
    for seconds in (10.0, 12.0, 20.0, 42.0, 60.0, 210.0):
        policy, first = Fixed(), round(420 / seconds)
        policy.round_seconds = seconds
        policy.wanted = [ONE_T4] * first + [Configuration(1, 1, "a100")]
        estimator = Counted()
        scenario = Scenario(CLUSTER, [JobSubmission("a", 0.0, "", "bert")], PROFILES)
        list(Simulator(scenario, policy, estimator=estimator, max_hours=0.25).run())
        seen[seconds] = [estimator.reports[time] for time in (420.0, 840.0)]
    assert seen == dict.fromkeys(seen, [{"t4": 10, "a100": 0}, {"t4": 10, "a100": 10}])


class OneAfterTheOther:
    """Gives each job what the list says; the next one comes when the one before is over."""

    name, kind, round_seconds = "one-after-the-other", "adaptive", 60.0

    def __init__(self, wanted):
        self.wanted, self.seen = wanted, {}

    def schedule(self, now):
        for name, job in now.jobs.items():
            self.seen.setdefault(name, []).append(job.seen)
        return {name: self.wanted[name] for name in now.jobs}


def play_two(estimator, first, second, application="bert"):
    """What was seen of two jobs, the second an hour after the first."""
    jobs = [
        JobSubmission("first", 0.0, "", "bert", tenant="x"),
        JobSubmission("second", 3600.0, "", application, tenant="x"),
    ]
    policy = OneAfterTheOther({"first": first, "second": second})
    simulator = Simulator(Scenario(CLUSTER, jobs, PROFILES), policy, estimator=estimator, max_hours=1.2)
    list(simulator.run())
    return policy.seen


A100 = Configuration(1, 8, "a100")


def test_a_job_begins_with_what_was_learned_of_the_one_before():
    seen = play_two(Remember(noise=0.0), A100, ONE_T4)
    assert seen["first"][0].models["a100"].parameters == NOMINAL
    learned, begun = seen["first"][-1], seen["second"][0]
    assert begun.models["a100"].parameters == learned.models["a100"].parameters
    assert speed(begun, 1, 8, "a100") == pytest.approx(speed(PROFILES["bert"], 1, 8, "a100"), rel=0.03)
    stranger = play_two(Remember(noise=0.0), A100, ONE_T4, "yolov3")["second"][0]
    assert stranger.models["a100"].parameters == NOMINAL


CLUSTER_OVER = Cluster([GpuType("A", 4, 4), GpuType("B", 8, 1)])
TRUTH = TrainingProfile("m", 10.0, 3e4, {"A": 1.0, "B": 3.0}, Scaling(16, (1, 20), 0.1, (0.3, 0.8)), levels=2)


def test_a_job_that_never_ran_seems_to_have_no_use_for_more_than_its_fair_share():
    seen = _LinearBeyond(TRUTH, {}, 3)
    for shape in CLUSTER_OVER.configurations:
        one = TRUTH.curve(Configuration(1, 1, shape.type))[0]
        assert seen.curve(shape)[0] == pytest.approx(one * min(shape.gpus, 3))


def test_it_is_the_truth_up_to_what_ran_and_linear_beyond():
    seen = _LinearBeyond(TRUTH, {"A": 4}, 1)
    for level in range(2):
        goodput = dict(
            zip(CLUSTER_OVER.configurations, seen.goodput(CLUSTER_OVER.configurations, level), strict=True)
        )
        true = dict(
            zip(CLUSTER_OVER.configurations, TRUTH.goodput(CLUSTER_OVER.configurations, level), strict=True)
        )
        for one in CLUSTER_OVER.configurations:
            base = Configuration(1, 4, "A") if one.type == "A" else Configuration(1, 1, "B")
            expected = true[one] if one.gpus <= base.gpus else true[base] * one.gpus / base.gpus
            assert goodput[one] == pytest.approx(expected)
            assert seen.curve(one)[level] == pytest.approx(expected)  # both ways to ask agree


def test_an_unknown_estimator_is_named():
    with pytest.raises(ValueError, match="'psychic'.*oracle, bootstrap.*overestimate"):
        make_estimator("psychic")
