"""A cgroup of version 2 for tests, on a machine on which they may make one."""

import os
from contextlib import contextmanager
from pathlib import Path

from copter.live.backends import cgroups


def _mount():
    """The root of the cgroup filesystem; None if there is none of version 2."""
    lines = (line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines())
    return next((Path(line[4]) for line in lines if line[line.index("-") + 1] == "cgroup2"), None)


@contextmanager
def new_cgroup():
    """Give the folder of a new cgroup, or a text with the reason why there is none; remove it at the end."""
    mount = _mount()
    if mount is None:
        yield "no cgroup filesystem of version 2 is mounted"
        return
    path = mount / f"copter-tests-{os.getpid()}"
    try:
        path.mkdir()
    except OSError as error:
        yield f"no cgroup can be made: {error}"
        return
    try:
        yield path
    finally:
        assert cgroups.kill_all(path)
        for folder, _, _ in os.walk(path, topdown=False):
            os.rmdir(folder)
