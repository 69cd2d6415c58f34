"""The service: a policy in charge of a live cluster, put together of its parts.

    submit -> journal -> round -> Decided -> tick: Told, wait, Launched -> backend -> reports, Ended -> ...

- :mod:`.admission`: what users and runs ask for is checked, and written or refused;
- :mod:`.rounds`: the policy is asked, and its answer is written;
- :mod:`.launcher`: the tick launches, ends and kills runs until they are where the policy put them;
- :mod:`.record`: the journal, and the state that follows from it, which the three share.

Rounds and ticks go on next to each other in one event loop.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from copter.durable.files import lock_file
from copter.errors import CopterError
from copter.live.admission import Admission
from copter.live.backends.base import Backend, Scalable
from copter.live.files import ClusterFile
from copter.live.folder import TOKEN, first_content, make_folder, open_private
from copter.live.journal import JOURNAL, LiveJournal
from copter.live.launcher import Launcher
from copter.live.record import ServiceRecord
from copter.live.rounds import LiveRounds
from copter.problems.cluster.profiles.builtin import builtin_goodput_profiles
from copter.problems.cluster.profiles.goodput import GoodputProfile

_TICK_SECONDS = 0.5


class Service:
    """A policy in charge of a live cluster.

    Parameters
    ----------
    folder : Path
        For the journal, the token and a folder of each job; made if it is not there (:mod:`.folder`).
    policy, settings : str, mapping
        Name of a policy, and its settings.
    url : str
        Where jobs report to.
    round_seconds : float, optional
        Length of rounds, instead of the policy's own.
    soon_seconds : float, optional
        A round also begins when something happened and this time has passed since the last one.
    clock : callable, optional
        Seconds since the epoch; by default the system's at the start, and steady from then on.

    Attributes
    ----------
    token : str
        Token of the users.
    record : ServiceRecord
    admission : Admission
    rounds : LiveRounds
    launcher : Launcher

    Raises
    ------
    CopterError
        Another service has the folder, or a type of GPU cannot be paced.
    """

    def __init__(
        self,
        folder: Path,
        cluster: ClusterFile,
        backend: Backend,
        policy: str = "sia",
        *,
        settings: Mapping[str, Any] | None = None,
        url: str = "",
        round_seconds: float | None = None,
        soon_seconds: float | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        profiles = _pace_profiles(cluster)
        make_folder(folder)
        self.folder, self.backend = folder.resolve(), backend
        os.close(open_private(folder / "lock"))
        self._lock = lock_file(folder / "lock", f"{folder}: another service has this folder")
        self.token = first_content(folder / TOKEN, lambda: secrets.token_urlsafe(24))
        journal, clock = LiveJournal(folder / JOURNAL), clock or steady_clock()
        began = float(first_content(folder / "began", lambda: repr(clock())))
        self.record = ServiceRecord(journal, cluster, clock, began)
        self.launcher = Launcher(
            self.record, self.folder, cluster, backend, url=url, token=self.token, profiles=profiles
        )
        self.rounds = LiveRounds(
            self.record,
            cluster,
            scales=isinstance(backend, Scalable),
            policy=policy,
            settings=settings or {},
            round_seconds=round_seconds,
            soon_seconds=soon_seconds,
        )
        self.admission = Admission(self.record, self.rounds, cluster, backend, profiles)

    async def run(self) -> None:
        """Serve until cancelled."""
        record = self.record
        rounds = asyncio.create_task(self.rounds.run(self.launcher.whole_tick))
        try:
            while True:
                if rounds.done():
                    rounds.result()
                began = time.monotonic()
                await self.launcher.tick()
                if not record.deciding:
                    record.past.sample(record.now(), record.state)
                await asyncio.sleep(max(_TICK_SECONDS - (time.monotonic() - began), 0.02))
        finally:
            rounds.cancel()

    @property
    def trouble(self) -> str:
        """Why the service cannot schedule; empty if it can."""
        if self.launcher.trouble or not self.rounds.trouble:
            return self.launcher.trouble
        return f"the policy has no answer: {self.rounds.trouble}"

    def figures(self) -> str:
        """Return what monitoring reads, in Prometheus' text format."""
        record, silent = self.record, bool(self.launcher.silent)
        return record.metrics.text(
            record.state, record.over, silent=silent, journal_bytes=record.journal.bytes
        )

    def close(self) -> None:
        """Release everything; jobs go on.

        What was acknowledged is on disk before a policy or a backend that is still busy is waited for.
        """
        self.record.journal.close()
        self.rounds.close()
        self.launcher.close()
        os.close(self._lock)


def _pace_profiles(cluster: ClusterFile) -> dict[str, GoodputProfile]:
    """Return the measured profiles by which jobs are paced: none if they are not paced."""
    profiles = builtin_goodput_profiles() if cluster.pace is not None else {}
    for one in cluster.gpus:
        for application, profile in profiles.items():
            if one.type not in profile.models:
                there = ", ".join(profile.models)
                raise CopterError(f"pace: {application} was not measured on {one.type!r}; only on: {there}")
    return profiles


def steady_clock() -> Callable[[], float]:
    """Return a clock that is right now, and is not changed with the system's."""
    offset = time.time() - time.monotonic()
    return lambda: time.monotonic() + offset
