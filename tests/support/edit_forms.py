"""The same requests by singular and by bulk verbs, and whether two programs are the same."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from scipy.sparse import csc_array

from copter import ContinualProgram, LogTerm
from support.numpy_twins import INF
from support.strategies import coefficients, costs, relations, scales, sizes, totals, uppers

ROWS = ["cpu", "link"]


TERMS = st.sampled_from([None, LogTerm(1.0, 1.0), LogTerm(2.0, 0.5, image=3.0)])


def vectors(n, entries):
    return st.lists(entries, min_size=n, max_size=n)


@st.composite
def requests(draw, n=None):
    """Arguments of add_request, but for the id."""
    n = draw(sizes) if n is None else n
    total = draw(totals)
    columns = st.dictionaries(st.integers(0, n - 1), costs, max_size=2)
    return {
        "costs": draw(vectors(n, costs)),
        "usage": {row: draw(vectors(n, coefficients)) for row in ROWS},
        "total": total,
        "relation": "<=" if total is None else draw(relations),
        "upper": draw(st.one_of(uppers, vectors(n, uppers))),
        "scale": draw(scales),
        "override": draw(columns),
        "integral": draw(st.booleans()),
        "start": draw(st.one_of(st.none(), columns)),
        "term": draw(TERMS),
    }


def empty() -> ContinualProgram:
    program = ContinualProgram()
    program.add_resources(ROWS, upper=[8.0, INF], lower=[-INF, -20.0])
    return program


def matrix(requests):
    return csc_array(np.hstack([np.array([r["usage"][row] for row in ROWS]) for r in requests]))


def bulk(requests, form):
    """Arguments of add_requests that say the same."""
    given = {name: [r[name] for r in requests] for name in ("costs", "upper", "usage")}
    given |= {
        f"{name}s": [r[name] for r in requests] for name in ("total", "scale", "override", "start", "term")
    }
    given |= {"relation": [r["relation"] for r in requests], "integral": [r["integral"] for r in requests]}
    if form == "parts":
        return given | {"sizes": None}
    widths = [len(r["costs"]) for r in requests]
    given |= {"costs": np.concatenate(given["costs"]), "sizes": np.array(widths)}
    given |= {"usage": matrix(requests), "overrides": flat(given["overrides"])}
    pairs = zip(given["upper"], widths, strict=True)
    given["upper"] = np.concatenate([np.broadcast_to(own, n) for own, n in pairs])
    if None not in given["starts"]:
        given["starts"] = flat(given["starts"])
    return given


def same(one: ContinualProgram, other: ContinualProgram) -> None:
    assert one.request_ids == other.request_ids and one.resource_ids == other.resource_ids
    a, b = (vars(program.requests[:]) for program in (one, other))
    for name in ("costs", "sizes", "scales", "integral"):
        np.testing.assert_array_equal(a[name], b[name])
    for name in ("totals", "relation", "starts"):
        assert a[name] == b[name]
    for id in one.request_ids:
        assert one.requests[id].override == other.requests[id].override
        assert one.requests[id].costs.tolist() == other.requests[id].costs.tolist()
        assert one.requests[id].upper.tolist() == other.requests[id].upper.tolist()
        terms = one.requests[id].term, other.requests[id].term
        assert [t and t.parameters for t in terms[:1]] == [t and t.parameters for t in terms[1:]]
        assert [t and t.image for t in terms[:1]] == [t and t.image for t in terms[1:]]
    np.testing.assert_array_equal(a["usage"].toarray(), b["usage"].toarray())
    assert [one.resources[row] for row in ROWS] == [other.resources[row] for row in ROWS]


def flat(mappings):
    keys = [column for own in mappings for column in own]
    values = [value for own in mappings for value in own.values()]
    return np.array([len(own) for own in mappings]), np.array(keys, np.int64), np.array(values, np.float64)
