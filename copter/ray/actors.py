"""One actor of a program: its process, what it would be made again from, and what it is asked.

An actor that dies is made again: a new process takes the last snapshot of the old one's parts and makes the
edits since, and what was asked of the old one is asked of it.  A snapshot is taken when the edits since the
last have grown to a quarter of it.  They are dropped only when a snapshot that has them is in the object
store of the driver's own node, so that other nodes may die.  Where edits come faster than snapshots are
taken they wait, so the driver never holds most of a program.  An actor that keeps the others waiting, or that
has no place yet, is reported; one that could not make an edit answers nothing any more.
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
"""Share of a snapshot that the edits since it must reach for the next one; at twice that it is awaited."""
_SNAPSHOT_WAIT = 60.0
"""Seconds that an edit waits for a snapshot at most."""
_MOST_DEATHS = 5
"""So often an actor is made again for one answer before it is given up."""
_SLOW_FROM, _SLOW_TIMES = 1.0, 5.0
"""Seconds, and times what half of the actors took, after which one that has not answered is slow."""
_PLACE_WARN, _PLACE_GIVE_UP = 10.0, 120.0
"""Seconds after which an actor that has not started yet is reported, and after which it is given up."""


class NoPlaceError(CopterError, RuntimeError):
    """Ray started no process for an actor."""


class LostActorError(CopterError, RuntimeError):
    """An actor died again and again before it answered."""

    def __init__(self, number: int, why: str) -> None:
        self.number = number
        self.why = why
        super().__init__(number, why)

    def __str__(self) -> str:
        return (
            f"actor {self.number} died {_MOST_DEATHS + 1} times before it answered: {self.why}: look whether "
            "its node has memory for its parts, or take more actors"
        )


@dataclass
class _Snapshot:
    """Stores of an actor's parts in the object store, with so many edits; `size` in bytes, once known."""

    ref: Any
    edits: int
    size: int = 0


class Actor:
    """A holder of parts in a process of its own.

    `parts`: first part and one behind the last, and how many exist. `options`: of Ray's actor. `deaths`:
    since its last answer. `revived`, `waited`: how often it was made again, and the most seconds that others
    waited for it, both since the last report.
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
        self.offloaded: dict[int, Any] = {}
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
        """How many edits it was sent before those that are here."""
        return self._made - len(self._since)

    def _start(self) -> None:
        self.handle: Any = self._make(*self._arguments)
        self._begin, self._warned = perf_counter(), False
        self._here: Any = self.call("here")

    def look_for_place(self) -> None:
        """Report it if its process has not started for long; raise NoPlaceError if it is too long."""
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
                f"actor {self.number} has not started for {seconds:.0f} s; it needs {asked}: if others use "
                "them, end those; else take fewer actors, a smaller num_cpus, or a Ray with larger nodes"
            )
            if self._warned:
                raise NoPlaceError(why)
            _LOG.warning(why)
            self._warned = True

    def ask(self, method: str, *arguments: Any) -> Any:
        """Call a method of the holder that needs the edits until now; return Ray's reference."""
        return self.call("ask", self._made, method, *arguments)

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of the holder, whatever edits were made; return Ray's reference."""
        return getattr(self.handle, method).remote(*arguments)

    def send(self, edits: list[Edit]) -> None:
        """Send edits of all parts, cut to those of this actor."""
        own = [cut for edit in edits if (cut := edit.of(self.first, self.last)) is not None]
        if not own:
            return
        self.call("send", own, self._made)
        self._since += own
        self._made += len(own)
        self._bytes += sum(edit.nbytes for edit in own)
        self._look_after_snapshots()

    def _look_after_snapshots(self) -> None:
        """Drop edits that are in a snapshot by now, and take the next if it pays."""
        wait = _SNAPSHOT_WAIT if self._bytes > 2 * self._worth else 0.0
        if self._next is not None and ray.wait([self._next.ref], timeout=wait, fetch_local=False)[0]:
            taken, self._next = self._next, None
            try:
                # what an actor returns lies on its node and dies with it; what is put here does not
                stores = ray.get(taken.ref)
                size = sum(array.nbytes for store in stores for array in store.arrays().values())
                kept = _Snapshot(ray.put(stores), taken.edits, size)
            except RayActorError:
                return  # it died before; the edits are still here
            except RayError as error:
                _LOG.warning("no snapshot of actor %d (%s)", self.number, _first_line(error))
                self._worth = 2 * self._bytes  # the next try when there are more
                return
            del self._since[: kept.edits - self._before]
            self._last, self._worth = kept, max(_SNAPSHOT_FROM, int(_SNAPSHOT_SHARE * kept.size))
            self._bytes = sum(edit.nbytes for edit in self._since)
        if self._next is None and self._bytes > self._worth:
            self._next = _Snapshot(self.ask("snapshot"), self._made)

    def restore(self, stores: Sequence[LocalStore]) -> None:
        """Put stores in place of those of its parts: what it is made again from."""
        self._made += 1  # counts as an edit: without it nothing is answered
        self._last, self._next = _Snapshot(ray.put(stores), self._made), None
        self._since, self._bytes = [], 0
        self.call("restore", self._last.ref, self._made)

    def offload(self, key: int, pieces: Sequence[Any]) -> None:
        """Give it pieces of work; they are given again to the next process if this one dies."""
        self.offloaded[key] = ray.put(list(pieces))
        self.call("offload", key, self.offloaded[key])

    def forget(self, key: int) -> None:
        """Take pieces of work back."""
        if self.offloaded.pop(key, None) is not None and ray.is_initialized():
            self.call("forget", key)

    def revive(self, why: Exception) -> None:
        """Make it again from the last snapshot, the edits since, and its pieces, after the error `why`."""
        self.deaths += 1
        self.revived += 1
        _LOG.warning("actor %d died (%s): it is made again", self.number, _first_line(why))
        self.kill()
        self._next = None
        self._start()
        if self._last is not None:
            self.call("restore", self._last.ref, self._last.edits)
        self.call("send", self._since, self._before)
        for key, pieces in self.offloaded.items():
            self.call("offload", key, pieces)

    def kill(self) -> None:
        """End its process."""
        ray.kill(self.handle)


def answers(actors: Sequence[Actor], method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Call a method of :class:`copter.ray.holder.Holder` on each actor with its arguments, and wait for the
    answers.

    Actors that die are made again and asked again, so that a repeated call must not matter. Raise Interrupted
    if the present solve is late or was cancelled, UnusableError if an actor could not make an edit,
    LostActorError or NoPlaceError if an actor dies again and again or does not start.
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
            except (RayActorError, ObjectLostError) as died:  # the latter: its node died after it answered
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
    """Looks, during one call, for actors that keep the others waiting; it compares at least two.

    `revived`: positions of those that were made again, which are expected to be late.
    """

    def __init__(self, actors: Sequence[Actor]) -> None:
        self.revived: set[int] = set()
        self._actors, self._begin = actors, perf_counter()
        self._limit = math.inf
        self._said: set[int] = set()

    def look(self, waiting: set[int]) -> None:
        """Note the positions of actors that have not answered yet."""
        seconds = perf_counter() - self._begin
        if self._limit == math.inf and 2 * len(waiting) <= len(self._actors):
            self._limit = _SLOW_FROM + _SLOW_TIMES * seconds
        if seconds > self._limit:
            for k in waiting - self.revived:
                actor = self._actors[k]
                actor.waited = max(actor.waited, seconds)
                if k not in self._said:
                    _LOG.warning("actor %d is slow: no answer for %.1f s", actor.number, seconds)
                    self._said.add(k)


def _missed(number: int, error: Exception) -> str:
    why = _first_line(getattr(error, "cause", error))  # of Ray's error, which has a traceback as its text
    return (
        f"actor {number} does not have all edits ({why}): close the program and make it again, or open its "
        "journal, once what went wrong there is mended"
    )


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
