"""What all tests have: the same examples every time, kernels compiled before the first, at most one Ray."""

import gc
import multiprocessing
import os
import signal
import sys
import threading
from pathlib import Path

import compile_kernels
import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from copter.compile import first_calls
from support import slow_tests
from support.amounts import whole
from support.scheduling import RAY, ByFile

# No test has a deadline, and none is given up because examples are slow to draw: a machine may be busy.
_UNTIMED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("fixed", derandomize=True, max_examples=20, **_UNTIMED)
settings.register_profile("random", print_blob=True, database=None, **_UNTIMED)
settings.load_profile("fixed")  # `make test-long` takes the other one


def pytest_addoption(parser):
    parser.addoption("--measure", action="store_true", help="write tests/support/slow_tests.txt again")


def pytest_configure(config):
    if config.getoption("--measure"):
        config.pluginmanager.register(slow_tests.Measurement())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Mark slow tests (slow_tests.py). What takes longest as one piece begins first: see scheduling.py."""
    if not config.getoption("--measure"):
        slow_tests.mark(items)
    items.sort(key=lambda item: item.nodeid.partition("::")[0] not in RAY)


def pytest_collection():
    """Imports and the collection of tests leave little garbage, and searching for it takes seconds."""
    gc.disable()


def pytest_collection_finish():
    """What was collected stays: the collector need not look at it, again and again."""
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Tests of a file share a process, and those of Ray one Ray: what they prepare is prepared once."""
    return ByFile(config, log)


#: Modules whose functions compile every kernel of a process at its first call.
COMPILE_AT_ONCE = (
    "copter.bench.rounds",
    "copter.cli.run",
    "copter.solvers.proximal.ahead",
    "copter.solvers.proximal.solver",
)


@pytest.fixture(scope="session", autouse=True)
def compiled_kernels():
    """Load kernels before the first test, so that no solve's deadline pays for it.

    Other kernels run in Python until compiling them pays off, which gives the same numbers in all bits.
    `make test-long` compiles each of them at its first call.
    """
    compile_kernels.solvers()
    with pytest.MonkeyPatch.context() as patch:
        if not whole():
            patch.setattr(first_calls, "_at_once", ())
            for module in COMPILE_AT_ONCE:
                patch.setattr(f"{module}.compile_at_once", lambda *_: None)
        yield


@pytest.fixture(autouse=True)
def no_waiting_for_a_quiet_machine(monkeypatch):
    """Nobody looks at seconds here, and tests run beside each other."""
    monkeypatch.setattr("copter.bench.calm.PATIENCE", 0.0)


#: Variables that pytest sets for each test, and Ray when it is imported.
OF_OTHERS = {"PYTEST_CURRENT_TEST", "RAY_CLIENT_MODE"}


def _of_copter(thread):
    """Whether a thread is one of the pool that copter keeps for later solves."""
    return thread.name.startswith("copter_")


def _state():
    """State of this process that a test may change, but must restore."""
    ray = sys.modules.get("ray")
    return {
        "environment variables": {k: v for k, v in os.environ.items() if k not in OF_OTHERS},
        "working directory": os.getcwd(),
        "sys.path": [each for each in sys.path if not each.endswith("ray/thirdparty_files")],
        "sys.argv": list(sys.argv),
        "handlers of signals": [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)],
        "garbage collector": gc.isenabled(),
        "floating-point errors of numpy": np.geterr(),
        "threads": [each for each in threading.enumerate() if not (each.daemon or _of_copter(each))],
        "processes": multiprocessing.active_children(),
        "Ray": ray is not None and ray.is_initialized(),
    }


@pytest.fixture(autouse=True)
def leaves_nothing_behind(request):
    """Fail a test that leaves a session, a variable, a folder, a thread or a process behind.

    Only tests that are marked `cluster` may have a Ray, which is a fixture's and ends with the session.
    """
    before = _state()
    yield
    for thread in set(threading.enumerate()) - set(before["threads"]):
        if thread.name == "copter-native":  # a call of a library that was told to end, and ends soon
            thread.join(60.0)
    after = _state()
    if request.node.get_closest_marker("cluster"):
        before |= {name: after[name] for name in ("Ray", "environment variables", "handlers of signals")}
    left = {name: (before[name], after[name]) for name in before if before[name] != after[name]}
    assert not left, f"the test changed and did not restore {', '.join(left)}"


class LocalRay:
    """The Ray of this process: started when a test first needs it, and again after a test had another one."""

    def __init__(self):
        self._environment, self._handler = dict(os.environ), signal.getsignal(signal.SIGTERM)

    def start(self):
        """Return Ray with three processors; what needs more than these waits for them."""
        ray = pytest.importorskip("ray")
        if not ray.is_initialized():
            ray.init(
                address="local",
                num_cpus=3,
                include_dashboard=False,
                object_store_memory=200_000_000,
                log_to_driver=False,
                runtime_env={"env_vars": {"PYTHONPATH": str(Path(__file__).parent)}},  # what tests share
            )
        return ray

    def end(self):
        """End it, or another one, if it runs, and restore what Ray has changed in this process."""
        if "ray" in sys.modules:
            sys.modules["ray"].shutdown()
        os.environ.clear()
        os.environ.update(self._environment)
        signal.signal(signal.SIGTERM, self._handler)


@pytest.fixture(scope="session")
def ray_of_this_process():
    """Return the only owner of a Ray in this process."""
    owner = LocalRay()
    yield owner
    owner.end()


@pytest.fixture
def local_ray(request, ray_of_this_process):
    """Return a Ray of this machine that all tests of the process share."""
    file = request.node.nodeid.partition("::")[0]
    assert request.node.get_closest_marker("cluster"), "a test that needs Ray is marked `cluster`"
    assert file in RAY, f"{file} needs Ray and is not listed in tests/support/scheduling.py"
    return ray_of_this_process.start()


@pytest.fixture
def on_ray(local_ray):
    """Tasks on it."""
    from copter.tasks.on_ray import OnRay

    return OnRay()
