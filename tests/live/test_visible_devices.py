"""A service that may see some GPUs of its machine only."""

import pytest

from copter.live.backends.base import BackendSettingError
from copter.live.backends.local import visible_devices
from copter.live.backends.registry import make_backend
from copter.live.files import ClusterFile

TWO = ClusterFile(gpus=({"type": "a100", "gpus_per_node": 2, "nodes": 1},))


@pytest.mark.parametrize(
    ("text", "names"),
    [("6,7", ["6", "7"]), (" 6 , GPU-a", ["6", "GPU-a"]), ("", []), ("-1", []), ("0,-1,1", ["0"])],
)
def test_the_list_ends_before_the_first_name_of_no_gpu(monkeypatch, text, names):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", text)
    assert visible_devices() == names


@pytest.mark.parametrize("text", ["", "-1", "6", "0,-1"])
def test_a_list_that_is_too_short_is_refused(tmp_path, monkeypatch, text):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", text)
    with pytest.raises(BackendSettingError, match="must list at least the 2 GPUs"):
        make_backend("local", tmp_path, TWO)


def test_a_list_that_is_long_enough_or_not_needed_is_accepted(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "6,7")
    make_backend("local", tmp_path, TWO)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    make_backend("local", tmp_path, TWO)
