"""The backends by name."""

from __future__ import annotations

import os
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any

from copter.errors import choices
from copter.live.backends.base import Backend, BackendSettingError
from copter.live.files import ClusterFile
from copter.live.folder import service_id

BACKENDS = ("local", "ray")


def make_backend(name: str, folder: Path, cluster: ClusterFile) -> Backend:
    """Make a backend for a service's folder and cluster.

    Parameters
    ----------
    name : str
        One of :data:`BACKENDS`.
    folder : Path
        Folder of the service.
    cluster : ClusterFile
        Description of the nodes and the backend's options.

    Raises
    ------
    BackendSettingError
        If there is no such backend, or it has no such option.
    BackendError
        If the backend does not answer.
    """
    if name == "local":
        from copter.live.backends.local import LocalBackend, visible_devices

        check_devices(cluster, visible_devices())
        return _made(LocalBackend, name, cluster, folder)
    if name == "ray":
        from copter.live.backends.on_ray import RayBackend

        return _made(RayBackend, name, cluster, service_id(folder), cluster.hosts)
    raise BackendSettingError(f"backend = {name!r}: must be one of {', '.join(BACKENDS)}")


def check_devices(cluster: ClusterFile, visible: list[str] | None) -> None:
    """Raise BackendSettingError if this process may see fewer GPUs than the cluster has."""
    gpus = sum(one.nodes * one.gpus_per_node for one in cluster.gpus)
    if visible is not None and len(visible) < gpus:
        text = os.environ["CUDA_VISIBLE_DEVICES"]
        raise BackendSettingError(
            f"CUDA_VISIBLE_DEVICES = {text!r}: must list at least the {gpus} GPUs of the cluster's file, not"
            f" {len(visible)}; unset it if the GPUs are simulated"
        )


def _made(make: Callable[..., Backend], name: str, cluster: ClusterFile, *arguments: Any) -> Backend:
    """Make a backend with the options of the cluster's file."""
    known = [one.name for one in signature(make).parameters.values() if one.kind is one.KEYWORD_ONLY]
    for option in cluster.options:
        if option not in known:
            why = f"has no {option!r}: {choices(option, known)}" if known else "takes no options"
            raise BackendSettingError(f"options: backend {name!r} {why}")
    return make(*arguments, **cluster.options)
