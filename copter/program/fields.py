"""Fields of requests and resources: the arguments of the edit methods for one and for many of them.

:data:`REQUEST` and :data:`RESOURCE` list the arguments. The edit method for one takes them by their singular
names, and makes the same edit as the method for many with a sequence of one id.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from copter.errors import EditError
from copter.program.forms import KEEP, entries_of, flags_of, terms_of, uppers_of
from copter.program.handles import SharedColumns
from copter.program.validation import is_vector, scales_of


def _same(id: Hashable, field: str, value: Any) -> Any:
    """Return a value that is the same for all ids; raise EditError if it is a sequence."""
    if isinstance(value, (list, tuple, np.ndarray)):
        raise EditError(id, field, value, "must be one value, not several")
    return value


def _run(id: Hashable, field: str, value: Any) -> Any:
    """Return the value for one request in the form for many: an array in a list, or a number as it is."""
    return [value] if is_vector(value) else value


def _each(id: Hashable, field: str, value: Any) -> Any:
    """Return an object for each request."""
    return [value]


def _usage(id: Hashable, field: str, value: Any) -> Any:
    return value if isinstance(value, SharedColumns) else [value]


def _term(id: Hashable, field: str, value: Any) -> Any:
    return {name: [one] for name, one in value.items()} if isinstance(value, Mapping) else [value]


class Field(NamedTuple):
    """Argument of edit methods.

    Attributes
    ----------
    one, many : str
        Name in the edit methods for one request or resource, and for many.
    as_many : callable
        ``as_many(id, one, value)`` returns the value for one id in a form for many.
    keep : object
        Value that leaves the field unchanged in an update: None, or KEEP if None has a meaning.
    needed : bool
        True if new requests or resources must have the field; None is then invalid.
    read : callable, optional
        ``read(label, ids, value, widths)`` returns the field of an edit of requests that have `widths` (k,)
        columns, or raises EditError with the request, the field and the value. None for fields that depend
        on others.
    """

    one: str
    many: str
    as_many: Callable[[Hashable, str, Any], Any]
    keep: Any = None
    needed: bool = False
    read: Callable[..., Any] | None = None


REQUEST = (
    Field("costs", "costs", _run, needed=True),
    Field("sizes", "sizes", _each),
    Field("usage", "usage", _usage, needed=True),
    Field("total", "totals", _same, keep=KEEP),
    Field("relation", "relation", _same, needed=True),
    Field("upper", "upper", _run, needed=True, read=uppers_of),
    Field("scale", "scales", _same, read=scales_of),
    Field("override", "overrides", _each, read=partial(entries_of, "override")),
    Field("integral", "integral", _same, needed=True, read=flags_of),
    Field("start", "starts", _each, read=partial(entries_of, "start")),
    Field("term", "terms", _term, keep=KEEP, read=terms_of),
    Field("columns", "columns", _each),
)
"""Fields of requests."""
RESOURCE = tuple(Field(name, name, _same, needed=True) for name in ("lower", "upper", "by"))
"""Fields of resources: numbers."""
FIELDS = {
    kind: {name: field for field in fields for name in (field.one, field.many)}
    for kind, fields in (("request", REQUEST), ("resource", RESOURCE))
}
"""Fields of each kind by both names."""


def set_fields(
    kind: str, given: Mapping[str, Any], *, new: bool, one: bool, id: Hashable = None
) -> dict[str, Any]:
    """Return the arguments that an edit sets, in the form for many ids.

    Arguments that leave a field unchanged, or a new request without it, are omitted. If `one` is True, the
    arguments `given` have the names and forms for one request or resource, `id`, else those for many.
    """
    found = {}
    fields = FIELDS[kind]
    for name, value in given.items():
        field = fields[name]
        if (new and field.needed) or value is not (None if new else field.keep):
            found[field.many] = field.as_many(id, name, value) if one else value
    return found
