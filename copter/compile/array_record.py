"""Records of arrays that kernels read through one pointer.

numba hands a named tuple of 21 arrays over as 147 numbers, again to each kernel that another one calls: most
of what such a kernel takes to compile, and of a short call.  Of an :class:`ArrayRecord` a kernel gets the
address of a table with the data and the length of each array, and reads what it uses.
"""

from __future__ import annotations

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
    """Base of frozen dataclasses of arrays, one-dimensional and without gaps, that kernels take as they are.

    ``record.name`` means the same in a kernel as in Python, for arrays; other fields are for Python alone.
    A kernel returns none of the arrays themselves, nor a part of one: they belong to the record.
    """

    _names: ClassVar[tuple[str, ...]]

    def __init_subclass__(cls) -> None:
        kinds = cls.__annotations__.items()
        cls._names = tuple(name for name, kind in kinds if "ndarray" in str(kind).lower())

    @cached_property
    def _numba_type_(self) -> _RecordType:
        """Type that numba's dispatcher reads before it asks ``typeof_impl``, and 1.2 us faster.

        Arrays with gaps can be refused here, and not while a kernel begins.
        """
        arrays = [getattr(self, name) for name in self._names]
        for name, array in zip(self._names, arrays, strict=True):
            if array.ndim != 1 or not array.flags.c_contiguous:
                raise TypeError(f"{type(self).__name__}.{name}: {array.ndim}-dimensional or with gaps")
        return _type_of(type(self).__name__, self._names, tuple(array.dtype for array in arrays))

    @cached_property
    def _table(self) -> NDArray[np.int64]:
        """(data, length) of each array."""
        words = []
        for name in self._names:
            array = getattr(self, name)
            words += [array.__array_interface__["data"][0], array.size]
        return np.array(words)

    @cached_property
    def _address(self) -> int:
        return int(self._table.__array_interface__["data"][0])

    @cached_property
    def longest(self) -> int:
        """Elements of the longest array."""
        return int(self._table[1::2].max())

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}  # type: ignore[arg-type]  # a subclass is one


class _RecordType(types.Type):
    """What numba knows of a record: the types of its arrays."""

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
    """The array of a name: read once, wherever it stands in a loop, as nobody writes to the table."""

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
