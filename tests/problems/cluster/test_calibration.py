"""The fits behind the built-in profiles: levels of noise against all partitions, models from tables."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from copter.problems.cluster.cluster import Configuration
from copter.problems.cluster.estimation import calibration
from copter.problems.cluster.estimation.calibration import (
    _fit_table,
    _GoodputTable,
    _measured_table,
    _read_table,
)
from copter.problems.cluster.profiles.builtin import builtin_goodput_profiles
from copter.problems.cluster.profiles.goodput import BatchLimits, GoodputProfile, TypeModel
from copter.problems.cluster.profiles.throughput import ThroughputParameters
from copter.problems.cluster.traces.pollux import read_pollux_measurements
from support.real_data import DATA

MEASUREMENTS, TABLES = DATA / "cluster" / calibration._ARTIFACT, DATA / "cluster" / calibration._TABLES
LIMITS = BatchLimits(32, 4096)


def _deviation(value, weight, ends):
    parts = np.split(np.arange(value.size), ends[:-1])
    means = [np.average(value[part], weights=weight[part]) for part in parts]
    return sum(float(weight[p] @ (value[p] - mean) ** 2) for p, mean in zip(parts, means, strict=True))


@given(
    st.lists(st.tuples(st.floats(-3.0, 0.0), st.floats(0.1, 10.0)), min_size=3, max_size=8), st.integers(1, 3)
)
def test_levels_vary_least_of_all_partitions(entries, count):
    value, weight = np.array(entries).T
    ends = calibration._segments(value, weight, count)
    assert ends.size == count and ends[-1] == value.size and (np.diff(ends, prepend=0) > 0).all()
    best = min(
        _deviation(value, weight, np.array([*cuts, value.size]))
        for cuts in combinations(range(1, value.size), count - 1)
    )
    assert _deviation(value, weight, ends) == pytest.approx(best, abs=1e-9)


def test_a_model_is_found_from_goodput_alone():
    truth = TypeModel(ThroughputParameters(0.05, 0.002, 0.02, 0.001, 0.1, 0.002, 2.0), 64)
    ends, noise = np.array([100.0, 300.0]), np.array([300.0, 8000.0])
    profile = GoodputProfile("m", 0.0, ends, noise, {"a": truth}, LIMITS)
    shapes = [(1, 1), (1, 2), (1, 4), (1, 8), (2, 16), (3, 24)]
    goodput = np.stack([profile.curve(Configuration(*shape, "a")) for shape in shapes], axis=1)
    nodes, gpus = np.array(shapes).T
    start = TypeModel(ThroughputParameters(0.1, 0.006, 0.1, 0.01, 0.2, 0.01, 1.5), 64)
    table = _GoodputTable(np.array([50.0, 200.0]), goodput, nodes, gpus)
    found, error = _fit_table(table, start, (ends, noise), LIMITS, (0.5, 1.0))
    assert found.max_local_batch == 64
    assert error < 0.01


@pytest.fixture(scope="module")
def measurements():
    return read_pollux_measurements(MEASUREMENTS)


@pytest.mark.data
@pytest.mark.skipif(not MEASUREMENTS.is_dir(), reason="needs Pollux' measurements")
@pytest.mark.parametrize("name", calibration._MODELS)
def test_built_in_jobs_run_as_long_as_measured_ones(measurements, name):
    measured = measurements[name]
    built_in = builtin_goodput_profiles()[name]
    table = _measured_table(measured)
    ratio = [
        built_in.clock(configuration)[-1] / measured.clock(configuration)[-1]
        for nodes, gpus in zip(table.nodes, table.gpus, strict=True)
        for configuration in [Configuration(int(nodes), int(gpus), "t4")]
    ]
    assert np.median(np.abs(np.log(ratio))) < 0.11


@pytest.mark.data
@pytest.mark.skipif(not TABLES.is_dir(), reason="needs the tables of Sia's authors")
@pytest.mark.parametrize("name", calibration._MODELS)
def test_built_in_jobs_run_as_long_as_in_the_tables(name):
    built_in = builtin_goodput_profiles()[name]
    for type, theirs in calibration._TABLE_TYPES.items():
        table = _read_table(TABLES / f"{name}.npz", theirs)
        seconds = np.diff(table.progress, prepend=0.0) @ (1.0 / table.goodput)
        ours = [
            built_in.clock(Configuration(int(nodes), int(gpus), type))[-1]
            for nodes, gpus in zip(table.nodes, table.gpus, strict=True)
        ]
        assert np.median(np.abs(np.log(ours / seconds))) < 0.05
