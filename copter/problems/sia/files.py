"""Reader of the authors' PAI profiles: a folder of ``<model>.npz`` files and two JSON files.

- ``simulator_constants.json``: nodes and GPUs per node of the authors' cluster, restart seconds and
  calibration.
- ``<model>.npz`` with ``progress, goodput, gpu_type, num_nodes, num_gpus``: a training job.
- ``<model>.npz`` with ``max_progress, num_gpus`` and one array for each hardware class: a synthetic job.
- ``batch_inference.json``: for each application ``num_iters``, ``sim_speedup`` and, by GPU type,
  ``min_gpus`` and ``throughput`` of one replica.

Some constants are not in the files.  They are those of the authors' public simulator
(github.com/suhasjs/continuous-scheduling): restart seconds of batch inference and synthetic jobs, their
largest scale, and the hardware class of each GPU type of the cluster ("quad", a Quadro, has the figures of
the RTX-2080Ti).
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from copter.errors import InputError
from copter.problems.cluster.cluster import Cluster, Configuration, GpuType
from copter.problems.cluster.profiles.base import Profile
from copter.problems.cluster.profiles.tables import CountProfile, ReplicaProfile, TableProfile
from copter.problems.reading import JsonObject, read_json

_HARDWARE_CLASSES = {
    "dgx-ext": "DGX-A100-40GB",
    "a100-pcie": "A100-40GB-PCIe",
    "a10-pcie": "A10-24GB-PCIe",
    "rtx": "RTX-2080Ti-11GB",
    "quad": "RTX-2080Ti-11GB",
    "azure": "DGX-V100-32GB",
    "aws": "T4-16GB",
}
"""Hardware class of the synthetic profiles for each GPU type of the authors' cluster."""
_OTHER_NAMES = {"quadro": "quad"}
"""Names of GPU types in ``batch_inference.json`` that differ from the cluster's."""
SINGLE_PHASE_RESTART_SECONDS = 90.0
"""Seconds of a checkpoint-restore of batch inference and synthetic jobs."""
_MAX_REPLICAS = 32
"""Largest number of replicas of a batch inference job."""
_SYNTHETIC_MAX_GPUS = 128
"""Largest number of GPUs of a synthetic job."""

_CONSTANTS = "simulator_constants.json"
_BATCH_INFERENCE = "batch_inference.json"
_DERIVED = "derived_npz"


def profile_folder(path: str | Path) -> Path:
    """Return the folder with the npz files: `path`, or its subfolder ``derived_npz``."""
    path = Path(path)
    inside = path / _DERIVED
    if inside.is_dir() and not (path / _CONSTANTS).exists() and not any(path.glob("*.npz")):
        return inside
    return path


def read_profiles(folder: str | Path) -> dict[str, Profile]:
    """Return the profiles of all applications in a folder or its subfolder ``derived_npz``, by name."""
    folder = profile_folder(folder)
    constants = _constants(folder)
    profiles: dict[str, Profile] = {}
    for path in sorted(folder.glob("*.npz")):
        profiles[path.stem] = _read_npz(path, constants)
    if (folder / _BATCH_INFERENCE).exists():
        profiles.update(_read_batch_inference(folder / _BATCH_INFERENCE))
    if not profiles:
        raise InputError(folder, "*.npz", "must have at least one profile")
    return profiles


def read_cluster(folder: str | Path, scale: float = 1.0) -> Cluster:
    """Return the authors' cluster of 256 GPUs, from ``simulator_constants.json``.

    `scale`: factor on the number of nodes of each type, which is rounded.
    """
    folder = profile_folder(folder)
    constants = _constants(folder)
    nodes, sizes = constants.record("cluster_nnodes"), constants.record("cluster_ngpus_per_node")
    types = []
    for name in nodes.fields:
        per_node, count = sizes.get(name, int), nodes.get(name, int)
        try:
            types.append(GpuType(name, per_node, count))
        except ValueError as error:
            raise nodes.error(name, str(error)) from None
    return Cluster(types).scaled(scale)


def _constants(folder: Path) -> JsonObject:
    if not folder.is_dir():
        raise InputError(folder, "profiles", "does not exist")
    path = folder / _CONSTANTS
    return JsonObject(path, read_json(path))


def _read_npz(path: Path, constants: JsonObject) -> Profile:
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise InputError(path, "file", f"cannot be read as npz: {error}") from None
    try:
        return _training(path, arrays, constants) if "goodput" in arrays else _synthetic(path, arrays)
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        raise InputError(path, "goodput" if "goodput" in arrays else "num_gpus", str(error)) from None


def _training(path: Path, arrays: dict[str, np.ndarray], constants: JsonObject) -> Profile:
    for name in ("progress", "gpu_type", "num_nodes", "num_gpus"):
        if name not in arrays:
            raise InputError(path, name, "is missing")
    kinds = {"gpu_type": "U", "num_nodes": "iu", "num_gpus": "iu"}
    width = arrays["goodput"].shape[-1] if arrays["goodput"].ndim == 2 else -1
    for name, kind in kinds.items():
        if arrays[name].dtype.kind not in kind or arrays[name].shape != (width,):
            found = f"{arrays[name].dtype} of shape {arrays[name].shape}"
            raise InputError(path, name, f"{found}: must be one entry for each of {width} columns of goodput")
    columns = (arrays[name].tolist() for name in ("num_nodes", "num_gpus", "gpu_type"))
    grid = [Configuration(*entry) for entry in zip(*columns, strict=True)]
    restart = constants.record("restart_seconds").amount(path.stem)
    calibration = constants.record("calibration_factors").amount(path.stem)
    return TableProfile(path.stem, restart, arrays["progress"], grid, arrays["goodput"], calibration)


def _synthetic(path: Path, arrays: dict[str, np.ndarray]) -> Profile:
    for name in ("max_progress", "num_gpus", *_HARDWARE_CLASSES.values()):
        if name not in arrays:
            raise InputError(path, name, "is missing")
    curves = {type: arrays[hardware] for type, hardware in _HARDWARE_CLASSES.items()}
    work, restart = float(arrays["max_progress"]), SINGLE_PHASE_RESTART_SECONDS
    return CountProfile(path.stem, restart, work, arrays["num_gpus"], curves, _SYNTHETIC_MAX_GPUS)


def _read_batch_inference(path: Path) -> dict[str, Profile]:
    profiles: dict[str, Profile] = {}
    document = JsonObject(path, read_json(path))
    for name in document.fields:
        record = document.record(name)
        speedup, types = record.amount("sim_speedup"), record.record("gpu_profiles")
        replicas = {}
        for type in types.fields:
            entry = types.record(type)
            throughput = speedup * entry.amount("throughput")
            replicas[_OTHER_NAMES.get(type, type)] = (entry.get("min_gpus", int), throughput)
        work = record.amount("num_iters")
        try:
            profiles[name] = ReplicaProfile(name, SINGLE_PHASE_RESTART_SECONDS, work, replicas, _MAX_REPLICAS)
        except ValueError as error:
            raise document.error(name, str(error)) from None
    return profiles
