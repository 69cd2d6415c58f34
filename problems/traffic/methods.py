"""Methods of traffic engineering by their names, as commands and courses have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from copter.problems.pop import pop_name
from copter.problems.traffic import METHODS
from copter.problems.traffic.baselines import SPLIT_POISSON, Allocated, lp_top, pop, shortest_path
from copter.problems.traffic.state import TrafficState

if TYPE_CHECKING:
    from copter.bench.settings import SolverSettings
    from copter.spreading.tasks import Spread


def is_method(name: str) -> bool:
    """Whether a name is one of :data:`METHODS`."""
    return name in METHODS or pop_name(name) is not None


def run_method(
    settings: SolverSettings, traffic: TrafficState, *, seed: int, split: float, spread: Spread | None = None
) -> Allocated:
    """Serve the demands of now with one of :data:`METHODS`.

    Parameters
    ----------
    settings : SolverSettings
        The method's name, and the deadline, threads and tolerance of its LPs.
    seed, split, spread : int, float, and Spread
        Of POP; see :func:`copter.problems.traffic.baselines.pop`.
    """
    own: dict[str, Any] = {
        "deadline": settings.time_limit,
        "threads": settings.threads,
        "tolerance": settings.tolerance,
    }
    if settings.name == "shortest":
        return shortest_path(traffic)
    if settings.name == "lp-top":
        return lp_top(traffic, **own)
    named = pop_name(settings.name)
    assert named is not None
    return pop(traffic, named.parts, seed=seed, split=split, spread=spread, **own)


def split_for(matrix: str) -> float:
    """Client splitting of POP in the published runs: for few large flows, else none."""
    return SPLIT_POISSON if matrix == "poisson" else 0.0
