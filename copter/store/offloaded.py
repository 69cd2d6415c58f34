"""Work that is offloaded to where the columns are: pieces that stay there, and what is asked of them.

A solver that asks the same data again and again, each time for sums at other prices, cuts the data into
pieces and offloads them: then each question sends the prices and brings the sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from copter.parallel import run_chunks

Result = TypeVar("Result")


class Offloaded(Protocol):
    """Pieces that are somewhere else.  They are given back when nobody refers to this any more.

    Arrays arrive as they were sent, so that they can be written to: kernels are compiled for such.  Where the
    process that has a piece is lost, another one gets the piece as it was given; what tasks kept in it is
    gone then, and they have to say so.
    """

    def each(
        self, task: Callable[..., Result], *common: Any, own: Sequence[tuple[Any, ...]] | None = None
    ) -> list[Result]:
        """``task(piece, *common, *own[k])`` of every piece k, in the order of the pieces.

        Parameters
        ----------
        task : callable
            At the top of its module; it may keep in its piece what later tasks ask for.
        *common
            For all pieces.
        own : sequence of tuples, optional
            For each piece its own.

        Returns
        -------
        list
            A result a piece.
        """


class OnThreads:
    """Pieces that stay in this process, where threads share the work.

    Parameters
    ----------
    pieces : sequence
        Picklable objects.
    threads : int, optional
        At most; by default one a processor.
    """

    def __init__(self, pieces: Sequence[Any], threads: int | None = None) -> None:
        self._pieces, self._threads = list(pieces), threads

    def each(
        self, task: Callable[..., Result], *common: Any, own: Sequence[tuple[Any, ...]] | None = None
    ) -> list[Result]:
        """See :meth:`Offloaded.each`."""
        pieces, given = self._pieces, own or [()] * len(self._pieces)
        return run_chunks(lambda k: task(pieces[k], *common, *given[k]), len(pieces), self._threads)
