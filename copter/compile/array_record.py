"""Records of arrays that kernels read through one pointer.

numba passes a named tuple of 21 arrays as 147 numbers, also between kernels. This takes most of the compile
time of such kernels, and most of the time of a short call. For an :class:`ArrayRecord` a kernel gets one
address, of a table with the data pointer and the length of each array, and reads the arrays that it uses.
"""

from __future__ import annotations

from ctypes import addressof, c_char
from dataclasses import fields
from functools import cache, cached_property
from typing import Any, ClassVar

import numpy as np
from llvmlite import ir
from numba import from_dtype, types
from numba.core.typing.templates import AttributeTemplate
from numba.extending import NativeValue, infer_getattr, lower_getattr_generic, models, register_model, unbox
from numba.np.arrayobj import make_array, populate_array
from numpy.typing import NDArray

_WORD = ir.IntType(64)


class ArrayRecord:
    """Base class of frozen dataclasses with one-dimensional contiguous arrays that kernels take as arguments.

    In a kernel ``record.name`` is the array, as in Python. Fields that are not arrays cannot be read in
    kernels. A kernel must not return an array of the record, or a part of one, because the record owns it.
    """

    _names: ClassVar[tuple[str, ...]]

    def __init_subclass__(cls) -> None:
        kinds = cls.__annotations__.items()
        cls._names = tuple(name for name, kind in kinds if "ndarray" in str(kind).lower())

    @cached_property
    def _numba_type_(self) -> _RecordType:
        """Type of the record; numba's dispatcher reads it faster than ``typeof_impl``, by 1.2 microseconds.

        Arrays that are not contiguous are rejected here, before a kernel is called.
        """
        arrays = [getattr(self, name) for name in self._names]
        for name, array in zip(self._names, arrays, strict=True):
            if array.ndim != 1 or not array.flags.c_contiguous:
                given = f"{array.ndim}-dimensional with strides {array.strides}"
                raise TypeError(
                    f"{type(self).__name__}.{name}: is {given}: must be one-dimensional and contiguous"
                )
        return _type_of(type(self).__name__, self._names, tuple(array.dtype for array in arrays))

    @cached_property
    def _table(self) -> NDArray[np.int64]:
        """Data pointer and length of each array, as a flat array."""
        words = []
        for name in self._names:
            array = getattr(self, name)
            words += [_address_of(array), array.size]
        return np.array(words)

    @cached_property
    def _address(self) -> int:
        return _address_of(self._table)

    @cached_property
    def longest(self) -> int:
        """Number of elements of the longest array."""
        return int(self._table[1::2].max())

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}  # type: ignore[arg-type]  # a subclass is one


def _address_of(array: NDArray[Any]) -> int:
    """Return the address of an array's data; by the buffer where possible, which is the fastest way."""
    if array.size and array.flags.writeable:
        return addressof(c_char.from_buffer(array.data))
    return int(array.__array_interface__["data"][0])


class _RecordType(types.Type):
    """Type of a record for numba, with the types of its arrays."""

    def __init__(self, name: str, arrays: dict[str, Any]) -> None:
        self.arrays = arrays
        self.place = {each: 2 * place for place, each in enumerate(arrays)}
        super().__init__(f"{name}({', '.join(f'{each}: {of}' for each, of in arrays.items())})")


@cache
def _type_of(kind: str, names: tuple[str, ...], dtypes: tuple[np.dtype[Any], ...]) -> _RecordType:
    pairs = zip(names, dtypes, strict=True)
    return _RecordType(kind, {name: types.Array(from_dtype(dtype), 1, "C") for name, dtype in pairs})


@register_model(_RecordType)
class _RecordModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: _RecordType) -> None:
        super().__init__(manager, kind, _WORD.as_pointer())


@infer_getattr
class _RecordAttributes(AttributeTemplate):
    key = _RecordType

    def generic_resolve(self, kind: Any, name: Any) -> Any:  # type: ignore[override]
        return kind.arrays.get(name)


@lower_getattr_generic(_RecordType)
def _read_array(context: Any, builder: Any, kind: _RecordType, table: Any, name: str) -> Any:
    """Generate code that reads an array of a record; the table is constant, so the read leaves loops."""

    def word(place: int) -> Any:
        loaded = builder.load(builder.gep(table, [ir.Constant(_WORD, place)]))
        loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
        return loaded

    of, place = kind.arrays[name], kind.place[name]
    array = make_array(of)(context, builder)
    size = context.get_abi_sizeof(context.get_data_type(of.dtype))
    item = context.get_constant(types.intp, size)
    data = builder.inttoptr(word(place), array.data.type)
    populate_array(array, data, shape=[word(place + 1)], strides=[item], itemsize=item, meminfo=None)
    return array._getvalue()


@unbox(_RecordType)
def _unbox_record(kind: _RecordType, record: Any, c: Any) -> NativeValue:
    number = c.pyapi.object_getattr_string(record, "_address")
    address = c.pyapi.long_as_longlong(number)
    c.pyapi.decref(number)
    return NativeValue(c.builder.inttoptr(address, _WORD.as_pointer()))
