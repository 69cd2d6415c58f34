"""Run a module of this folder as a command: ``python tests/support families 1000``."""

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[1])
    del sys.argv[0]
    runpy.run_module(f"support.{sys.argv[0]}", run_name="__main__", alter_sys=True)
