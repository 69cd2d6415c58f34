"""Main program of :mod:`copter.solvers.baselines.other_python` in the other interpreter.

    python other_python_worker.py FOLDER SCRIPT [ARGUMENT ...]

The file does not import copter, which is not installed in that environment.  It makes a ``Worker`` of the
script and writes a line of JSON.  Then it reads a line of JSON for each request from standard input, and
answers each with a line.  Arrays of answers are written to FOLDER.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sys
import threading
import time
from typing import Any, TextIO

import numpy as np


def _end_with(parent: int) -> None:
    """End this process after the parent process has ended."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGTERM)


def _worker(script: str, arguments: list[str]) -> Any:
    """Return the script's ``Worker``."""
    spec = importlib.util.spec_from_file_location("worker", script)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["worker"] = module
    spec.loader.exec_module(module)
    return module.Worker(*arguments)


def _call(worker: Any, message: dict[str, Any], path: str) -> dict[str, Any]:
    """Call a method of the worker; arrays of its answer go to the file `path`."""
    values = message["values"]
    if message["arrays"] is not None:
        with np.load(message["arrays"]) as stored:
            values |= {name: stored[name] for name in stored.files}
    found: dict[str, Any] = getattr(worker, message["request"])(**values) or {}
    arrays: dict[str, Any] = {name: value for name, value in found.items() if isinstance(value, np.ndarray)}
    rest = {name: value for name, value in found.items() if name not in arrays}
    if arrays:
        np.savez(path, **arrays)
    return {"values": rest, "arrays": path if arrays else None}


def _say(answers: TextIO, answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def main() -> None:
    """Answer the requests on standard input until it ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the solver prints goes to stderr, away from the answers
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    folder, script, *arguments = sys.argv[1:]
    del sys.path[0]  # the folder of this file, whose modules are not for the worker
    path = os.path.join(folder, "answer.npz")
    try:
        worker = _worker(script, arguments)
    except Exception as error:  # the caller gets the message
        _say(answers, {"error": f"{type(error).__name__}: {error}"})
        return
    _say(answers, {"values": {}, "arrays": None})
    for line in sys.stdin:
        try:
            answer = _call(worker, json.loads(line), path)
        except Exception as error:  # the caller gets the message
            answer = {"error": f"{type(error).__name__}: {error}"}
        _say(answers, answer)


if __name__ == "__main__":
    main()
