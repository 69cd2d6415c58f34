"""Ctrl-C and time limits of `milp`, `linprog`, `Model.solve` and cvxpy: each ends, and can be used again."""

import os
import signal
import threading

import numpy as np
import pytest

import copter
from copter import Status, from_arrays, linprog, make_solver, milp
from copter.models.highs import HighsEngine
from support.ticking import tick

cp = pytest.importorskip("cvxpy", reason="needs the extra copter-opt[cvxpy]")


def market_split(rows=5, columns=60):
    """Equations of whole numbers on which branch and bound takes hours."""
    rng = np.random.default_rng(0)
    A = rng.integers(0, 100, (rows, columns)).astype(float)
    side = np.floor(A.sum(axis=1) / 2)
    return A, side


SIZE = {"dense": 50}
"""Rows and columns of the dense LP; of 2,000, HiGHS takes many seconds."""


def dense():
    """A dense LP."""
    n = SIZE["dense"]
    rng = np.random.default_rng(1)
    return {"c": rng.random(n), "A_ub": -rng.random((n, n)), "b_ub": -rng.uniform(1, 2, n)}


def by_cvxpy(integer):
    A, side = market_split() if integer else (dense()["A_ub"], dense()["b_ub"])
    x = cp.Variable(A.shape[1], boolean=integer, nonneg=not integer)
    rows = [A @ x == side] if integer else [A @ x <= side]
    return cp.Problem(cp.Minimize(0 if integer else dense()["c"] @ x), rows).solve(solver=copter.COPTER)


def by_model(integer, name=None):
    A, side = market_split()
    given = (
        {"c": np.zeros(60), "A_eq": A, "b_eq": side, "bounds": (0, 1), "integrality": 1}
        if integer
        else dense()
    )
    model = from_arrays(**given)
    return model.solve() if name is None else make_solver(name).solve(model)


DOORS = {
    "milp": lambda: milp(
        np.zeros(60), integrality=1, bounds=(0, 1), constraints=(*market_split(), market_split()[1])
    ),
    "linprog": lambda: linprog(**dense()),
    "linprog, integers": lambda: linprog(np.zeros(60), None, None, *market_split(), (0, 1), integrality=1),
    "Model": lambda: by_model(False),
    "Model, integers": lambda: by_model(True),
    "highs-hot": lambda: by_model(False, "highs-hot"),
    "highs-milp": lambda: by_model(True, "highs-milp"),
    "cvxpy": lambda: by_cvxpy(False),
    "cvxpy, integers": lambda: by_cvxpy(True),
}


@pytest.fixture(autouse=True)
def ctrl_c_is_heard():
    """A process that a shell began in the background ignores SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("door", DOORS)
def test_ctrl_c_ends_every_door(door, monkeypatch):
    """A run of HiGHS that ends only when its time limit is set to 0, as Ctrl-C does."""
    ended, pause = threading.Event(), threading.Event()

    def run(highs):
        press()
        while highs.getOptionValue("time_limit")[1] > 0.0:
            pause.wait(0.005)
        ended.set()
        return 0.0

    monkeypatch.setattr("copter.models.highs.HighsEngine.timed", run)
    with pytest.raises(KeyboardInterrupt):
        DOORS[door]()
    assert ended.wait(30.0) and signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.long  # HiGHS itself
@pytest.mark.parametrize("door", ["milp", "linprog", "Model", "Model, integers", "cvxpy, integers"])
def test_highs_ends_within_seconds(door, monkeypatch):
    monkeypatch.setitem(SIZE, "dense", 2000)
    timers = [threading.Timer(3.0, press), threading.Timer(30.0, os._exit, (1,))]  # if it never ends
    for timer in timers:
        timer.start()
    with pytest.raises(KeyboardInterrupt):
        DOORS[door]()
    for timer in timers:
        timer.cancel()


def small(integrality=0):
    rng = np.random.default_rng(2)
    A = rng.random((20, 30))
    return from_arrays(
        -rng.random(30), A_ub=A, b_ub=A.sum(axis=1) / 3, bounds=(0, 1), integrality=integrality
    )


@pytest.mark.parametrize("integrality", [0, 1])
def test_a_model_can_be_used_after_ctrl_c_and_after_a_limit(integrality, monkeypatch):
    best = small(integrality).solve().objective
    model = small(integrality)
    with monkeypatch.context() as patched:
        patched.setattr(
            "copter.models.highs.HighsEngine.timed", lambda highs: os.kill(os.getpid(), signal.SIGINT) or 0.0
        )
        with pytest.raises(KeyboardInterrupt):
            model.solve()
    assert model.solve().objective == pytest.approx(best, rel=1e-4)
    late = small(integrality)
    found = late.solve(time_limit=0.0)
    assert found.status in (Status.DEADLINE, Status.OPTIMAL)
    if found.status is Status.DEADLINE:
        assert not found.found or found.objective >= best - 1e-9
    found = late.solve()
    assert found.status is Status.OPTIMAL and found.objective == pytest.approx(best, rel=1e-4)


@pytest.mark.parametrize("door", ["Model", "milp", "linprog", "integers", "cvxpy"])
def test_a_limit_is_that_of_the_whole_call(door, monkeypatch):
    """Every run of HiGHS gets at most what the test's clock has left, also second runs and last steps."""
    limits, begin = [], []
    plain = HighsEngine.setOptionValue
    clock = tick(monkeypatch, 0.25)

    def spy(self, name, value):
        if name == "time_limit" and begin:
            limits.append((value - self.getRunTime(), begin[0] + 60.0 - clock.now))
        return plain(self, name, value)

    monkeypatch.setattr(HighsEngine, "setOptionValue", spy)
    begin.append(clock.now)
    A, high = np.random.default_rng(3).random((6, 8)), np.full(6, 2.0)
    c = -np.arange(1.0, 9.0)
    if door in ("Model", "integers"):
        from_arrays(c, A, high, integrality=[int(door == "integers")] * 4 + [0] * 4).solve(time_limit=60.0)
    elif door == "linprog":
        linprog(c, A, high, options={"time_limit": 60.0})
    elif door == "milp":
        kinds = [1] * 4 + [0] * 4
        milp(c, integrality=kinds, constraints=(A, -np.inf, high), options={"time_limit": 60.0})
    else:
        x = cp.Variable(8, nonneg=True)
        cp.Problem(cp.Minimize(c @ x), [A @ x <= high]).solve(solver=copter.COPTER, time_limit=60.0)
    assert limits and all(given <= left + 1.0 for given, left in limits), limits


def test_no_time_is_no_answer_or_a_right_one():
    for call in (
        lambda: linprog([1.0, 1.0], [[-1.0, -2.0]], [-1.0], options={"time_limit": 0.0}),
        lambda: milp([1.0, 1.0], integrality=1, constraints=([[1, 2]], 1, 9), options={"time_limit": 0.0}),
    ):
        found = call()
        assert found.status in (0, 1) and found.success == (found.status == 0)


def test_a_point_is_not_lost_if_highs_does_not_end_in_time(monkeypatch):
    """A run that has found a point, and ends only long after its limit."""
    pause, original = threading.Event(), HighsEngine.timed

    def run(highs):
        original(highs)
        while highs.getOptionValue("time_limit")[1] > 0.0:
            pause.wait(0.005)
        return 0.0

    monkeypatch.setattr("copter.models.highs.HighsEngine.timed", run)
    A = np.random.default_rng(2).integers(1, 9, (3, 12)).astype(float)
    found = milp(
        -A.sum(axis=0),
        integrality=1,
        bounds=(0, 1),
        constraints=(A, -np.inf, A.sum(axis=1) / 2),
        options={"time_limit": 1.0},
    )
    assert found.status == 1 and found.x is not None and (A @ found.x <= A.sum(axis=1) / 2).all()
    assert found.fun == pytest.approx(float(-A.sum(axis=0) @ found.x)) and found.x.any()


def test_an_optimum_is_not_lost_if_its_confirmation_does_not_end_in_time(monkeypatch):
    """An entry of 1e6 is searched once more; this run ends only long after its limit."""
    pause, original, runs = threading.Event(), HighsEngine.timed, []

    def run(highs):
        runs.append(highs)
        if len(runs) > 1:
            while highs.getOptionValue("time_limit")[1] > 0.0:
                pause.wait(0.005)
            return 0.0
        return original(highs)

    monkeypatch.setattr("copter.models.highs.HighsEngine.timed", run)
    given = {"integrality": 1, "bounds": (0, 1), "constraints": ([[1e6, 1.0, 1.0]], -np.inf, 1e6)}
    found = milp([-3.0, -1.0, -1.0], **given)
    assert len(runs) == 2 and found.status == 0
    assert found.x.tolist() == [1.0, 0.0, 0.0] and found.fun == -3.0
