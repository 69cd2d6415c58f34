"""Actor of a program: its process, the data to start it again, and its calls.

If an actor dies, it is started again. The new process loads the last snapshot of the parts, applies the edits
since then, and gets the pending call again. A snapshot is taken when the edits since the last one have a
quarter of its size. Edits are dropped only after a snapshot that includes them is in the object store of the
driver's node, so that other nodes may die. If edits come faster than snapshots, edits wait, so that the
driver never holds most of a program.

An actor that is slow, or that has not been started by Ray, is reported. An actor that could not apply an edit
rejects all later calls.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from copter.clock import current
from copter.errors import CopterError, UnusableError
from copter.extras import extra
from copter.ray.holder import Holder, MissedEditsError, writable
from copter.store.edit import Edit
from copter.store.local import LocalStore

with extra("ray"):
    import ray
    from ray.exceptions import ObjectLostError, RayActorError, RayError

_LOG = logging.getLogger("copter")
_LOOK = 0.05
"""Seconds between checks of the solve's clock while actors work."""
_SNAPSHOT_FROM = 1 << 24
"""Bytes of edits up to which no snapshot is taken."""
_SNAPSHOT_SHARE = 0.25
"""Size of the edits, relative to the last snapshot, at which the next is taken; at twice it, edits wait."""
_SNAPSHOT_WAIT = 60.0
"""Largest time that an edit waits for a snapshot, in seconds."""
_MOST_DEATHS = 5
"""Number of times that an actor is started again for one call."""
_SLOW_FROM, _SLOW_TIMES = 1.0, 5.0
"""An actor is slow after these seconds plus this multiple of the time in which half of the actors
answered."""
_PLACE_WARN, _PLACE_GIVE_UP = 10.0, 120.0
"""Seconds after which an actor that has not started is reported, and after which an error is raised."""


class NoPlaceError(CopterError, RuntimeError):
    """Ray did not start the process of an actor in time; free resources or use fewer actors."""


class LostActorError(CopterError, RuntimeError):
    """An actor died repeatedly during one call; check the memory of its node or use more actors."""

    def __init__(self, number: int, why: str) -> None:
        self.number = number
        self.why = why
        super().__init__(number, why)

    def __str__(self) -> str:
        return (
            f"actor {self.number} died {_MOST_DEATHS + 1} times during one call: {self.why}; check whether "
            "its node has memory for its parts, or use more actors"
        )


@dataclass
class _Snapshot:
    """Stores of an actor's parts in the object store; `edits` is the number of edits that they include.

    `size` is in bytes, 0 if it is unknown.
    """

    ref: Any
    edits: int
    size: int = 0


class Actor:
    """Ray actor with a :class:`copter.ray.holder.Holder` of consecutive parts.

    Parameters
    ----------
    number : int
        Number of the actor.
    parts : (int, int, int)
        First part, last part + 1, and number of all parts.
    options : mapping
        Options of the Ray actor.
    threads : int
        Number of threads of the actor.

    Attributes
    ----------
    deaths : int
        Number of deaths since the last result.
    revived : int
        Number of restarts since the last report.
    waited : float
        Largest time that other actors waited for this one since the last report, in seconds.
    """

    def __init__(
        self,
        number: int,
        parts: tuple[int, int, int],
        options: Mapping[str, Any],
        threads: int,
    ) -> None:
        self.number = number
        self.first, self.last, _ = parts
        self.deaths = self.revived = 0
        self.waited = 0.0
        self._make: Any = ray.remote(Holder).options(**options).remote
        self._arguments = *parts, threads
        self._needs = {"CPU": options.get("num_cpus", 0), **options.get("resources", {})}
        self._made = 0
        self._since: list[Edit] = []
        self._bytes, self._worth = 0, _SNAPSHOT_FROM
        self._last: _Snapshot | None = None
        self._next: _Snapshot | None = None
        self._start()

    @property
    def _before(self) -> int:
        """Number of edits that were sent before the edits in `_since`."""
        return self._made - len(self._since)

    def _start(self) -> None:
        self.handle: Any = self._make(*self._arguments)
        self._begin, self._warned = perf_counter(), False
        self._here: Any = self.call("here")

    def look_for_place(self) -> None:
        """Log a warning if the process has not started for long; raise NoPlaceError after a limit."""
        if self._here is None:
            return
        if ray.wait([self._here], timeout=0, fetch_local=False)[0]:
            self._here = None
            return
        seconds = perf_counter() - self._begin
        if seconds > (_PLACE_GIVE_UP if self._warned else _PLACE_WARN):
            total, free = ray.cluster_resources(), ray.available_resources()
            asked = ", ".join(
                f"{each:g} {name} (Ray has {total.get(name, 0.0):g}, free {free.get(name, 0.0):g})"
                for name, each in self._needs.items()
            )
            why = (
                f"actor {self.number} has not started for {seconds:.0f} s; it needs {asked}; end other users "
                "of these resources, or use fewer actors, a smaller num_cpus, or a Ray with larger nodes"
            )
            if self._warned:
                raise NoPlaceError(why)
            _LOG.warning(why)
            self._warned = True

    def ask(self, method: str, *arguments: Any) -> Any:
        """Call a method of the holder that needs all edits so far; return Ray's reference."""
        return self.call("ask", self._made, method, *arguments)

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of the holder that does not depend on edits; return Ray's reference."""
        return getattr(self.handle, method).remote(*arguments)

    def send(self, edits: list[Edit]) -> None:
        """Send the shares of this actor's parts in edits."""
        own = [cut for edit in edits if (cut := edit.of(self.first, self.last)) is not None]
        if not own:
            return
        self.call("send", own, self._made)
        self._since += own
        self._made += len(own)
        self._bytes += sum(edit.nbytes for edit in own)
        self._look_after_snapshots()

    def _look_after_snapshots(self) -> None:
        """Drop edits that a finished snapshot includes, and take the next snapshot if it pays off."""
        wait = _SNAPSHOT_WAIT if self._bytes > 2 * self._worth else 0.0
        if self._next is not None and ray.wait([self._next.ref], timeout=wait, fetch_local=False)[0]:
            taken, self._next = self._next, None
            try:
                # a result of an actor is on the actor's node and is lost with it, so it is stored here, too
                stores = ray.get(taken.ref)
                size = sum(array.nbytes for store in stores for array in store.arrays().values())
                kept = _Snapshot(ray.put(stores), taken.edits, size)
            except RayActorError:
                return  # the actor died before; the edits are kept
            except RayError as error:
                _LOG.warning("no snapshot of actor %d was taken (%s)", self.number, _first_line(error))
                self._worth = 2 * self._bytes  # try again after as many more bytes of edits
                return
            del self._since[: kept.edits - self._before]
            self._last, self._worth = kept, max(_SNAPSHOT_FROM, int(_SNAPSHOT_SHARE * kept.size))
            self._bytes = sum(edit.nbytes for edit in self._since)
        if self._next is None and self._bytes > self._worth:
            self._next = _Snapshot(self.ask("snapshot"), self._made)

    def restore(self, stores: Sequence[LocalStore]) -> None:
        """Replace the stores of its parts; they also become its last snapshot."""
        self._made += 1  # counts as an edit, so that later calls wait for it
        self._last, self._next = _Snapshot(ray.put(stores), self._made), None
        self._since, self._bytes = [], 0
        self.call("restore", self._last.ref, self._made)

    def revive(self, why: Exception) -> None:
        """Restart the actor after the error `why`, from its last snapshot and the later edits."""
        self.deaths += 1
        self.revived += 1
        _LOG.warning("actor %d died (%s) and is started again", self.number, _first_line(why))
        self.kill()
        self._next = None
        self._start()
        if self._last is not None:
            self.call("restore", self._last.ref, self._last.edits)
        self.call("send", self._since, self._before)

    def kill(self) -> None:
        """End its process."""
        ray.kill(self.handle)


def answers(actors: Sequence[Actor], method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Call a method of :class:`copter.ray.holder.Holder` on each actor, and return the results.

    Actors that die are started and called again, so a call must be repeatable. Raise Interrupted if the
    present solve is late or was cancelled, UnusableError if an actor could not apply an edit, and
    LostActorError or NoPlaceError if an actor dies repeatedly or does not start.
    """
    pending = {
        actor.ask(method, *own): k for k, (actor, own) in enumerate(zip(actors, arguments, strict=True))
    }
    found: list[Any] = [None] * len(actors)
    clock, watch = current(), _Watch(actors)
    while pending:
        done, _ = ray.wait(list(pending), num_returns=len(pending), timeout=_LOOK)
        for ref in done:
            k = pending.pop(ref)
            try:
                found[k] = writable(ray.get(ref))
                actors[k].deaths = 0
            except MissedEditsError as missed:
                raise UnusableError(_missed(actors[k].number, missed)) from missed
            except (RayActorError, ObjectLostError) as died:  # ObjectLostError: its node died afterwards
                if actors[k].deaths >= _MOST_DEATHS:
                    raise LostActorError(actors[k].number, _first_line(died)) from died
                watch.revived.add(k)
                actors[k].revive(died)
                pending[actors[k].ask(method, *arguments[k])] = k
        for k in pending.values():
            actors[k].look_for_place()
        watch.look(set(pending.values()))
        if clock is not None:
            clock.check()
    return found


class _Watch:
    """Detector of slow actors during one call of at least two actors.

    `revived` has the positions of actors that were started again, which are expected to be late.
    """

    def __init__(self, actors: Sequence[Actor]) -> None:
        self.revived: set[int] = set()
        self._actors, self._begin = actors, perf_counter()
        self._limit = math.inf
        self._said: set[int] = set()

    def look(self, waiting: set[int]) -> None:
        """Record and log slow actors; `waiting` has the positions of actors without a result."""
        seconds = perf_counter() - self._begin
        if self._limit == math.inf and 2 * len(waiting) <= len(self._actors):
            self._limit = _SLOW_FROM + _SLOW_TIMES * seconds
        if seconds > self._limit:
            for k in waiting - self.revived:
                actor = self._actors[k]
                actor.waited = max(actor.waited, seconds)
                if k not in self._said:
                    _LOG.warning("actor %d is slow: no result after %.1f s", actor.number, seconds)
                    self._said.add(k)


def _missed(number: int, error: Exception) -> str:
    why = _first_line(getattr(error, "cause", error))  # the text of Ray's error itself is a traceback
    return (
        f"actor {number} does not have all edits ({why}); correct the cause, then close the program and make "
        "a new one, or open its journal"
    )


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
