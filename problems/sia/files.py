"""Reader of the authors' PAI profiles: a folder of ``<model>.npz`` with two JSON files beside them.

- ``simulator_constants.json``: nodes and GPUs a node of the authors' cluster, restart seconds and
  calibration.
- ``<model>.npz`` with ``progress, goodput, gpu_type, num_nodes, num_gpus``: a training job.
- ``<model>.npz`` with ``max_progress, num_gpus`` and one array for each hardware class: a synthetic job.
- ``batch_inference.json``: for each application ``num_iters``, ``sim_speedup`` and, by GPU type,
  ``min_gpus`` and ``throughput`` of one replica.

Constants that the files lack are those of the authors' public simulator
(github.com/suhasjs/continuous-scheduling): restart seconds of batch inference and synthetic jobs, their
largest scale, and which hardware class stands for which GPU type of the cluster ("quad", a Quadro, takes the
RTX-2080Ti's figures).
"""

from __future__ import annotations

import json
import math
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from copter.errors import CopterError
from copter.problems.sia.cluster import Cluster, Configuration, GpuType
from copter.problems.sia.profiles import CountProfile, Profile, ReplicaProfile, TableProfile

HARDWARE_CLASSES = {
    "dgx-ext": "DGX-A100-40GB",
    "a100-pcie": "A100-40GB-PCIe",
    "a10-pcie": "A10-24GB-PCIe",
    "rtx": "RTX-2080Ti-11GB",
    "quad": "RTX-2080Ti-11GB",
    "azure": "DGX-V100-32GB",
    "aws": "T4-16GB",
}
"""Hardware class of the synthetic profiles for each GPU type of the authors' cluster."""
OTHER_NAMES = {"quadro": "quad"}
"""Spellings of GPU types in ``batch_inference.json`` that differ from the cluster's."""
SINGLE_PHASE_RESTART_SECONDS = 90.0
"""Checkpoint-restore of batch inference and synthetic jobs."""
MAX_REPLICAS = 32
"""Largest number of replicas of a batch inference job."""
SYNTHETIC_MAX_GPUS = 128
"""Largest number of GPUs of a synthetic job."""

CONSTANTS = "simulator_constants.json"
BATCH_INFERENCE = "batch_inference.json"
DERIVED = "derived_npz"


class ProfileError(CopterError, ValueError):
    """A profile file that is missing or cannot be used; names the file and the field."""

    def __init__(self, path: str | Path, field: str, why: str) -> None:
        self.path, self.field = Path(path), field
        super().__init__(f"{path}, {field}: {why}")


def profile_folder(path: str | Path) -> Path:
    """The folder with the npz files: ``path``, or ``derived_npz`` in it if that is where they are."""
    path = Path(path)
    inside = path / DERIVED
    if inside.is_dir() and not (path / CONSTANTS).exists() and not any(path.glob("*.npz")):
        return inside
    return path


def read_profiles(folder: str | Path) -> dict[str, Profile]:
    """Profiles of all applications in a folder, or in the folder ``derived_npz`` of it, by application.

    Raises
    ------
    ProfileError
        A missing or malformed file; names the file and the field.
    """
    folder = profile_folder(folder)
    constants = _constants(folder)
    profiles: dict[str, Profile] = {}
    for path in sorted(folder.glob("*.npz")):
        profiles[path.stem] = _read_npz(path, constants)
    if (folder / BATCH_INFERENCE).exists():
        profiles.update(_read_batch_inference(folder / BATCH_INFERENCE))
    if not profiles:
        raise ProfileError(folder, "*.npz", "no profile in this folder")
    return profiles


def read_cluster(folder: str | Path, scale: float = 1.0) -> Cluster:
    """The authors' cluster, from ``simulator_constants.json``, with ``scale`` times its 256 GPUs."""
    folder = profile_folder(folder)
    path = folder / CONSTANTS
    constants = _constants(folder)
    nodes = _field(path, constants, "cluster_nnodes", dict)
    sizes = _field(path, constants, "cluster_ngpus_per_node", dict)
    types = []
    for name, count in nodes.items():
        per_node = _field(path, sizes, name, int, "cluster_ngpus_per_node.")
        try:
            types.append(GpuType(name, per_node, int(count)))
        except (TypeError, ValueError) as error:
            raise ProfileError(path, f"cluster_nnodes.{name}", str(error)) from None
    return Cluster(types).scaled(scale)


def _constants(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        raise ProfileError(folder, "profiles", "no such folder")
    return _read_json(folder / CONSTANTS)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ProfileError(path, "file", "does not exist") from None
    except (OSError, ValueError) as error:
        raise ProfileError(path, "file", f"cannot be read as JSON: {error}") from None
    if not isinstance(content, dict):
        raise ProfileError(path, "file", "must hold an object")
    return content


def _field(path: Path, record: Mapping[str, Any], name: str, type: Any, prefix: str = "") -> Any:
    if name not in record:
        raise ProfileError(path, prefix + name, "is missing")
    value = record[name]
    if type is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value) if abs(value) <= sys.float_info.max else math.inf
    if not isinstance(value, type) or isinstance(value, bool):
        raise ProfileError(path, prefix + name, f"{value!r} is no {type.__name__}")
    if type is float and not (math.isfinite(value) and value >= 0):
        raise ProfileError(path, prefix + name, f"{value} must be finite and not negative")
    return value


def _read_npz(path: Path, constants: dict[str, Any]) -> Profile:
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise ProfileError(path, "file", f"cannot be read as npz: {error}") from None
    try:
        return _training(path, arrays, constants) if "goodput" in arrays else _synthetic(path, arrays)
    except ProfileError:
        raise
    except (TypeError, ValueError) as error:
        raise ProfileError(path, "goodput" if "goodput" in arrays else "num_gpus", str(error)) from None


def _training(path: Path, arrays: dict[str, np.ndarray], constants: dict[str, Any]) -> Profile:
    for name in ("progress", "gpu_type", "num_nodes", "num_gpus"):
        if name not in arrays:
            raise ProfileError(path, name, "is missing")
    kinds = {"gpu_type": "U", "num_nodes": "iu", "num_gpus": "iu"}
    width = arrays["goodput"].shape[-1] if arrays["goodput"].ndim == 2 else -1
    for name, kind in kinds.items():
        if arrays[name].dtype.kind not in kind or arrays[name].shape != (width,):
            found = f"{arrays[name].dtype} of shape {arrays[name].shape}"
            raise ProfileError(path, name, f"must name the {width} columns of goodput, is {found}")
    columns = (arrays[name].tolist() for name in ("num_nodes", "num_gpus", "gpu_type"))
    grid = [Configuration(*entry) for entry in zip(*columns, strict=True)]
    beside = path.parent / CONSTANTS
    restart = _field(
        beside, _field(beside, constants, "restart_seconds", dict), path.stem, float, "restart_seconds."
    )
    factors = _field(beside, constants, "calibration_factors", dict)
    calibration = _field(beside, factors, path.stem, float, "calibration_factors.")
    return TableProfile(path.stem, restart, arrays["progress"], grid, arrays["goodput"], calibration)


def _synthetic(path: Path, arrays: dict[str, np.ndarray]) -> Profile:
    for name in ("max_progress", "num_gpus", *HARDWARE_CLASSES.values()):
        if name not in arrays:
            raise ProfileError(path, name, "is missing")
    curves = {type: arrays[hardware] for type, hardware in HARDWARE_CLASSES.items()}
    work, restart = float(arrays["max_progress"]), SINGLE_PHASE_RESTART_SECONDS
    return CountProfile(path.stem, restart, work, arrays["num_gpus"], curves, SYNTHETIC_MAX_GPUS)


def _read_batch_inference(path: Path) -> dict[str, Profile]:
    profiles: dict[str, Profile] = {}
    for name, record in _read_json(path).items():
        if not isinstance(record, dict):
            raise ProfileError(path, name, "must be an object")
        prefix = f"{name}."
        speedup = _field(path, record, "sim_speedup", float, prefix)
        replicas = {}
        for type, entry in _field(path, record, "gpu_profiles", dict, prefix).items():
            where = f"{prefix}gpu_profiles.{type}."
            throughput = speedup * _field(path, entry, "throughput", float, where)
            replicas[OTHER_NAMES.get(type, type)] = (_field(path, entry, "min_gpus", int, where), throughput)
        work = _field(path, record, "num_iters", float, prefix)
        try:
            profiles[name] = ReplicaProfile(name, SINGLE_PHASE_RESTART_SECONDS, work, replicas, MAX_REPLICAS)
        except ValueError as error:
            raise ProfileError(path, name, str(error)) from None
    return profiles
