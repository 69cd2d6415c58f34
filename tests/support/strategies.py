"""Programs for tests: a plain-Python model of the edits, seeded random programs, hypothesis strategies."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from copter import ContinualProgram
from copter.durable.snapshot import store_of
from copter.ray.store import DistributedStore
from copter.store.slabs import GrowableArrays, SlotTable
from copter.store.store import ConstraintStore
from rounds.mirror import Mirror
from rounds.mirror import Request as PlainRequest
from support.numpy_twins import INF, Model

KINDS = ("packing", "mixed", "degenerate", "boxes", "wide", "general")
"""Kinds of random feasible and bounded programs."""


class PlainProgram(Mirror):
    """What a ContinualProgram should hold, in dictionaries: id -> (lower, upper), id -> PlainRequest."""

    def __init__(self, resources: dict | None = None, requests: dict | None = None) -> None:
        super().__init__()
        self.resources = {} if resources is None else resources
        self.requests = {} if requests is None else requests

    def bounded(self, far: float = 1e3) -> PlainProgram:
        """Give columns with neither a bound nor a sum row a bound; return the program."""
        for request in self.requests.values():
            if request.total is None and isinstance(request.upper, list):
                request.upper = [far if np.isinf(bound) else bound for bound in request.upper]
            elif request.total is None and np.isinf(request.upper):
                request.upper = far
        return self

    def model(self) -> Model:
        """The program as matrices."""
        self.bounded()
        return super().model()

    def build(self, program: ContinualProgram | None = None) -> ContinualProgram:
        """A program that holds the same, beside what was there."""
        program = ContinualProgram() if program is None else program
        self.bounded()
        for id, (lower, upper) in self.resources.items():
            program.add_resource(id, upper, lower=lower)
        fields = ("total", "relation", "upper", "scale", "override", "integral")
        for id, r in self.requests.items():
            usage = {i: (list(e), list(e.values())) for i, e in r.usage.items()}
            program.add_request(id, r.costs, usage, **{name: getattr(r, name) for name in fields})
        return program


def snapshot(program: ContinualProgram) -> list:
    """Everything that a program holds, bit by bit."""
    seen: list = [dict(program._requests._slots), dict(program._resources._slots)]
    seen.append({slot: [np.asarray(each).tobytes() for each in own] for slot, own in program._starts.items()})
    return [*seen, *snapshot_of(program.store), list(program._names._of)]


def snapshot_of(store: ConstraintStore) -> list:
    """Everything that a store holds, bit by bit, its parts in this process too."""
    seen: list = [store.clock, store.n_variables, list(store._dropped_rows)]
    if isinstance(store, DistributedStore):
        store.executor.flush()
        seen += [snapshot_of(part) for part in store.executor.map(store_of)]
    for part in vars(store).values():
        if isinstance(part, GrowableArrays):
            seen += [part.used, part.garbage, {n: list(starts) for n, starts in part._free.items() if starts}]
            seen += [getattr(part, name)[: part.used].tobytes() for name in part.names]
        elif isinstance(part, SlotTable):
            seen += [part.size, list(part._free)]
            seen += [getattr(part, name)[: part.size].tobytes() for name in part._fields]
    return seen


# ---- seeded random programs --------------------------------------------------------------------------


def random_plain(rng: np.random.Generator, kind: str) -> PlainProgram:
    """A feasible and bounded program: rows are put around a point, costs around prices."""
    m, k = int(rng.integers(1, 8)), int(rng.integers(1, 10))
    whole = kind in ("degenerate", "packing")
    plain = PlainProgram()
    points, reduced = {}, {}
    for q in range(k):
        n = int(rng.integers(9, 40) if kind == "wide" else rng.integers(1, 11))
        relation = str(rng.choice(["", "<=", "=="]))
        relation = {"packing": "<=", "boxes": "", "general": ""}.get(kind, relation)
        x = rng.integers(0, 3, n) * (rng.random(n) < 0.5) * (1.0 if whole else rng.random(n))
        bound: list[float] | float = INF
        style = "inf" if kind == "packing" else rng.choice(["inf", "scalar", "column", "zero"])
        if style == "scalar":
            bound = float(x.max() + rng.integers(0, 2))
        elif style == "column":
            bound = (x + rng.choice([0.0, 1.0, INF], n)).tolist()
        elif style == "zero":
            shut = rng.random(n) < 0.4
            x[shut] = 0.0
            bound = [0.0 if s else INF for s in shut]
        total = None
        if relation == "==":
            total = float(x.sum())
        elif relation == "<=":
            total = float(x.sum() + rng.integers(0, 2))
        request = PlainRequest([0.0] * n, {}, total, relation or "<=", bound)
        for i in range(m):
            chosen = np.flatnonzero(rng.random(n) < rng.choice([0.0, 0.3, 1.0]))
            sizes = rng.integers(1, 5, chosen.size) * 1.0 if whole else rng.random(chosen.size) + 0.1
            if kind in ("mixed", "general", "degenerate"):
                sizes = sizes * rng.choice([-1.0, 1.0], chosen.size)
            request.usage[f"r{i}"] = dict(zip(chosen.tolist(), sizes.tolist(), strict=True))
        plain.requests[f"q{q}"] = request
        points[f"q{q}"] = x
        r = rng.integers(-2, 4, n) * 1.0 if whole else rng.normal(size=n)
        if total is None:
            r = np.where(np.isinf(request.bounds), abs(r), r)
        reduced[f"q{q}"] = r
    y = np.zeros(m)
    for i in range(m):
        entries = [(q, j, v) for q, r in plain.requests.items() for j, v in r.usage[f"r{i}"].items()]
        activity = float(sum(v * points[q][j] for q, j, v in entries))
        row = "<=" if kind == "packing" else rng.choice(["<=", ">=", "==", "range", "free"])
        above, below = (float(s) for s in rng.integers(0, 3, 2) * (rng.random(2) < 0.6))
        price = float(rng.integers(-2, 3)) if whole else float(rng.normal())
        plain.resources[f"r{i}"] = row_bounds(str(row), activity, below, above)
        y[i] = {"<=": abs(price), ">=": -abs(price), "free": 0.0}.get(str(row), price)
    for q, request in plain.requests.items():
        c = reduced[q].copy()
        for i in range(m):
            for j, v in request.usage[f"r{i}"].items():
                c[j] -= y[i] * v
        request.costs = c.tolist()
    return plain.bounded()


def row_bounds(kind: str, at: float, below: float, above: float) -> tuple[float, float]:
    """Bounds of a row of a kind, around a value."""
    return {
        "<=": (-INF, at + above),
        ">=": (at - below, INF),
        "==": (at, at),
        "range": (at - below, at + above),
        "free": (-INF, INF),
    }[kind]


def make_infeasible(rng: np.random.Generator, plain: PlainProgram) -> str:
    """Make a program infeasible in one of several ways; returns which."""
    way = str(rng.choice(["box", "sum row", "two rows", "three rows", "empty row"]))
    if way == "empty row":
        plain.resources["bad"] = (1.0, 2.0)
    elif way == "sum row":
        plain.requests["bad"] = PlainRequest([1.0, 1.0], {}, 3.0, "==", [1.0, 1.5])
    elif way == "box":
        plain.requests["bad"] = PlainRequest([1.0, -1.0], {"need": {0: 1.0, 1: 2.0}}, None, "<=", 1.0)
        plain.resources["need"] = (3.5, INF)
    elif way == "two rows":
        entries = {j: float(v) for j, v in enumerate(rng.random(4) + 0.2)}
        plain.requests["bad"] = PlainRequest([1.0] * 4, {"most": entries, "least": dict(entries)})
        plain.resources["most"], plain.resources["least"] = (-INF, 1.0), (1.2, INF)
    else:  # x0 <= x1 - 1, x1 <= x2 - 1, x2 <= x0 - 1
        usage = {f"cycle{i}": {i: 1.0, (i + 1) % 3: -1.0} for i in range(3)}
        plain.requests["bad"] = PlainRequest([1.0] * 3, usage)
        plain.resources.update({f"cycle{i}": (-INF, -1.0) for i in range(3)})
    plain.bounded()
    return way


# ---- hypothesis --------------------------------------------------------------------------------------

costs = st.integers(-6, 6).map(lambda v: v / 2)
coefficients = st.sampled_from([1.0, 0.0, 2.0, 0.5, 3.0, -1.0])
capacities = st.integers(0, 12).map(float)
counts = st.integers(0, 4).map(float)
sizes = st.integers(1, 10)
uppers = st.sampled_from([1.0, 2.5, 9.0, 0.0, 4.0])
totals = st.sampled_from([1.0, None, 0.0, 3.0, None, 2.0, 5.0])
relations = st.sampled_from(["<=", "=="])
scales = st.sampled_from([1.0, 0.25, 0.5, 2.0, 3.0])
