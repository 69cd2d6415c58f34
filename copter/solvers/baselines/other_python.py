"""A worker script in another Python interpreter, and the exchange of arrays with it.

Some solvers need packages that cannot be installed next to copter's.  Such a solver has a worker script, a
file without imports of copter that defines a class ``Worker``.  :class:`OtherPython` starts the interpreter,
which makes a ``Worker`` and calls one of its methods for each request:

    worker = OtherPython(python, script, "Mine", arguments=("2",))      # Worker("2") in the other process
    answer = worker.ask("load", {"costs": costs, "limit": 3}, 20.0)     # .load(costs=..., limit=3)

Arguments and answers are dictionaries.  Arrays are passed in npz files, everything else as JSON.  The worker
measures its own seconds, because a call includes the transfer.
"""

from __future__ import annotations

import json
import select
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from copter.clock import Interrupted
from copter.errors import SolverError

_START_SECONDS = 120.0
"""Seconds in which a worker must start; the start is not timed."""
_STOP_SECONDS = 5.0
"""Seconds in which a worker that was asked to end must have ended; it is killed then."""
_TAIL = 500
"""Characters of the end of standard error that an error message contains."""


class OtherPython:
    """A process of another interpreter with a ``Worker`` that answers requests.

    Parameters
    ----------
    python : Path
        The interpreter; it needs numpy.
    script : Path
        File with the class ``Worker``.
    title : str
        Name of the solver, for error messages.
    arguments : sequence of str
        Arguments of ``Worker``.
    start_seconds : float
        Seconds in which the process must start.

    Raises
    ------
    SolverError
        If the process cannot be started, or `script` raises an error.
    """

    def __init__(
        self,
        python: Path,
        script: Path,
        title: str,
        *,
        arguments: Sequence[str] = (),
        start_seconds: float = _START_SECONDS,
    ) -> None:
        self._title = title
        self._folder = TemporaryDirectory(prefix="copter-worker-")
        self._log = Path(self._folder.name) / "stderr"
        main = Path(__file__).with_name("other_python_worker.py")
        with self._log.open("wb") as log:
            try:
                self._process = subprocess.Popen(
                    [str(python), str(main), self._folder.name, str(script), *arguments],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                )
            except OSError as error:
                raise SolverError(
                    f"{title}: python = {python}: cannot be started: {error.strerror}"
                ) from None
        try:
            self._answer(start_seconds)
        except Interrupted:
            raise SolverError(f"{title}: did not start within {start_seconds:g} s{self._tail()}") from None

    @property
    def ended(self) -> bool:
        """True if the process has ended."""
        return self._process.poll() is not None

    def ask(
        self, request: str, values: Mapping[str, Any] | None = None, seconds: float | None = None
    ) -> dict[str, Any]:
        """Call a method of the worker and return its answer.

        Parameters
        ----------
        request : str
            Name of the method.
        values : mapping of str to ndarray or JSON value
            Arguments of the method.
        seconds : float, optional
            Time limit; the process is ended when it is over. Default: no limit.

        Raises
        ------
        Interrupted
            If there is no answer within the time limit.
        SolverError
            If the method raises an error, or the process ends.
        """
        plain, arrays = _parted(values or {})
        path = Path(self._folder.name) / "request.npz"
        if arrays:
            np.savez(path, **arrays)
        message = {"request": request, "values": plain, "arrays": str(path) if arrays else None}
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:  # the process has ended
            raise self._lost() from None
        return self._answer(seconds)

    def close(self) -> None:
        """End the process."""
        self._process.terminate()  # a worker with Ray ends Ray too
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _answer(self, seconds: float | None) -> dict[str, Any]:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], seconds)
        if not ready:
            self.close()
            raise Interrupted("the deadline is over")
        line = self._process.stdout.readline()
        if not line:
            raise self._lost()
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise SolverError(f"{self._title}: {answer['error']}")
        found: dict[str, Any] = answer["values"]
        if answer["arrays"] is not None:
            with np.load(answer["arrays"]) as stored:
                found |= {name: stored[name] for name in stored.files}
        return found

    def _lost(self) -> SolverError:
        self.close()
        status = self._process.returncode
        return SolverError(f"{self._title}: the worker process ended with status {status}{self._tail()}")

    def _tail(self) -> str:
        """Return the end of standard error, to be appended to a message."""
        text = " ".join(self._log.read_text(errors="replace")[-_TAIL:].split())
        return f"; the end of its standard error: {text}" if text else ""


def _parted(values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the values that are not arrays, and those that are."""
    arrays = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
    rest = {name: value for name, value in values.items() if name not in arrays}
    return {
        name: value.item() if isinstance(value, np.generic) else value for name, value in rest.items()
    }, arrays
