"""A training script by itself: one process, the arguments' work; and what it may do wrong."""

import runpy
from types import SimpleNamespace

import numpy as np
import pytest

from copter.live.training import Training, TrainingError
from copter.live.training.layout import GradientLayout
from copter.live.training.plan import Batch, Orders
from copter.live.training.training import ArrayState, _Scaling
from support.paced_digits import EXAMPLES
from support.training_job import generate

digits = SimpleNamespace(**runpy.run_path(str(EXAMPLES / "digits.py")))


def test_the_loop_goes_through_the_work():
    x, y, true = generate(500, 10, 0.1, 0)
    w = np.zeros(10)
    training = Training({"w": w}, examples=500, initial_batch=10, work=300)
    for step in training.steps():
        for indices in step.passes():
            step.add(x[indices].T @ (x[indices] @ w - y[indices]) / len(indices))
        w -= 0.02 * step.learning_rate_factor * step.gradient()
        assert (step.batch_size, step.learning_rate_factor) == (10, 1.0)
    assert (training.step_count, training.progress, training.epoch) == (300, 300.0, 6)
    assert np.linalg.norm(w - true) < 0.1


def test_the_gradient_of_the_digits_is_that_of_their_loss():
    x, y = digits.generate(20, 0.3, 0)
    model = digits.initial_model(6, 1)
    _, gradient = digits.loss_and_gradient(model, x, y)
    rng = np.random.default_rng(2)
    for name, weights in model.items():
        direction = rng.normal(size=weights.shape)
        losses = []
        for sign in (1, -1):
            moved = model | {name: weights + sign * 1e-6 * direction}
            losses.append(digits.loss_and_gradient(moved, x, y)[0])
        slope = (losses[0] - losses[1]) / 2e-6
        assert slope == pytest.approx(float((gradient[name] * direction).sum()), rel=1e-5)
    assert 0 <= digits.accuracy(model, x, y) <= 1


def make(**wrong):
    return Training(**{"state": {"w": np.zeros(3)}, "examples": 10, "initial_batch": 4, "work": 5} | wrong)


@pytest.mark.parametrize(
    "wrong, error, words",
    [
        ({"work": 0}, ValueError, "work = 0"),
        ({"work": float("inf")}, ValueError, "work = inf"),
        ({"initial_batch": 0}, ValueError, "initial_batch = 0"),
        ({"examples": 0}, ValueError, "examples = 0"),
        ({"state": {"w": [1.0]}}, TypeError, "'w'"),
        ({"state": {1: np.zeros(3)}}, TypeError, "1"),
        ({"state": {"w": np.array([None])}}, TypeError, "'w'"),
    ],
)
def test_arguments_that_are_none_are_named(wrong, error, words):
    with pytest.raises(error, match=words):
        make(**wrong)


def test_a_step_wants_a_gradient_for_each_pass_and_to_be_averaged_once():
    step = next(make().steps())
    with pytest.raises(TrainingError, match="step 0: 0 gradients: must be 1, one a pass"):
        step.gradient()
    step.add(np.ones(3))
    assert step.gradient().tolist() == [1, 1, 1]
    with pytest.raises(TrainingError, match="averaged once only"):
        step.gradient()
    steps = make().steps()
    next(steps)
    with pytest.raises(TrainingError, match="must call gradient\\(\\)"):
        next(steps)


def test_a_checkpoint_of_another_script_is_refused_by_name():
    state = ArrayState({"w": np.zeros(3), "b": np.zeros(1)})
    with pytest.raises(TrainingError, match="^b: "):
        state.load({"w": np.zeros(3)})
    with pytest.raises(TrainingError, match=r"'w'.*float64 \(4,\) in the checkpoint: must be float64 \(3,\)"):
        state.load({"w": np.zeros(4), "b": np.zeros(1)})
    arrays = make()._arrays()
    with pytest.raises(TrainingError, match="must be 10, as in the checkpoint"):
        make(examples=11)._restore(arrays)
    with pytest.raises(TrainingError, match="must be written by Training"):
        make()._restore({"w": np.zeros(3)})


def test_gradients_keep_their_form_and_precision():
    parts = {"a": np.ones((2, 3), np.float32), "b": np.float32(4.0)}
    layout = GradientLayout(parts)
    vector = layout.pack(parts)
    assert vector.dtype == np.float32 and vector.size == 7
    found = layout.unpack(vector)
    assert found["a"].shape == (2, 3) and found["b"].shape == () and found["b"] == 4.0
    assert GradientLayout([1, 2]).pack([3, 4]).dtype == np.float64
    with pytest.raises(ValueError, match=r"a \(3,\), b \(\): must be like the first, a \(2, 3\), b \(\)"):
        layout.pack({"a": np.ones(3), "b": 1.0})


def test_a_step_is_worth_what_the_noise_says():
    scaling = _Scaling("adascale", 10)
    assert scaling.gain(np.nan, 40) == scaling.gain(5.0, 10) == 1.0
    assert scaling.gain(np.inf, 40) == 4.0
    assert scaling.gain(10.0, 40) == pytest.approx(2.0 / 1.25)
    assert scaling.factor(10.0, 40, 9.0) == pytest.approx(2.0 / 1.25)
    assert scaling.factor(np.nan, 40, 9.0) == 9.0
    assert _Scaling("square-root", 10).factor(np.nan, 40, 9.0) == 2.0


def test_batches_without_examples_are_refused():
    for wrong in (Batch(0, 0, 1.0), Batch(1, -1, 1.0), Batch(1, 0, 0.0), Batch(1, 0, float("nan"))):
        with pytest.raises(ValueError, match="local_batch must be at least 1"):
            Orders.from_dict({"lease_seconds": 1.0, "stop": False, "batch": list(wrong)})
