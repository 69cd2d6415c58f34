"""Built-in profiles: jobs run as long as in the published measurements and tables."""

import numpy as np
import pytest

from copter.problems.cluster.cluster import Cluster, Configuration, GpuType
from copter.problems.cluster.profiles.builtin import builtin_goodput_profiles
from copter.problems.cluster.traces.pollux import read_pollux_measurements
from support.real_data import DATA

MEASUREMENTS = DATA / "cluster" / "petuum_adaptdl_osdi21-artifact" / "simulator" / "traces"
TABLES = DATA / "cluster" / "suhasjs_continuous-scheduling" / "derived_npz"
NAMES = tuple(builtin_goodput_profiles())


@pytest.fixture(scope="module")
def measurements():
    return read_pollux_measurements(MEASUREMENTS)


@pytest.mark.data
@pytest.mark.skipif(not MEASUREMENTS.is_dir(), reason="needs Pollux' measurements")
@pytest.mark.parametrize("name", NAMES)
def test_built_in_jobs_run_as_long_as_measured_ones(measurements, name):
    measured = measurements[name]
    built_in = builtin_goodput_profiles()[name]
    ratio = [
        built_in.clock(shape._replace(type="t4"))[-1] / measured.clock(shape)[-1]
        for shape in Cluster([GpuType(measured.type, 4, 16)]).configurations
    ]
    assert np.median(np.abs(np.log(ratio))) < 0.11


@pytest.mark.data
@pytest.mark.skipif(not TABLES.is_dir(), reason="needs the tables of Sia's authors")
@pytest.mark.parametrize("name", NAMES)
def test_built_in_jobs_run_as_long_as_in_the_tables(name):
    built_in = builtin_goodput_profiles()[name]
    for type, theirs in {"rtx": "rtx", "quad": "quad", "a100": "dgx-ext"}.items():
        with np.load(TABLES / f"{name}.npz", allow_pickle=False) as file:
            its = file["gpu_type"] == theirs
            length = np.diff(file["progress"].astype(float), prepend=0.0)
            seconds = length @ (1.0 / file["goodput"][:, its].astype(float))
            nodes, gpus = file["num_nodes"][its], file["num_gpus"][its]
        ours = [
            built_in.clock(Configuration(int(n), int(count), type))[-1]
            for n, count in zip(nodes, gpus, strict=True)
        ]
        assert np.median(np.abs(np.log(ours / seconds))) < 0.05
