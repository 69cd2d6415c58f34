"""RayProgram: a program whose requests are spread over the actors of a Ray cluster."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from copter.errors import SettingError
from copter.extras import extra
from copter.program.kept import CostType
from copter.program.spread import SpreadProgram
from copter.ray.places import OnActors

with extra("ray"):
    import ray


class RayProgram(SpreadProgram):
    """A continual program on actors: the verbs, solvers and answers of :class:`copter.ContinualProgram`.

    Its requests lie in parts, one with each actor or some.  Sums over requests are carried so closely that
    their cut does not matter: answers are bit by bit the same for any number of actors, and those of one
    process.

    Parameters
    ----------
    actors : int
        Processes that hold the columns.
    address : str, optional
        Of a Ray cluster: "auto" for the one that this machine is part of, or ``ray://host:port``.  By default
        the one that this process is connected to, or, without any, a local one that is ended by
        :meth:`close`.
    parts : int, optional
        Into how many parts requests are cut, at least one for each actor; by default just that.  Columns that
        requests share are priced once a part.
    num_cpus : float
        Processors that Ray sets aside for each actor, and threads of each, at least one.
    resources : mapping of str to float, optional
        Other resources of Ray that each actor needs.
    cost_dtype : "float64" or "float32"
        What costs are kept as.

    Raises
    ------
    MissingExtraError
        Ray is not installed.
    SettingError
        There are fewer parts than actors, or less than one of either.

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
        cost_dtype: CostType = "float64",
    ) -> None:
        parts = actors if parts is None else parts
        if not 1 <= actors <= parts:
            why = f"must be from 1 to the number of parts, {parts}: an actor without a part does nothing"
            raise SettingError("RayProgram", "actors", actors, why)
        self._started = not ray.is_initialized()
        if self._started:
            own: dict[str, Any] = {} if address else {"num_cpus": math.ceil(actors * num_cpus)}
            own |= {} if address else {"include_dashboard": False}
            ray.init(address or "local", logging_level=logging.WARNING, log_to_driver=False, **own)
        options = {"num_cpus": num_cpus, "resources": dict(resources or {}), "scheduling_strategy": "SPREAD"}
        threads = max(1, int(num_cpus))
        self._places = OnActors(actors, parts, cost_dtype, options, threads)
        super().__init__(self._places, cost_dtype=cost_dtype)

    def memory(self) -> list[dict[str, int]]:
        """Of each actor: bytes of the columns that it holds, and its process.

        Returns
        -------
        list of dict
            ``bytes`` and ``pid``.
        """
        self.store.settle()
        return self._places.memory()

    def close(self) -> None:
        """End the actors, and the local Ray that was started for them."""
        super().close()
        if self._started and ray.is_initialized():
            ray.shutdown()
        self._started = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
