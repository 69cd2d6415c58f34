"""Traffic matrices: the synthetic models of the published runs, and matrices from files.

An entry (u, v) is the demand from node u to node v.  The models draw from numpy's legacy ``RandomState`` in a
fixed order, so that each seed gives the published instance of this seed:

- *gravity*: the share of a pair is out_u / sum(out) * in_v / (sum(in) - in_u), where out_u and in_u are the
  capacities that leave and enter node u.  Normal noise with a standard deviation of a quarter of the share is
  added; the result is at least 0.
- *Poisson*: Poisson(rate * decay^hops).  With the default parameters, a few large demands have nearly all
  volume.
- *Poisson, flat* (``poisson-flat``): the same model with the parameters :data:`POISSON_FLAT`, which give
  demands of all sizes.
- *bimodal*: a fifth of the pairs is uniform in a high range, and all other pairs in a low range.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse.csgraph import shortest_path

from copter.arrays import Floats
from copter.errors import CopterError
from copter.problems.traffic import MODELS
from copter.problems.traffic.topology import Topology

_SCALE = 16.0
"""Scale factor of most published runs."""

_GRAVITY_TOTAL = 1500.0
POISSON_FLAT = {"rate": 1e4, "decay": 0.9, "factor": 3.3e-6}
_BIMODAL_HIGH_SHARE = 0.2
_BIMODAL_LOW = (0.0, 0.00275)
_BIMODAL_HIGH = (0.0055, 0.011)

_FILES = (".npy", ".npz", ".csv")


class MatrixError(CopterError, ValueError):
    """An invalid traffic matrix; the message names the file, the pair and the value."""


def make_matrix(source: str | Path, topology: Topology, *, seed: int = 0, scale: float = _SCALE) -> Floats:
    """Return a matrix by the name of its model, or from a file.

    `source`: one of :data:`MODELS`, or a file for :func:`read_matrices`, of which the first matrix is used.
    `seed`, `scale`: for the models only.
    """
    match str(source):
        case "gravity":
            return gravity(topology, seed, scale)
        case "poisson":
            return poisson(topology, seed, scale)
        case "poisson-flat":
            return poisson(topology, seed, scale, **POISSON_FLAT)
        case "bimodal":
            return bimodal(topology, seed, scale)
        case _:
            if Path(source).suffix.lower() not in _FILES:
                known = f"a model ({', '.join(MODELS)})"
                raise MatrixError(f"{str(source)!r}: must be {known} or a file ending in {_ENDINGS}")
            return read_matrices(source, topology)[0]


def gravity(topology: Topology, seed: int, scale: float = _SCALE) -> Floats:
    """Return demands by the capacities at their ends, with noise; their sum is about 1500 times the scale."""
    n = topology.n_nodes
    leaving = np.bincount(topology.tail, topology.capacity, n)
    entering = np.bincount(topology.head, topology.capacity, n)
    if np.count_nonzero(entering) < 2:
        raise MatrixError(
            f"topology {topology.name!r}: must have at least two nodes with incoming capacity for gravity"
        )
    share = (leaving / leaving.sum())[:, None] * entering / (entering.sum() - entering)[:, None]
    pairs = ~np.eye(n, dtype=bool)
    drawn = np.random.RandomState(seed).normal(share[pairs], share[pairs] / 4)
    # The published instances were made in single precision, step by step.
    matrix = np.zeros((n, n), np.float32)
    matrix[pairs] = np.maximum(drawn, 0.0)
    matrix *= _GRAVITY_TOTAL
    matrix *= scale
    return matrix.astype(np.float64)


def poisson(
    topology: Topology,
    seed: int,
    scale: float = _SCALE,
    *,
    rate: float = 8e9,
    decay: float = 0.35,
    factor: float = 4.3e-9,
) -> Floats:
    """Return demands: draws from Poisson(rate * decay^hops), times `factor` and `scale`.

    `rate`: mean of a draw without decay. `decay`: factor per link of the shortest path; below 1, demands
    without a path are 0. `factor`: demand per drawn unit.
    """
    n = topology.n_nodes
    links = (np.ones(topology.n_links), (topology.tail, topology.head))
    hops = shortest_path(sparse.csr_array(links, shape=(n, n)), unweighted=True)
    # Draw also the diagonal, which uses its part of the random stream.
    matrix = np.random.RandomState(seed).poisson(rate * decay**hops).astype(np.float32)
    np.fill_diagonal(matrix, 0.0)
    matrix *= factor
    matrix *= scale
    return matrix.astype(np.float64)


def bimodal(topology: Topology, seed: int, scale: float = _SCALE) -> Floats:
    """Return demands of pairs: a fifth in a high range, all others in a low range, both times `scale`."""
    n = topology.n_nodes
    random = np.random.RandomState(seed)
    low = random.choice(2, (n, n), p=[_BIMODAL_HIGH_SHARE, 1 - _BIMODAL_HIGH_SHARE]).astype(bool)
    matrix = np.empty((n, n))
    matrix[low] = random.uniform(*_BIMODAL_LOW, np.count_nonzero(low))
    matrix[~low] = random.uniform(*_BIMODAL_HIGH, np.count_nonzero(~low))
    np.fill_diagonal(matrix, 0.0)
    return matrix * scale


def check_matrix(matrix: ArrayLike, topology: Topology, where: str = "matrix") -> Floats:
    """Return a checked copy of a matrix.

    `matrix`: may also have a row and a column of zeros for each node that the topology omits. `where`: name
    of the matrix in errors.
    """
    checked = np.asarray(matrix)
    if checked.dtype.kind not in "fiu":
        raise MatrixError(f"{where}: dtype = {checked.dtype}: must be numbers")
    n, left_out = topology.n_nodes, topology.left_out
    if left_out and checked.shape == (n + len(left_out),) * 2:
        for place, node in left_out:
            if checked[place].any() or checked[:, place].any():
                why = f"node {node!r} is not strongly connected to the network"
                raise MatrixError(f"{where}: demands of node {node!r}: must be 0, because {why}")
        places = [place for place, _ in left_out]
        checked = np.delete(np.delete(checked, places, axis=0), places, axis=1)
    if checked.shape != (n, n):
        shape = " x ".join(map(str, checked.shape))
        raise MatrixError(f"{where}: shape = {shape}: must be {n} x {n}, the nodes of {topology.name!r}")
    checked = checked.astype(np.float64)
    wrong = np.argwhere(~(np.isfinite(checked) & (checked >= 0)))
    if wrong.size:
        u, v = wrong[0]
        pair = f"demand from {topology.nodes[u]!r} to {topology.nodes[v]!r}"
        raise MatrixError(f"{where}: {pair} = {checked[u, v]}: must be finite and not negative")
    return checked


def read_matrices(path: str | Path, topology: Topology) -> Floats:
    """Return the matrices of a file, in their order, as an array of shape (T, N, N).

    Parameters
    ----------
    path : path
        Path of a file ``.npy`` or ``.npz`` with one array, N x N or T x N x N; ``.csv`` with N lines of N
        numbers.

    Raises
    ------
    MatrixError
        If a file cannot be read, has another shape, or has an entry that is negative or not a number.
    """
    path = Path(path)
    readers = {".npy": _read_npy, ".npz": _read_npz, ".csv": _read_csv}
    if path.suffix.lower() not in readers:
        raise MatrixError(f"{path}: must end in one of {_ENDINGS}")
    if not path.is_file():
        raise MatrixError(f"{path}: must be an existing file")
    try:
        array = readers[path.suffix.lower()](path)
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise MatrixError(f"{path}: must be readable: {error}") from error
    if array.ndim != 3:
        return check_matrix(array, topology, str(path))[None]
    if not len(array):
        raise MatrixError(f"{path}: must have at least one matrix")
    return np.stack([check_matrix(one, topology, f"{path}, matrix {k}") for k, one in enumerate(array)])


_ENDINGS = ", ".join(_FILES)


def _read_npy(path: Path) -> NDArray:
    return np.load(path, allow_pickle=False)


def _read_npz(path: Path) -> NDArray:
    with np.load(path, allow_pickle=False) as archive:
        if len(archive.files) != 1:
            raise ValueError(f"arrays = {archive.files}: must be one array")
        return archive[archive.files[0]]


def _read_csv(path: Path) -> NDArray:
    return np.loadtxt(path, delimiter=",", ndmin=2, encoding="utf-8-sig")
