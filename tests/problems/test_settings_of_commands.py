"""The keys of config.json and of benchmark documents, which readers outside this repository count on."""

import pytest

from copter.problems.load_balancing.cli import BalancingBenchOptions, BalancingRunOptions
from copter.problems.shockwave.cli import ShockwaveBenchOptions, ShockwaveRunOptions
from copter.problems.sia.cli import SiaBenchOptions, SiaRunOptions
from copter.problems.traffic.cli import TrafficBenchOptions, TrafficRunOptions

SOLVING = "tolerance mip_gap time_limit threads seed"
BENCH = f"solvers isolate {SOLVING}"
NETWORK = "topology matrix scale capacity demands paths path_kind objective rounds change"


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        (
            SiaRunOptions(),
            "workload profiles gpus jobs_per_day hours max_hours solver p lam round_seconds exact " + SOLVING,
        ),
        (SiaBenchOptions(), f"gpus jobs rounds exact actors {BENCH}"),
        (
            BalancingRunOptions(),
            f"workload shards servers mode rounds memory balance solver {SOLVING}",
        ),
        (BalancingBenchOptions(), f"shards servers loads mode rounds changed memory balance {BENCH}"),
        (
            ShockwaveRunOptions(),
            "jobs n_jobs gpus arrival_seconds policies hours sets seed",
        ),
        (ShockwaveBenchOptions(), f"jobs gpus rounds exact plan_rounds shim_seconds {BENCH}"),
        (TrafficRunOptions(topology="x"), f"{NETWORK} solver {SOLVING}"),
        (TrafficBenchOptions(topology="x"), f"{NETWORK} actors {BENCH}"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_settings_have_these_keys(options, keys):
    assert set(options.settings()) == set(keys.split())
