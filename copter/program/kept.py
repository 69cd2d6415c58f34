"""How a program is kept and multiplied: copies, and files to save it to and load it from."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from copter.program.guard import Guard
from copter.program.vectors import CostVectors

if TYPE_CHECKING:
    from os import PathLike

    from copter.durable.state import Remembers
    from copter.models.general_lp import GeneralLP
    from copter.program.program import ContinualProgram
    from copter.store.allocation import SparseX
    from copter.terms.convex import ConvexTerm


CostType: TypeAlias = Literal["float64", "float32"]
COST_TYPES: tuple[CostType, ...] = ("float64", "float32")


class Kept(CostVectors):
    """What :class:`copter.program.program.ContinualProgram` is besides its edits: see docs/operations.md.

    Attributes
    ----------
    mend : callable, optional
        ``mend(program, x, y)`` makes an allocation feasible, at prices by row slot, and returns it; ``x`` and
        the result are :class:`copter.store.allocation.SparseX`: integer slots and columns of requests that
        there are, ascending, and finite values.  Solvers of large programs certify what it returns beside
        their own answers: a domain that can repair at once saves them the last steps.  If it raises
        :class:`copter.CopterError`, or returns something else, that is logged and the solve goes on without.
        It is code and no part of the program's data: a copy in memory has it, but it is not saved, neither by
        pickle nor in files; who loads the program sets it again.
    """

    mend: Callable[[Any, SparseX, NDArray[np.float64]], SparseX] | None = None

    def __init__(self, *, cost_dtype: CostType = "float64") -> None:
        if cost_dtype not in COST_TYPES:
            raise ValueError(f"cost_dtype = {cost_dtype!r}: must be one of {', '.join(COST_TYPES)}")
        super().__init__(np.dtype(cost_dtype))
        self.guard = Guard()
        self.mend = None

    @property
    def cost_dtype(self) -> CostType:
        """What costs are kept as."""
        return "float64" if self.store.cost_dtype == np.float64 else "float32"

    def __copy__(self) -> Self:
        return copy.deepcopy(self)  # half a copy would be edited along with the original

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self._twin(memo)

    def __reduce__(self) -> tuple[Any, ...]:
        twin = self._twin({}, without="mend")  # nobody edits that one while it is pickled
        return _empty, (type(twin),), vars(twin)

    def _twin(self, memo: dict[int, Any], without: str = "") -> Any:
        """A copy, but for one attribute."""
        with self.guard.using("copy"):
            kind, content = self._content()
            twin = memo[id(self)] = _empty(kind)
            for name, value in content.items():
                if name != without:
                    setattr(twin, name, copy.deepcopy(value, memo))
        return twin

    def _content(self) -> tuple[type[Kept], dict[str, Any]]:
        """Class and attributes of a copy."""
        return type(self), vars(self)

    def take_starts(self) -> dict[int, tuple[NDArray[np.int64], NDArray[np.float64]]]:
        """Starts given since the last call, by request slot; for solvers that keep state.

        Returns
        -------
        dict of request slot to (columns, values)
        """
        starts, self._starts = self._starts, {}
        return starts

    def return_starts(self, starts: dict[int, tuple[NDArray[np.int64], NDArray[np.float64]]]) -> None:
        """Give starts back that were taken for a solve which came to nothing; for solvers.

        Parameters
        ----------
        starts : dict of request slot to (columns, values)
            What :meth:`take_starts` returned.
        """
        self._starts = starts | self._starts

    def save(self, path: str | PathLike[str], solver: Remembers | None = None) -> None:
        """Write the program to a file, which is then whole and on disk; an older one is replaced.

        Parameters
        ----------
        solver : Solver, optional
            One whose state is to be written too, so that the next round goes on from this one.

        Raises
        ------
        EditError
            An id cannot be written: names it.  Ids may be str, int, float, bool, bytes, None, numpy's
            numbers (which come back as Python's), and tuples of these.
        CopterError
            The solver's state cannot be written; that of :class:`copter.ProximalPoint` can.
        """
        from copter.durable.snapshot import save

        save(cast("ContinualProgram", self), path, solver)

    def to_arrays(self) -> GeneralLP:
        """Program as it is now, in arrays with names: costs, sparse matrix, bounds, integrality.

        Returns
        -------
        GeneralLP
            Columns request after request, named ``request[column]``; rows are the resources, by their ids,
            and then ``total[request]`` for each request that has a total.

        Raises
        ------
        CopterError
            A request has a convex term: names it.
        """
        from copter.models.arrays import program_arrays

        return program_arrays(cast("ContinualProgram", self))

    def write(self, path: str | PathLike[str]) -> None:
        """Write the program to an MPS file for other solvers; :meth:`save` is for going on with copter.

        Parameters
        ----------
        path : path-like
            Ends in ``.mps``.

        Raises
        ------
        CopterError
            It cannot be written there, or a request has a convex term.
        """
        from copter.models.files import write_mps

        write_mps(cast("ContinualProgram", self), path)

    @staticmethod
    def load(
        path: str | PathLike[str], solver: Remembers | None = None, terms: Iterable[type[ConvexTerm]] = ()
    ) -> ContinualProgram:
        """Program from a file that :meth:`save` wrote: the same slots, clock and next answers.

        Reading runs no code from the file.

        Parameters
        ----------
        solver : Solver, optional
            Is given the state of the solver that was saved, and no settings: make it with the same.
        terms : iterable of classes
            Classes of convex terms of your own that the program uses.

        Raises
        ------
        FileError
            The file is damaged, incomplete or none of copter's, needs a class of terms, or has no state for
            this solver; names the file and what is wrong.
        """
        from copter.durable.snapshot import load
        from copter.program.program import ContinualProgram

        program = ContinualProgram()
        load(path, program, solver, terms)
        return program


def _empty(kind: type[Kept]) -> Any:
    """A program to be filled from another."""
    return kind.__new__(kind)
