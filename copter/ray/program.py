"""RayProgram: a program whose requests are spread over the actors of a Ray cluster."""

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
    """A continual program on actors: the verbs, solvers and answers of :class:`copter.ContinualProgram`.

    Its requests lie in parts, one with each actor or some.  Sums over requests carry their rounding errors.
    So answers are the same bit by bit for any number of actors.  They are those of one process until the
    first round of few changes, because such rounds exist in one process only.

    Parameters
    ----------
    actors : int
        Processes that hold the columns.
    address : str, optional
        Of a Ray cluster: "auto" for the one that this machine is part of, or ``ray://host:port``.  By default
        the one that this process is connected to, or, without any, a local one.  One that was started or
        joined for a program ends when the last program on it is closed.
    parts : int, optional
        Into how many parts requests are cut, at least one for each actor; by default just that.  Columns that
        requests share are priced once a part.
    num_cpus : float
        Processors that Ray sets aside for each actor, and threads of each, at least one.
    resources : mapping of str to float, optional
        Other resources of Ray that each actor needs.
    sense : "min" or "max"
        As of a :class:`copter.ContinualProgram`.

    Raises
    ------
    MissingExtraError
        Ray is not installed.
    SettingError
        There is no actor, there are fewer parts than actors, or Ray has no room for so many actors.
    NoClusterError
        There is no Ray at the address.

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
            why = f"must be at least the number of actors, {actors}: an actor without a part does nothing"
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
            self._leave()  # who has no program cannot close it
            raise

    def memory(self) -> list[dict[str, int]]:
        """Return for each actor the ``bytes`` of its columns, and the ``pid`` of its process."""
        self.store.executor.flush()
        return self._workers.memory()

    def close(self) -> None:
        """End the actors, and with the last program the Ray that was started or joined for one."""
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
