"""What all tests have: the same examples every time, kernels compiled before the first, at most one Ray."""

import gc
from pathlib import Path

import compile_kernels
import pytest
from hypothesis import HealthCheck, settings
from scheduling import RAY, ByFile

# No test has a deadline, and none is given up because examples are slow to draw: a machine may be busy.
_UNTIMED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("fixed", derandomize=True, **_UNTIMED)
settings.register_profile("random", print_blob=True, database=None, **_UNTIMED)
settings.load_profile("fixed")  # `make test-long` takes the other one


def pytest_collection_modifyitems(items):
    """What takes longest as one piece begins first: see scheduling.py."""
    items.sort(key=lambda item: item.nodeid.partition("::")[0] not in RAY)


def pytest_collection_finish():
    """What was collected stays: the collector need not look at it, again and again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Tests of a file share a process, and those of Ray one Ray: what they prepare is prepared once."""
    return ByFile(config, log)


@pytest.fixture(scope="session", autouse=True)
def compiled_kernels():
    """Before the first test, so that no solve's deadline pays for it; quick where ``make`` has done it."""
    compile_kernels.solvers()


@pytest.fixture(autouse=True)
def no_waiting_for_a_quiet_machine(monkeypatch):
    """Nobody looks at seconds here, and tests run beside each other."""
    monkeypatch.setattr("copter.bench.calm.PATIENCE", 0.0)


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
