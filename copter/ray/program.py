"""RayProgram: a program whose requests are distributed over the actors of a Ray cluster."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from copter.errors import SettingError
from copter.program.sense import Sense
from copter.ray.distributed import DistributedProgram
from copter.ray.on_actors import OnActors
from copter.ray.session import Session, check_room


class RayProgram(DistributedProgram):
    """Program on Ray actors, with the methods, solvers and solutions of :class:`copter.ContinualProgram`.

    The requests are divided into parts, and each actor has one or more parts. Sums over requests keep their
    rounding errors, so that solutions are equal in all bits for any number of actors. They equal the
    solutions of a ContinualProgram until the first solve that reads only active requests of it, because a
    RayProgram always reads all requests.

    Parameters
    ----------
    actors : int
        Number of processes that hold the columns.
    address : str, optional
        Address of a Ray cluster: "auto" for the cluster of this machine, or ``ray://host:port``. The default
        is the cluster that this process is connected to, or else a new local one. If copter started or joined
        the cluster, the connection ends when the last program is closed.
    parts : int, optional
        Number of parts, at least one for each actor; the default is one for each actor. Shared columns are
        priced once in each part.
    num_cpus : float
        Processors that Ray reserves for each actor. An actor also has as many threads, but at least one.
    resources : mapping of str to float, optional
        Other Ray resources that each actor needs.
    sense : "min" or "max"
        Sense of the program.

    Raises
    ------
    MissingExtraError
        If Ray is not installed.
    SettingError
        If `actors` is less than 1, `parts` is less than `actors`, or Ray has no resources for the actors.
    NoClusterError
        If there is no Ray cluster at the address.

    Examples
    --------
    >>> from copter import make_solver
    >>> from copter.ray import RayProgram
    >>> with RayProgram(actors=2) as program:  # doctest: +SKIP
    ...     program.add_resource("gpu", upper=8)
    ...     program.add_request("job", costs=[-1.0, -1.8], usage={"gpu": [1, 2]}, total=1)
    ...     solution = make_solver("copter").solve(program)
    """

    def __init__(
        self,
        actors: int = 2,
        address: str | None = None,
        *,
        parts: int | None = None,
        num_cpus: float = 1.0,
        resources: Mapping[str, float] | None = None,
        sense: Sense = "min",
    ) -> None:
        if actors < 1:
            raise SettingError("RayProgram", "actors", actors, "must be at least 1")
        parts = actors if parts is None else parts
        if parts < actors:
            why = f"must be at least the number of actors, {actors}"
            raise SettingError("RayProgram", "parts", parts, why)
        needs = dict(resources or {})
        options = {"num_cpus": num_cpus, "resources": needs, "scheduling_strategy": "SPREAD"}
        threads = max(1, int(num_cpus))
        self._session: Session | None = Session.join(address, math.ceil(actors * num_cpus))
        try:
            check_room(actors, {"CPU": num_cpus, **needs})
            self._workers = OnActors(actors, parts, options, threads)
            super().__init__(self._workers, sense=sense)
        except BaseException:
            self._leave()  # the caller gets no program that could be closed
            raise

    def memory(self) -> list[dict[str, int]]:
        """Return for each actor the ``bytes`` of its columns, and the ``pid`` of its process."""
        self.store.executor.flush()
        return self._workers.memory()

    def close(self) -> None:
        """End the actors; the last program also ends the connection to Ray that copter started or joined."""
        super().close()
        self._leave()

    def _leave(self) -> None:
        if self._session is not None:
            self._session.leave()
        self._session = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
