"""The same answers, in the same order, whether tasks run here, in processes or on Ray; failures are named."""

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from copter.errors import InputError
from copter.tasks.processes import Processes
from copter.tasks.tasks import Here, LostTaskError, Task, TaskError
from support.sample_tasks import fail, hang, roll, total

pytestmark = pytest.mark.cluster

TESTS = Path(__file__).parents[1]


@pytest.fixture(params=["here", "processes", "ray"])
def spread(request):
    if request.param == "here":
        return Here()
    return Processes(3) if request.param == "processes" else request.getfixturevalue("on_ray")


@pytest.fixture(params=["processes", "ray"])
def apart(request):
    return Processes(2) if request.param == "processes" else request.getfixturevalue("on_ray")


def results(spread, tasks, **how):
    return [ended.result() for ended in spread.each(tasks, **how)]


def test_answers_are_the_same_and_in_order_wherever_tasks_run(spread):
    tasks = [Task(f"seed {seed}", roll, (seed,)) for seed in range(4)]
    assert results(spread, tasks) == [roll(seed) for seed in range(4)]


def test_what_a_task_tells_arrives_in_order_and_before_its_answer(spread):
    tasks, heard = [Task(f"seed {seed}", roll, (seed, 3)) for seed in range(3)], []
    for ended in spread.each(tasks, lambda task, message: heard.append((task.name, message))):
        seed = tasks.index(ended.task)
        mine = [message for name, message in heard if name == ended.task.name]
        assert mine == [(seed, 0), (seed, 1), (seed, 2)]


@pytest.mark.parametrize("alone", [False, True])
def test_a_failure_names_its_task_and_leaves_the_others_their_answers(spread, alone):
    tasks = [Task(f"part {kind}", fail, (kind,)) for kind in ("fine", "error", "good")]
    first, second, third = spread.each(tasks, alone=alone)
    assert (first.result(), third.result()) == ("fine", "good")
    with pytest.raises(InputError, match="jobs.csv, line 3: no number") as caught:
        second.result()
    assert caught.value.where == "line 3"
    assert caught.value.__notes__ == ["in part error"]


def test_the_traceback_of_another_process_is_the_cause(apart):
    (ended,) = apart.each([Task("one", fail, ("error",))])
    assert "sample_tasks.py" in str(ended.error.__cause__)


def test_an_error_that_cannot_be_sent_says_what_it_was(apart):
    (ended,) = apart.each([Task("one", fail, ("strange",))])
    with pytest.raises(TaskError, match="_Strange: left"):
        ended.result()


def test_a_killed_process_is_an_error_of_its_task_only(apart):
    lost, fine = apart.each([Task("one", fail, ("killed",)), Task("two", fail, ("fine",))], alone=True)
    assert fine.result() == "fine"
    with pytest.raises(LostTaskError, match="one"):
        lost.result()


def test_shared_arguments_arrive_whole(spread):
    shared = np.arange(1000.0)
    tasks = [Task(str(k), total, (shared, k)) for k in (10, 1000)]
    assert results(spread, tasks) == [45.0, 499500.0]


def test_an_answer_that_cannot_be_sent_is_an_error(apart):
    (ended,) = apart.each([Task("one", partial(partial, print))])
    assert ended.error is None or "cannot be sent" in str(ended.error)
    (ended,) = Processes(1).each([Task("one", os.scandir, (".",))])
    with pytest.raises(TypeError, match="cannot be sent"):
        ended.result()


def test_who_stops_listening_ends_the_tasks_under_way(apart, tmp_path):
    path = tmp_path / "pid"
    ends = apart.each([Task("fine", fail, ("fine",)), Task("hangs", hang, (path,))])
    assert next(ends).result() == "fine"
    until(lambda: path.exists() and path.read_text())
    ends.close()
    until(lambda: gone(int(path.read_text())))


def test_ctrl_c_ends_the_tasks_with_the_command(tmp_path):
    """In a process of its own: the signal goes to it alone, as from a supervisor."""
    script = tmp_path / "command.py"
    script.write_text(
        "import signal, sys\n"
        "from pathlib import Path\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # one in the background ignores it
        f"sys.path.insert(0, {str(TESTS)!r})\n"
        "from support.sample_tasks import hang\n"
        "from copter.tasks import processes\n"
        "from copter.tasks.tasks import Task\n"
        "def waits(pipes, seconds=None, wait=processes.wait):\n"
        f"    Path({str(tmp_path / 'waits')!r}).touch()\n"
        "    return wait(pipes, seconds)\n"
        "processes.wait = waits\n"
        "if __name__ == '__main__':\n"
        f"    list(processes.Processes(1).each([Task('hangs', hang, (Path({str(tmp_path / 'pid')!r}),))]))\n"
    )
    command = subprocess.Popen([sys.executable, script], stderr=subprocess.PIPE, text=True)
    until((tmp_path / "pid").exists)
    until((tmp_path / "waits").exists)  # the process has been started, and noted
    command.send_signal(signal.SIGINT)
    _, said = command.communicate(timeout=120)
    assert "KeyboardInterrupt" in said
    until(lambda: gone(int((tmp_path / "pid").read_text())))


def until(condition, seconds=120.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
