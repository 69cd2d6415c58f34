"""Kernels are compiled before the first test, so that no test's deadline pays for it."""

from pathlib import Path

import pytest

from copter import ContinualProgram, ProximalPoint


@pytest.fixture(scope="session", autouse=True)
def compiled_kernels():
    program = ContinualProgram()
    for resource, upper in (("a", 3.0), ("b", 0.5)):
        program.add_resource(resource, upper, lower=-1.0)
    for k in range(12):
        usage = {"a": [1.0 + k % 3, 0.0, 2.0], "b": ([2], [0.1 * k])}
        program.add_request(k, [-1.0 - 0.1 * k, 0.0, -1.5], usage, total=1.0, upper=[1.0, 1.0, 0.7])
    for inner in ("newton", "cd"):
        ProximalPoint(inner=inner, tolerance=1e-3, iteration_limit=200).solve(program)
    program.set_capacity("a", upper=-0.5)
    for inner in ("newton", "cd"):
        ProximalPoint(inner=inner, tolerance=1e-3, iteration_limit=200).solve(program)


@pytest.fixture(scope="session")
def local_ray():
    """A Ray of this machine, started once; what needs more than its three processors waits for them."""
    ray = pytest.importorskip("ray")
    ray.init(
        address="local",
        num_cpus=3,
        include_dashboard=False,
        object_store_memory=200_000_000,
        log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": str(Path(__file__).parent)}},  # what tests share
    )
    yield ray
    ray.shutdown()


@pytest.fixture
def on_ray(local_ray):
    """Tasks on it."""
    from copter.spreading.on_ray import OnRay

    return OnRay()
