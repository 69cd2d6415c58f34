"""The service: a policy that schedules a live cluster, composed of five parts.

    submit -> journal -> round -> Decided -> tick: Told, wait, Launched -> backend -> reports, Ended -> ...

- :mod:`.admission` checks the requests of users and runs, and writes or refuses them;
- :mod:`.rounds` asks the policy, and writes its decisions;
- :mod:`.forecast` plays the policy ahead if a user asks when a job will start;
- :mod:`.launcher` launches, stops and kills runs in each tick, until all runs are where the policy put them;
- :mod:`.record` has the journal and the state that follows from it, which the other parts share.

Rounds and ticks run concurrently in one event loop.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import shutil
import sqlite3
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from copter.durable.files import lock_file
from copter.errors import FileError
from copter.live.admission import Admission
from copter.live.backends.base import Backend
from copter.live.files import ClusterFile
from copter.live.folder import JOBS, TOKEN, first_content, make_folder, open_private
from copter.live.forecast import Forecasts
from copter.live.journal import JOURNAL, LiveJournal
from copter.live.launcher import Launcher
from copter.live.record import ServiceRecord
from copter.live.rounds import LiveRounds
from copter.live.tokens import Tokens

_log = logging.getLogger("copter.live")

_TICK_SECONDS = 0.5
_LEAST_FREE_BYTES = 65536
"""Free bytes below which an error at the start is explained by a full disk."""


class Service:
    """A policy that schedules a live cluster.

    Parameters
    ----------
    folder : Path
        Folder for the journal, the token and a folder of each job; created if needed (:mod:`.folder`).
    cluster : ClusterFile
        Description of the nodes.
    backend : Backend
        Backend that starts and stops runs.
    policy, settings : str, mapping
        Name of a policy, and its settings.
    tokens : Path, optional
        File of further tokens (:mod:`.tokens`).
    url : str
        Address to which jobs report.
    round_seconds : float, optional
        Length of a round; default: the policy's own.
    soon_seconds : float, optional
        Also start a round after an event, if this many seconds have passed since the last round.
    clock : callable, optional
        Returns seconds since the epoch; default: the system's time at the start, monotonic from then on.

    Attributes
    ----------
    token : str
        The generated token.
    tokens : Tokens
        The generated token and those of the file.
    record : ServiceRecord
        Journal and state.
    admission : Admission
    rounds : LiveRounds
    forecasts : Forecasts
    launcher : Launcher

    Raises
    ------
    CopterError
        If another service uses the folder, or the journal cannot be read or written.
    """

    def __init__(
        self,
        folder: Path,
        cluster: ClusterFile,
        backend: Backend,
        policy: str = "sia",
        *,
        settings: Mapping[str, Any] | None = None,
        tokens: Path | None = None,
        url: str = "",
        round_seconds: float | None = None,
        soon_seconds: float | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        make_folder(folder)
        self.folder, self.backend = folder.resolve(), backend
        os.close(open_private(folder / "lock"))
        self._lock = lock_file(folder / "lock", f"{folder}: another running service has this folder")
        try:
            journal = _journal(folder)
            self.token = first_content(folder / TOKEN, lambda: secrets.token_urlsafe(24))
            self.tokens = Tokens(self.token, tokens)
            self.record = ServiceRecord(journal, cluster, clock or steady_clock())
            _check_folders(self.record, folder / JOBS)
            self.launcher = Launcher(self.record, self.folder, cluster, backend, url=url, token=self.token)
            self.rounds = LiveRounds(
                self.record,
                cluster,
                policy=policy,
                settings=settings or {},
                round_seconds=round_seconds,
                soon_seconds=soon_seconds,
            )
            self.forecasts = Forecasts(self.record, self.rounds)
            self.admission = Admission(self.record, self.rounds)
        except BaseException as error:
            os.close(self._lock)
            if isinstance(error, sqlite3.Error):
                error = FileError(folder / JOURNAL, f"the service cannot begin: {error}")
            if shutil.disk_usage(folder).free < _LEAST_FREE_BYTES:
                error.add_note(f"the disk of {folder} is full")
            raise error from error.__cause__

    async def run(self) -> None:
        """Serve until cancelled."""
        record, rounds = self.record, asyncio.create_task(self.rounds.run(self.launcher.whole_tick))
        try:
            while True:
                if rounds.done():
                    rounds.result()
                began = time.monotonic()
                await self.launcher.tick()
                record.try_again()
                await asyncio.sleep(max(_TICK_SECONDS - (time.monotonic() - began), 0.02))
        finally:
            rounds.cancel()

    @property
    def trouble(self) -> str:
        """Reason why the service cannot schedule; empty if it can."""
        policy = f"the policy failed: {self.rounds.trouble}" if self.rounds.trouble else ""
        return self.record.trouble or self.launcher.trouble or policy

    def close(self) -> None:
        """Release everything; jobs continue.

        Acknowledged requests are written to disk before the method waits for a busy backend.  A policy that
        does not return is abandoned.
        """
        try:
            self.record.journal.close()
        except sqlite3.Error as error:
            _log.error("the last reports of jobs cannot be written to the journal: %s", error)
        self.rounds.close()
        self.launcher.close()
        os.close(self._lock)


def _journal(folder: Path) -> LiveJournal:
    """Open the journal of a folder, and create it in a new folder; raise FileError if it was removed."""
    path = folder / JOURNAL
    if (folder / TOKEN).exists() and not (path.exists() and path.stat().st_size):
        is_gone = "is empty" if path.exists() else "is missing"
        raise FileError(
            path,
            f"{is_gone}, but the folder has had a journal; restore it, or use a new folder if no job of this"
            " service runs any more",
        )
    return LiveJournal(path)


def _check_folders(record: ServiceRecord, jobs: Path) -> None:
    """Raise FileError if there is a folder of a job that the journal does not have.

    In this case the journal is a copy from before the start of the job, or has lost its last events.
    """
    names = sorted(os.listdir(jobs)) if jobs.exists() else []
    unknown = [name for name in names if record.state.find(name) is None]
    if unknown:
        raise FileError(
            record.journal.path,
            f"does not know job {unknown[0]!r}, which has a folder in {jobs}: its last events are lost;"
            " restore it, or end the processes of the job and remove its folder",
        )


def steady_clock() -> Callable[[], float]:
    """Return a clock that starts with the system's time and does not follow later changes of that time."""
    offset = time.time() - time.monotonic()
    return lambda: time.monotonic() + offset
