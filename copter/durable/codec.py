"""Values as bytes: ids, arguments of verbs, arrays; for snapshots, journals and recordings.

A value is a tag and its content, little-endian, nothing else: reading one builds plain values and arrays and
runs no code that the bytes name.  Numbers of numpy are written as Python's, what numpy can make an array of
as that array, and sparse matrices as compressed columns, the form in which the program takes them.

Terms are written by the name of their class, with image and parameters; a reader must know the class.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from copter.errors import CopterError
from copter.program.handles import Handle, SharedColumns, SharedCosts
from copter.terms.convex import ConvexTerm, LogTerm

DEEPEST = 24
"""Values within values."""
_DTYPES = ("f8", "i8", "i4", "b1", "i1", "f4", "i2", "u8", "u4", "u2", "u1", "f2")
_WHOLE, _REAL, _COUNT = struct.Struct("<q"), struct.Struct("<d"), struct.Struct("<Q")
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1
_SPARSE = frozenset(("bsr", "coo", "csc", "csr", "dia", "dok", "lil"))


class CodecError(ValueError):
    """A value that cannot be written, or bytes that are none."""


def term_name(kind: type[ConvexTerm]) -> str:
    """Name by which a class of terms is written."""
    return kind.__qualname__


def term_classes(known: Iterable[type[ConvexTerm]]) -> dict[str, type[ConvexTerm]]:
    """Classes of terms by name: copter's, and those that the caller knows.

    Raises
    ------
    CopterError
        Two have the same name.
    """
    classes: dict[str, type[ConvexTerm]] = {}
    every: list[type[ConvexTerm]] = [LogTerm, *known]
    for kind in every:
        if classes.setdefault(term_name(kind), kind) is not kind:
            why = "is the name of several classes, and files know them by nothing else"
            raise CopterError(f"terms: {term_name(kind)} {why}")
    return classes


def make_term(kind: type[ConvexTerm], image: Any, parameters: Mapping[str, float]) -> ConvexTerm:
    """A term of a class from what every term is made up of, whatever the class's constructor wants.

    Parameters
    ----------
    kind : type
        Class of the term, a ConvexTerm.
    image : float or (n,) ndarray
    parameters : mapping of str to float
    """
    term = kind.__new__(kind)
    ConvexTerm.__init__(term, image, **parameters)
    return term


# ---- ids ---------------------------------------------------------------------------------------------


def id_value(id: Any, depth: int = 0) -> Any:
    """An id as plain Python values that equal it; a CodecError for an id that cannot be written.

    Ids are str, int, float, bool, bytes, None, numpy's numbers, and tuples of these.
    """
    kind = type(id)
    if kind is str or kind is int or kind is bool or id is None or kind is bytes:
        return id
    if kind is tuple:
        if depth == DEEPEST:
            raise CodecError(f"is nested more than {DEEPEST} deep")
        return tuple(id_value(part, depth + 1) for part in id)
    if isinstance(id, np.generic):
        id = id.item()
        kind = type(id)
        if kind in (str, int, bool, bytes):
            return id
    if kind is float:
        if math.isnan(id):
            raise CodecError("NaN equals nothing, so it names nothing in a copy")
        return id
    allowed = "str, int, float, bool, bytes, None and tuples of them"
    raise CodecError(f"an id of type {kind.__qualname__} cannot be written to a file, only {allowed}")


# ---- writing -----------------------------------------------------------------------------------------


def encode(value: Any) -> bytes:
    """Bytes of a value.

    Raises
    ------
    CodecError
        It is nothing that can be written.
    """
    parts: list[bytes] = []
    _put(value, parts, 0)
    return b"".join(parts)


def _put(value: Any, parts: list[bytes], depth: int) -> None:  # noqa: C901 - a branch a type
    if depth > DEEPEST:
        raise CodecError(f"values are nested more than {DEEPEST} deep")
    if value is None or value is False or value is True:
        parts.append(b"N" if value is None else b"T" if value else b"F")
    elif isinstance(value, np.ndarray):
        _put_array(value, parts, depth)
    elif isinstance(value, np.generic):
        _put(_plain_number(value), parts, depth)
    elif isinstance(value, int):
        _put_int(int(value), parts)
    elif isinstance(value, float):
        parts += b"f", _REAL.pack(value)
    elif isinstance(value, str):
        _put_sized(b"s", _utf8(str(value)), parts)
    elif isinstance(value, (bytes, bytearray)):
        _put_sized(b"b", bytes(value), parts)
    elif isinstance(value, Handle):
        parts.append(b"m" if isinstance(value, SharedColumns) else b"v")
        for field in (value.slot, value.n_columns, value.birth, value.key):
            parts.append(_WHOLE.pack(field))
    elif isinstance(value, ConvexTerm):
        parts.append(b"x")
        for part in (term_name(type(value)), value.image, dict(value.parameters)):
            _put(part, parts, depth + 1)
    elif isinstance(value, range):
        parts.append(b"r")
        for end in (value.start, value.stop, value.step):
            _put_int(end, parts)
    elif isinstance(value, list):
        _put_list(value, parts, depth)
    elif isinstance(value, tuple):
        _put_items(b"t", value, parts, depth)
    elif isinstance(value, Mapping):
        parts += b"d", _COUNT.pack(len(value))
        for key, item in value.items():
            _put(key, parts, depth + 1)
            _put(item, parts, depth + 1)
    else:
        _put_other(value, parts, depth)


def _put_other(value: Any, parts: list[bytes], depth: int) -> None:
    if getattr(value, "format", None) in _SPARSE and hasattr(value, "tocsc"):
        from scipy.sparse import csc_array, csc_matrix

        matrix = value if isinstance(value, (csc_array, csc_matrix)) else csc_array(value)
        parts.append(b"c")
        for part in (*matrix.shape, matrix.indptr, matrix.indices, matrix.data):
            _put(part, parts, depth + 1)
    elif isinstance(value, Real):
        parts += b"f", _REAL.pack(float(value))
    elif hasattr(value, "__array__"):
        _put_array(np.asarray(value), parts, depth)
    elif isinstance(value, Sequence):
        _put_list(list(value), parts, depth)
    else:
        raise CodecError(f"a {type(value).__qualname__} cannot be written")


def _plain_number(value: Any) -> Any:
    plain = value.item()
    if isinstance(plain, np.generic):  # a float longer than Python's
        plain = float(plain)
    if isinstance(plain, (bool, int, float, str, bytes)):
        return plain
    raise CodecError(f"a {type(value).__qualname__} cannot be written")


def _put_int(value: int, parts: list[bytes]) -> None:
    if _SMALLEST <= value <= _LARGEST:
        parts += b"i", _WHOLE.pack(value)
    else:
        _put_sized(b"I", value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True), parts)


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _put_sized(tag: bytes, content: bytes, parts: list[bytes]) -> None:
    parts += tag, _COUNT.pack(len(content)), content


def _put_items(tag: bytes, values: Sequence[Any], parts: list[bytes], depth: int) -> None:
    parts += tag, _COUNT.pack(len(values))
    for value in values:
        _put(value, parts, depth + 1)


def _put_list(values: list[Any], parts: list[bytes], depth: int) -> None:
    """A list; of one type it is written, and read, at once."""
    kinds = set(map(type, values))
    if kinds == {float}:
        _put_sized(b"D", np.array(values, "<f8").tobytes(), parts)
    elif kinds == {str}:
        texts = [_utf8(value) for value in values]
        parts.append(b"S")
        for content in (np.array([len(text) for text in texts], "<i8").tobytes(), b"".join(texts)):
            parts += _COUNT.pack(len(content)), content
    elif kinds == {int} and _SMALLEST <= min(values) and max(values) <= _LARGEST:
        _put_sized(b"Q", np.array(values, "<i8").tobytes(), parts)
    else:
        _put_items(b"l", values, parts, depth)


def _put_array(array: NDArray[Any], parts: list[bytes], depth: int) -> None:
    if array.dtype.kind in "OUS":
        _put_list(array.tolist(), parts, depth) if array.ndim else _put(array.item(), parts, depth)
        return
    if array.dtype.str[1:] not in _DTYPES:
        if array.dtype.kind != "f":
            raise CodecError(f"an array of {array.dtype} cannot be written")
        array = array.astype(np.float64)
    dtype = array.dtype.str[1:]
    parts += b"a", bytes((_DTYPES.index(dtype), array.ndim))
    parts += [_COUNT.pack(length) for length in array.shape]
    parts.append(array.astype(f"<{dtype}", order="C", copy=False).tobytes())


# ---- reading -----------------------------------------------------------------------------------------


def decode(content: bytes | memoryview, terms: Mapping[str, type[ConvexTerm]] | None = None) -> Any:
    """The value that bytes stand for, all of them.

    Parameters
    ----------
    terms : mapping, optional
        Classes of terms by name (:func:`term_classes`); by default copter's own.

    Raises
    ------
    CodecError
        They stand for none, or for a term of an unknown class.
    """
    reader = _Reader(memoryview(content), term_classes(()) if terms is None else terms)
    value = reader.value(0)
    if reader.at != len(reader.content):
        raise CodecError("there are bytes left over")
    return value


class _Reader:
    """Reads values one after the other."""

    def __init__(self, content: memoryview, terms: Mapping[str, type[ConvexTerm]]) -> None:
        self.content, self.terms, self.at = content, terms, 0

    def take(self, length: int) -> memoryview:
        if length > len(self.content) - self.at:
            raise CodecError("the bytes end early")
        self.at += length
        return self.content[self.at - length : self.at]

    def count(self) -> int:
        return int(_COUNT.unpack(self.take(8))[0])

    def value(self, depth: int) -> Any:
        if depth > DEEPEST:
            raise CodecError("values are nested too deep")
        tag = bytes(self.take(1))
        read = _READERS.get(tag)
        if read is None:
            raise CodecError(f"no value begins with {tag!r}")
        return read(self, depth + 1)

    def items(self, depth: int) -> list[Any]:
        count = self.count()
        if count > len(self.content) - self.at:
            raise CodecError("the bytes end early")
        return [self.value(depth) for _ in range(count)]

    def text(self) -> str:
        try:
            return str(self.take(self.count()), "utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise CodecError("a text is not UTF-8") from None

    def numbers(self, dtype: str) -> NDArray[Any]:
        content = self.take(self.count())
        if len(content) % 8:
            raise CodecError("a list ends within a number")
        return np.frombuffer(content, dtype)

    def texts(self) -> list[str]:
        lengths, flat = self.numbers("<i8"), self.take(self.count())
        if (
            lengths.size
            and (lengths.min() < 0 or lengths.max() > len(flat))
            or int(lengths.sum()) != len(flat)
        ):
            raise CodecError("lengths of texts do not fit")
        ends = np.cumsum(lengths).tolist()
        try:
            found = str(flat, "utf-8", "surrogatepass")
            if len(found) == len(flat):  # plain ASCII: one conversion for all
                return [found[a:b] for a, b in zip([0, *ends], ends, strict=False)]
            return [str(flat[a:b], "utf-8", "surrogatepass") for a, b in zip([0, *ends], ends, strict=False)]
        except UnicodeDecodeError:
            raise CodecError("a text is not UTF-8") from None

    def array(self) -> NDArray[Any]:
        code, ndim = self.take(2)
        if code >= len(_DTYPES) or ndim > 2:
            raise CodecError("no such array")
        shape = [self.count() for _ in range(ndim)]
        dtype = np.dtype("<" + _DTYPES[code])
        content = self.take(math.prod(shape) * dtype.itemsize)
        if max(shape, default=0) > _LARGEST:  # beside a length of 0
            raise CodecError("no such array")
        return np.frombuffer(content, dtype).reshape(shape).copy()

    def mapping(self, depth: int) -> dict[Any, Any]:
        count = self.count()
        if count > len(self.content) - self.at:
            raise CodecError("the bytes end early")
        found = {}
        for _ in range(count):
            key = self.value(depth)
            try:
                found[key] = self.value(depth)
            except TypeError:
                raise CodecError("a key is not hashable") from None
        return found

    def ints(self, depth: int, count: int) -> list[int]:
        values = [self.value(depth) for _ in range(count)]
        if not all(type(value) is int for value in values):
            raise CodecError("a whole number is none")
        return values

    def sparse(self, depth: int) -> Any:
        from scipy.sparse import csc_array

        shape = self.ints(depth, 2)
        indptr, indices, data = (self.value(depth) for _ in range(3))
        try:
            return csc_array((data, indices, indptr), shape=tuple(shape))
        except (ValueError, TypeError, IndexError, OverflowError, AttributeError):
            raise CodecError("no such sparse matrix") from None

    def range(self, depth: int) -> range:
        start, stop, step = self.ints(depth, 3)
        if not step:
            raise CodecError("a range has no step")
        return range(start, stop, step)

    def handle(self, kind: type[Handle]) -> Handle:
        return kind(*(int(_WHOLE.unpack(self.take(8))[0]) for _ in range(4)))

    def term(self, depth: int) -> ConvexTerm:
        name, image, parameters = (self.value(depth) for _ in range(3))
        if not isinstance(name, str) or not isinstance(parameters, dict):
            raise CodecError("no such term")
        if name not in self.terms:
            raise CodecError(f"a term is of the class {name}: name it in `terms`")
        try:
            return make_term(self.terms[name], image, parameters)
        except (TypeError, ValueError):
            raise CodecError("no such term") from None


_READERS: dict[bytes, Any] = {
    b"N": lambda reader, depth: None,
    b"T": lambda reader, depth: True,
    b"F": lambda reader, depth: False,
    b"i": lambda reader, depth: _WHOLE.unpack(reader.take(8))[0],
    b"I": lambda reader, depth: int.from_bytes(reader.take(reader.count()), "little", signed=True),
    b"f": lambda reader, depth: _REAL.unpack(reader.take(8))[0],
    b"s": lambda reader, depth: reader.text(),
    b"b": lambda reader, depth: bytes(reader.take(reader.count())),
    b"t": lambda reader, depth: tuple(reader.items(depth)),
    b"l": lambda reader, depth: reader.items(depth),
    b"D": lambda reader, depth: reader.numbers("<f8").tolist(),
    b"Q": lambda reader, depth: reader.numbers("<i8").tolist(),
    b"S": lambda reader, depth: reader.texts(),
    b"d": lambda reader, depth: reader.mapping(depth),
    b"a": lambda reader, depth: reader.array(),
    b"c": lambda reader, depth: reader.sparse(depth),
    b"r": lambda reader, depth: reader.range(depth),
    b"m": lambda reader, depth: reader.handle(SharedColumns),
    b"v": lambda reader, depth: reader.handle(SharedCosts),
    b"x": lambda reader, depth: reader.term(depth),
}
