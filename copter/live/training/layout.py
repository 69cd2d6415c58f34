"""Gradients as one flat vector, so that one array is sent, summed and measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Gradient: TypeAlias = ArrayLike | Mapping[str, ArrayLike]
"""An array of any shape, or arrays by name."""


class GradientLayout:
    """Positions of the parts of a gradient in its flat vector; all gradients have the shapes of the first."""

    def __init__(self, gradient: Gradient) -> None:
        self._named = isinstance(gradient, Mapping)
        self._shapes = {name: array.shape for name, array in _arrays(gradient).items()}

    def pack(self, gradient: Gradient) -> NDArray[Any]:
        """Return a gradient's flat vector; single precision if no array has more, else double."""
        arrays = _arrays(gradient)
        shapes = {name: array.shape for name, array in arrays.items()}
        if shapes != self._shapes or isinstance(gradient, Mapping) != self._named:
            raise ValueError(f"gradient = {_words(shapes)}: must be like the first, {_words(self._shapes)}")
        single = all(array.dtype in (np.float32, np.float16) for array in arrays.values())
        parts = [arrays[name].ravel() for name in self._shapes]
        return np.concatenate(parts, dtype=np.float32 if single else np.float64)

    def unpack(self, vector: NDArray[Any]) -> Any:
        """Return the parts of a flat vector in the form of the first gradient, as views."""
        found, start = {}, 0
        for name, shape in self._shapes.items():
            size = int(np.prod(shape))
            found[name] = vector[start : start + size].reshape(shape)
            start += size
        return found if self._named else found[""]


def _arrays(gradient: Gradient) -> dict[str, NDArray[Any]]:
    parts = gradient if isinstance(gradient, Mapping) else {"": gradient}
    return {name: np.asarray(part) for name, part in parts.items()}


def _words(shapes: dict[str, tuple[int, ...]]) -> str:
    return ", ".join(f"{name} {shape}".strip() for name, shape in shapes.items()) or "nothing"
