"""Jobs in PyTorch: processes average, stop, resize and go on, and the noise is that of their gradients."""

import io
import json
import sys

import numpy as np
import pytest

from copter.live.backends.base import STOPPED
from copter.live.training.plan import Batch
from support import paced_digits
from support.training_runs import Job, until

torch = pytest.importorskip("torch", reason="PyTorch is not installed: the extra torch")

SCRIPT = str(paced_digits.EXAMPLES / "digits_torch.py")
COMMAND = (sys.executable, SCRIPT, "--examples", "600", "--say-every", "1")


@pytest.fixture
def job(tmp_path):
    made = []

    def make(name):
        (tmp_path / name).mkdir()
        made.append(Job(tmp_path / name, command=COMMAND))
        return made[-1]

    yield make
    for each in made:
        each.end()


def weights(job):
    state = torch.load(io.BytesIO(job.checkpoint()["state/torch"].tobytes()), weights_only=True)
    return np.concatenate([each.numpy().ravel() for each in state["model"].values()])


@pytest.mark.cluster
@pytest.mark.long
def test_two_processes_that_are_stopped_learn_what_one_does(job):
    one, two = job("one"), job("two")
    two.start((2,), Batch(12, 0, 1.0), work=1e6)
    until(lambda: "step 5" in two.log())
    assert two.terminate().wait() == [STOPPED], two.log()
    work = json.loads(two.checkpoint()["copter"].tobytes())["progress"] + 20
    assert two.start((1, 1), Batch(6, 1, 1.0), work=work).wait() == [0, 0], two.log() + two.log(1)
    assert one.start((1,), Batch(24, 0, 1.0), work=work).wait() == [0], one.log()
    assert weights(two) == pytest.approx(weights(one), rel=1e-3, abs=1e-5)  # single precision
    for each in (one, two):
        assert (each.checkpoint()["noise/sums"][1:] > 0).all()  # mu^2 may be below 0 by chance


@pytest.mark.cluster
@pytest.mark.long
def test_processes_stop_before_all_have_come_and_fail_together(job):
    early, late = job("early"), job("late")
    early.start((1, 1), agents=[0])
    until((early.run.folder / "torch-store").exists)
    assert early.terminate().wait() == [STOPPED], early.log()
    late.start((1, 1), Batch(12, 0, 1.0), work=1e6)
    until(lambda: "step 5" in late.log())
    late.agents[1].kill()
    assert late.wait()[0] == 1 and "another process has ended or does not answer" in late.log()


def test_a_script_by_itself_and_what_it_may_do_wrong(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))  # an optimiser of PyTorch sets it
    from copter.live.training import TrainingError
    from copter.live.training.torch import TorchTraining

    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before, x = model.weight.detach().clone(), torch.ones(8, 3)
    training = TorchTraining(model, optimizer, examples=8, initial_batch=4, work=2)
    for step in training.steps():
        with pytest.raises(TrainingError, match="0 losses: must be 1, one a pass"):
            step.update()
        for indices in step.passes():
            step.backward(model(x[indices]).mean())
        step.update()
    assert training.progress == 2
    assert model.weight.detach() == pytest.approx(before - 0.2)
    with pytest.raises(ValueError, match="must have parameters"):
        TorchTraining(torch.nn.ReLU(), optimizer, examples=8, initial_batch=4, work=2)
