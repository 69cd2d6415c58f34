"""Encoding of values as bytes, without pickle: ids, edits, arrays, states of solvers.

The first line is JSON. A value that JSON cannot express is an object with one key, the name of its form, for
example ``{"tuple": [1, 2]}``. The numbers of arrays follow the line, one array after the other,
little-endian: ``{"array": ["<f8", [3, 2]]}`` refers to the next array. (``numpy.save`` would write a header
for each array, which takes ten times as long for the short arrays of an edit.)

Reading builds plain values and arrays, and does not run code that the bytes name. A convex term is written as
the name of its class, its image and its parameters. The reader must know the class.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from copter.errors import CopterError, EditError
from copter.terms.convex import ConvexTerm, LogTerm, make_term

_DEEPEST = 24
"""Largest depth of nesting of an id or another value."""
_PLAIN = frozenset((str, int, float, bool, type(None)))
_DTYPES = frozenset(("<f8", "<i8", "<i4", "|b1", "|i1", "<f4", "<i2", "<u8", "<u4", "<u2", "|u1", "<f2"))


class ValueFormatError(ValueError):
    """A value cannot be encoded, or bytes cannot be decoded; callers raise an error with the file or id."""


def term_name(kind: type[ConvexTerm]) -> str:
    """Return the name with which a class of terms is written."""
    return kind.__qualname__


def term_classes(known: Iterable[type[ConvexTerm]]) -> dict[str, type[ConvexTerm]]:
    """Return copter's and other classes of terms by name; raise CopterError if two classes have one name."""
    classes: dict[str, type[ConvexTerm]] = {}
    every: list[type[ConvexTerm]] = [LogTerm, *known]
    for kind in every:
        if classes.setdefault(term_name(kind), kind) is not kind:
            why = "is the name of several classes; files need distinct names"
            raise CopterError(f"terms: {term_name(kind)} {why}")
    return classes


def plain_ids(ids: Iterable[Hashable], field: str = "id") -> list[Any]:
    """Return ids as equal plain Python values; raise EditError with an id that cannot be written.

    The error names `field`. Ids are str, int, float, bool, bytes, None, numpy numbers, and tuples of these.
    """
    plain = []
    for id in ids:
        try:
            plain.append(_plain_id(id, 0))
        except ValueFormatError as why:
            raise EditError(id, field, id, str(why)) from None
    return plain


def _plain_id(id: Any, depth: int) -> Any:
    kind = type(id)
    if kind is str or kind is int or kind is bool or id is None or kind is bytes:
        return id
    if kind is tuple:
        if depth == _DEEPEST:
            raise ValueFormatError(f"must be nested at most {_DEEPEST} deep")
        return tuple(_plain_id(part, depth + 1) for part in id)
    if isinstance(id, np.generic):
        id = id.item()
        kind = type(id)
        if kind in (str, int, bool, bytes):
            return id
    if kind is float:
        if math.isnan(id):
            raise ValueFormatError("must not be NaN, because NaN does not equal itself")
        return id
    allowed = "str, int, float, bool, bytes, None or a tuple of them"
    raise ValueFormatError(
        f"an id of type {kind.__qualname__} cannot be written to a file; it must be {allowed}"
    )


# ---- writing -----------------------------------------------------------------------------------------


def encode(value: Any) -> bytes:
    """Return the bytes of a value; raise ValueFormatError if it cannot be written."""
    arrays: list[bytes] = []
    try:
        text = json.dumps(_form(value, arrays, 0), ensure_ascii=False, separators=(",", ":"))
    except ValueError as wrong:  # an integer with more digits than Python converts
        raise ValueFormatError(str(wrong)) from None
    return b"".join((text.encode("utf-8", "surrogatepass"), b"\n", *arrays))


def _form(value: Any, arrays: list[bytes], depth: int) -> Any:
    """Return the JSON form of a value, and append the bytes of its arrays."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if depth > _DEEPEST:
        raise ValueFormatError(f"values must be nested at most {_DEEPEST} deep")
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "O":
            return _form(value.tolist(), arrays, depth)
        array = value.astype(value.dtype.newbyteorder("<"), order="C", copy=False)
        if array.dtype.str not in _DTYPES:
            raise ValueFormatError(f"an array of {array.dtype} cannot be written")
        arrays.append(array.tobytes())
        return {"array": [array.dtype.str, list(array.shape)]}
    if isinstance(value, list):
        if set(map(type, value)) <= _PLAIN:
            return value
        return [_form(one, arrays, depth + 1) for one in value]
    if isinstance(value, tuple):
        return {"tuple": [_form(one, arrays, depth + 1) for one in value]}
    if isinstance(value, Mapping):
        return {"dict": [_form(one, arrays, depth + 1) for pair in value.items() for one in pair]}
    if kind is bytes:
        return {"bytes": value.hex()}
    if kind is range:
        return {"range": [value.start, value.stop, value.step]}
    if isinstance(value, ConvexTerm):
        parts = [term_name(kind), value.image, dict(value.parameters)]
        return {"term": [_form(part, arrays, depth + 1) for part in parts]}
    if isinstance(value, np.generic) and type(plain := value.item()) in _PLAIN:
        return plain
    raise ValueFormatError(f"a {kind.__qualname__} cannot be written")


# ---- reading -----------------------------------------------------------------------------------------


def decode(content: bytes, terms: Mapping[str, type[ConvexTerm]] | None = None) -> Any:
    """Return the value that was encoded.

    `terms` has the classes of terms by name (:func:`term_classes`); the default is copter's classes. Raise
    ValueFormatError if the bytes are not an encoded value, or have a term of an unknown class.
    """
    end = content.find(b"\n")
    reader = _Reader(content, end + 1, term_classes(()) if terms is None else terms)
    try:
        value = reader.value(json.loads(content[: max(end, 0)].decode("utf-8", "surrogatepass")))
    except RecursionError:
        raise ValueFormatError("values are nested too deeply") from None
    except (ValueError, TypeError, KeyError, OverflowError, MemoryError) as wrong:
        if isinstance(wrong, ValueFormatError):
            raise
        raise ValueFormatError(f"the bytes are not an encoded value: {wrong}") from None
    if reader.at != len(content):
        raise ValueFormatError("there are bytes after the value")
    return value


class _Reader:
    """Decoder of forms; arrays are read in the order in which they were written."""

    def __init__(self, content: bytes, at: int, terms: Mapping[str, type[ConvexTerm]]) -> None:
        self.content, self.at, self.terms = content, at, terms

    def value(self, form: Any) -> Any:
        if isinstance(form, list):
            if set(map(type, form)) <= _PLAIN:
                return form
            return [self.value(one) for one in form]
        if not isinstance(form, dict):
            return form
        ((name, inner),) = form.items()
        match name:
            case "array":
                return self.array(*inner)
            case "tuple":
                return tuple(self.value(one) for one in inner)
            case "dict":
                parts = [self.value(one) for one in inner]
                return dict(zip(parts[::2], parts[1::2], strict=True))
            case "bytes":
                return bytes.fromhex(inner)
            case "range":
                return range(*inner)
            case "term":
                return self.term(*(self.value(one) for one in inner))
        raise ValueFormatError(f"there is no form {name!r}")

    def array(self, dtype: str, shape: list[int]) -> NDArray[Any]:
        if dtype not in _DTYPES or not all(type(length) is int and length >= 0 for length in shape):
            raise ValueFormatError("the type or shape of an array is invalid")
        begin, size = self.at, math.prod(shape)
        self.at += size * np.dtype(dtype).itemsize
        if self.at > len(self.content):
            raise ValueFormatError("the bytes end inside an array")
        numbers = np.frombuffer(self.content, dtype, size, begin) if size else np.empty(0, dtype)
        return numbers.reshape(shape).copy()

    def term(self, name: str, image: Any, parameters: Any) -> ConvexTerm:
        if not isinstance(name, str) or not isinstance(parameters, dict):
            raise ValueFormatError("the name or the parameters of a convex term are invalid")
        if name not in self.terms:
            raise ValueFormatError(f"a convex term has the class {name}; give this class in `terms`")
        return make_term(self.terms[name], image, parameters)
