"""A service in a separate process, as `copter serve` starts it: for demos, comparisons and tests."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from copter.errors import CopterError
from copter.live.client import Client, ServiceError
from copter.live.folder import LOG, TOKEN, make_folder, open_private

_START_SECONDS = 60.0
"""Seconds within which a service must answer after its start."""


class ServiceProcess:
    """A service that can be killed and started again; it continues with the same folder.

    Parameters
    ----------
    folder : Path
        Folder of journal, token and job logs.
    cluster : Path
        File of the cluster.
    arguments : sequence of str
        Further arguments of `copter serve`.
    port : int, optional
        Port to listen on; default: a free port.
    """

    def __init__(
        self, folder: Path, cluster: Path, arguments: Sequence[str] = (), *, port: int | None = None
    ) -> None:
        self.folder, self.port = folder, port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._command = [
            *(sys.executable, "-m", "copter", "serve", "--cluster", str(cluster), "--folder", str(folder)),
            *("--port", str(self.port), *arguments),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    @property
    def log(self) -> Path:
        """File with the output of the service."""
        return self.folder / LOG

    def start(self) -> None:
        """Start the service and wait until it answers.

        Raises CopterError if it ends or does not answer in time.
        """
        make_folder(self.folder)
        with os.fdopen(open_private(self.log), "ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise CopterError(f"the service ended: {self.log.read_text()[-2000:]}")
            try:
                with self.client() as client:
                    client.cluster()
                return
            except (ServiceError, OSError):
                time.sleep(0.1)
        self.kill()
        raise CopterError(f"the service did not answer within {_START_SECONDS:g} s: see {self.log}")

    def client(self, *, patience: float = 0.0) -> Client:
        """Return a client of the service."""
        return Client(self.url, self.token, patience=patience)

    @property
    def pid(self) -> int:
        """Process number of the service, which must have been started."""
        assert self._process is not None
        return self._process.pid

    @property
    def token(self) -> str:
        """Token for users."""
        return (self.folder / TOKEN).read_text().strip()

    @property
    def page(self) -> str:
        """Address of the page, with the token."""
        return f"{self.url}/#token={self.token}"

    def kill(self) -> None:
        """End the service by SIGKILL, as a crash would."""
        self._end(signal.SIGKILL)

    def end(self) -> None:
        """End the service by SIGTERM, as an operator would; jobs continue."""
        self._end(signal.SIGTERM)

    def _end(self, number: int) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)
            try:
                self._process.wait(30.0)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = None


def free_port() -> int:
    """Return a port that is not in use."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
