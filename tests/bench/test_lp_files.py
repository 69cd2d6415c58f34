"""npz files of linear programs: None among the bounds is read, and nothing that a pickle may hide is run."""

import os

import numpy as np
import pytest

from copter.bench.lp import read_lp
from copter.errors import CopterError

ARRAYS = {
    "c": np.array([1.0, 2.0]),
    "A_ub": np.array([[-1.0, -1.0]]),
    "b_ub": np.array([-3.0]),
    "A_eq": np.empty((0, 2)),
    "b_eq": np.empty(0),
}


@pytest.mark.parametrize(
    "bounds",
    [np.array([[0, None], [None, np.float64(4.5)]], object), np.array([[0, np.inf], [-np.inf, 4.5]])],
)
def test_bounds_with_and_without_none(bounds, tmp_path):
    np.savez(tmp_path / "lp.npz", **ARRAYS, bounds=bounds)
    lp = read_lp(tmp_path / "lp.npz")
    assert (lp.lower.tolist(), lp.upper.tolist()) == ([0, -np.inf], [np.inf, 4.5])
    assert (lp.row_upper.tolist(), lp.A.toarray().tolist()) == ([-3.0], [[-1.0, -1.0]])


class Trap:
    def __reduce__(self):
        return os.mkdir, ("sprung",)


@pytest.mark.parametrize("name", ["bounds", "c"])
def test_a_file_runs_nothing(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trap = np.array([Trap(), None], object)
    np.savez("lp.npz", **(ARRAYS | {"bounds": np.empty(0)} | {name: trap}))
    with pytest.raises(CopterError, match=r"lp\.npz: must be an npz file with linprog's arrays"):
        read_lp(tmp_path / "lp.npz")
    assert not (tmp_path / "sprung").exists()


def test_what_is_no_such_file_is_named(tmp_path):
    np.savez(tmp_path / "lp.npz", c=np.ones(2))
    with pytest.raises(CopterError, match="must contain A_ub, b_ub"):
        read_lp(tmp_path / "lp.npz")
    (tmp_path / "odd.npz").write_bytes(b"no archive")
    with pytest.raises(CopterError, match=r"odd\.npz: must be an npz file with linprog's arrays"):
        read_lp(tmp_path / "odd.npz")
