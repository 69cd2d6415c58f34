"""A process that plays rounds may be killed at any time: it goes on with the round that was not accepted."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


@pytest.mark.long
def test_200_kills(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "support.round_kills", str(tmp_path), "200", "0"],
        cwd=TESTS,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = re.fullmatch(r"200 kills, (\d+) rounds, (\d+) events\n", done.stdout)
    assert found is not None and int(found[1]) > 200 and int(found[2]) > int(found[1])
