"""Reader of the authors' profiles: a small folder of each kind, what its errors name, and the real files."""

import json

import numpy as np
import pytest

from copter.errors import InputError
from copter.problems.sia import Cluster, GpuType, read_cluster, read_profiles
from copter.problems.sia.files import _HARDWARE_CLASSES

CONSTANTS = {
    "cluster_nnodes": {"azure": 2, "aws": 1},
    "cluster_ngpus_per_node": {"azure": 2, "aws": 4},
    "restart_seconds": {"bert": 120},
    "calibration_factors": {"bert": 1.2},
}
BATCH = {
    "resnet": {
        "num_iters": 1000,
        "sim_speedup": 2,
        "gpu_profiles": {
            "azure": {"min_gpus": 2, "throughput": 5},
            "quadro": {"min_gpus": 1, "throughput": 3},
        },
    }
}
BERT = {
    "progress": np.array([5.0, 10.0]),
    "goodput": np.array([[1.0, 2.0], [3.0, 4.0]], np.float32),
    "gpu_type": np.array(["azure", "azure"]),
    "num_nodes": np.array([1, 1]),
    "num_gpus": np.array([1, 2]),
}
SYNTHETIC = {"max_progress": np.array(100), "num_gpus": np.array([1.0, 2.0])} | {
    hardware: np.array([1.0, 2.0]) for hardware in _HARDWARE_CLASSES.values()
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "simulator_constants.json").write_text(json.dumps(CONSTANTS))
    (tmp_path / "batch_inference.json").write_text(json.dumps(BATCH))
    np.savez(tmp_path / "bert.npz", **BERT)
    np.savez(tmp_path / "synthetic.npz", **SYNTHETIC)
    return tmp_path


def test_each_kind_of_file(folder):
    profiles = read_profiles(folder)
    assert sorted(profiles) == ["bert", "resnet", "synthetic"]
    cluster = read_cluster(folder)
    assert cluster == Cluster([GpuType("azure", 2, 2), GpuType("aws", 4, 1)])
    found = cluster.configurations  # azure 1, 2, 4; aws 1, 2, 4
    bert = profiles["bert"]
    assert bert.goodput(found, 1).tolist() == [3.0, 4.0, 0.0, 0.0, 0.0, 0.0]
    assert (bert.restart_seconds, bert.calibration, bert.work) == (120.0, 1.2, 10.0)
    assert profiles["resnet"].goodput(found, 0).tolist() == [0.0, 10.0, 20.0, 0.0, 0.0, 0.0]
    assert profiles["synthetic"].goodput(found, 0).tolist() == [1.0, 2.0, 0.0, 1.0, 2.0, 0.0]
    assert read_cluster(folder, 3).capacity == {"azure": 12, "aws": 12}
    quad = Cluster([GpuType("quad", 4, 1)]).configurations
    assert profiles["resnet"].goodput(quad, 0).tolist() == [6.0, 12.0, 24.0]


def test_the_parent_of_the_profiles_will_do(folder):
    names, cluster, files = sorted(read_profiles(folder)), read_cluster(folder), list(folder.iterdir())
    inside = folder / "derived_npz"
    inside.mkdir()
    for path in files:
        path.rename(inside / path.name)
    assert sorted(read_profiles(folder)) == sorted(read_profiles(inside)) == names
    assert read_cluster(folder) == read_cluster(inside) == cluster


def written(folder, name, content):
    """Replace a file by a text, a document or arrays, or remove it."""
    path = folder / name
    path.unlink()
    if isinstance(content, str):
        path.write_text(content)
    elif content is not None and path.suffix == ".json":
        path.write_text(json.dumps(content))
    elif content is not None:
        np.savez(path, **content)
    return path


CONSTANTS_FILE = "simulator_constants.json"


def changed(record, *path, to=None):
    copy = json.loads(json.dumps(record))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    if to is None:
        del inner[path[-1]]
    else:
        inner[path[-1]] = to
    return copy


@pytest.mark.parametrize(
    ("name", "content", "field"),
    [
        (CONSTANTS_FILE, None, "file"),
        (CONSTANTS_FILE, changed(CONSTANTS, "restart_seconds", "bert", to=-1), "restart_seconds.bert"),
        (
            CONSTANTS_FILE,
            changed(CONSTANTS, "calibration_factors", to={"bert": "x"}),
            "calibration_factors.bert",
        ),
        ("batch_inference.json", changed(BATCH, "resnet", "num_iters"), "resnet.num_iters"),
        ("bert.npz", BERT | {"num_gpus": np.array([1, 2, 3])}, "num_gpus"),
        ("bert.npz", BERT | {"goodput": np.array([[1.0, np.nan], [1.0, 1.0]])}, "goodput"),
        ("bert.npz", "no archive", "file"),
        ("synthetic.npz", {key: value for key, value in SYNTHETIC.items() if key != "T4-16GB"}, "T4-16GB"),
    ],
)
def test_errors_name_file_and_field(folder, name, content, field):
    path = written(folder, name, content)
    with pytest.raises(InputError) as caught:
        read_profiles(folder)
    assert (caught.value.path, caught.value.where) == (str(path), field)
    assert str(path) in str(caught.value)


def test_folders_without_what_is_needed_are_named(folder, tmp_path):
    with pytest.raises(InputError, match="nowhere, profiles: does not exist"):
        read_profiles(tmp_path / "nowhere")
    written(folder, CONSTANTS_FILE, changed(CONSTANTS, "cluster_ngpus_per_node", "aws"))
    with pytest.raises(InputError, match=r"cluster_ngpus_per_node\.aws"):
        read_cluster(folder)
    for name in ("batch_inference.json", "bert.npz", "synthetic.npz"):
        (folder / name).unlink()
    with pytest.raises(InputError, match="must have at least one profile"):
        read_profiles(folder)
