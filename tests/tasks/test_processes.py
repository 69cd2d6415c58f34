"""Processes of tasks end with who started them."""

import os
import select
import subprocess
import sys

import pytest

pytestmark = pytest.mark.cluster

PARENT = """
import sys
from copter.tasks.processes import Processes
from copter.tasks.tasks import Task
if __name__ == "__main__":
    list(Processes(1).each([Task("one", exec, (sys.argv[1],))]))
"""
CHILD = """
import os, time
words = open({fifo!r}, "w")
words.write(str(os.getpid()) + "\\n")
words.flush()
{busy}
"""
HOLDS_THE_INTERPRETER = "sum(range(10**13))"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("busy", ["time.sleep(600)", HOLDS_THE_INTERPRETER])
def test_a_process_ends_with_a_parent_that_is_killed(tmp_path, busy):
    if busy == HOLDS_THE_INTERPRETER and sys.platform != "linux":
        pytest.skip("only Linux ends a process that holds the interpreter")
    fifo, script = tmp_path / "words", tmp_path / "parent.py"
    os.mkfifo(fifo)
    script.write_text(PARENT)
    code = CHILD.format(fifo=str(fifo), busy=busy)
    parent = subprocess.Popen([sys.executable, str(script), code])
    with fifo.open() as words:
        child = int(words.readline())
        parent.kill()
        parent.wait()
        ended, _, _ = select.select([words], [], [], 120.0)  # its end is the end of the pipe
        if not ended:
            os.kill(child, 9)
        assert ended and words.read() == ""
