"""Which of pytest's processes runs what."""

from __future__ import annotations

import pytest
from xdist.scheduler import LoadScopeScheduling

#: Files whose tests need a Ray of this machine: one process starts it and runs them all, from the beginning.
RAY = (
    "tests/live/test_ray_backend.py",
    "tests/ray/test_ray_program.py",
    "tests/ray/test_ray_kills.py",
    "tests/rounds/test_other_ways.py",
    "tests/tasks/test_evaluations.py",
    "tests/tasks/test_tasks.py",
    "tests/test_readme.py",
)


class ByFile(LoadScopeScheduling):
    """A file is a unit of work, and all files with Ray are one; begun in the order of collection."""

    def __init__(self, config: pytest.Config, log: object) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "ray" if file in RAY else file
