"""Random edits: each edit method with each of its options, on a program and on its mirror; some are wrong."""

from __future__ import annotations

import inspect
import math
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from scipy.sparse import csc_array, csr_array

from copter import ContinualProgram, LogTerm
from copter.errors import EditError
from copter.store.store import ConstraintStore
from rounds.judges import require
from rounds.kinds import Draw
from rounds.mirror import KEEP, Log, Mirror, Request
from support.strategies import snapshot

VERBS = (
    "add_resource",
    "add_resources",
    "update_resources",
    "remove_resources",
    "share_columns",
    "forget",
    "reserve",
    "add_request",
    "add_requests",
    "update_request",
    "update_requests",
    "remove_request",
    "remove_requests",
    "price_moves",
    "add_columns",
    "remove_columns",
    "update_columns",
)
"""Edit methods of a program."""
SPOILT = float("nan")


def finite(bound: float) -> float:
    """A bound as it is kept: from 1e20 on it is infinite."""
    return math.inf if bound >= 1e20 else bound


def options_of(verb: str) -> list[str]:
    """Names of the arguments of an edit method."""
    return list(inspect.signature(getattr(ContinualProgram, verb)).parameters)[1:]


def negated(name: str, value: Any) -> Any:
    """An argument as a maximisation takes it: costs in all their forms are negated."""
    if name == "table":
        return value | {"cost": negated("costs", value["cost"])}
    if name not in ("costs", "override", "overrides"):
        return value
    if isinstance(value, tuple):  # counts, columns, costs
        return (*value[:-1], negated(name, value[-1]))
    if isinstance(value, list):
        return [negated(name, each) for each in value]
    if isinstance(value, dict):
        return {column: negated(name, cost) for column, cost in value.items()}
    return 0.0 - value if isinstance(value, float | int | np.ndarray) else value


class Editor:
    """Makes edits of a program and of its mirror.

    Parameters
    ----------
    counts : Counter
        Counts each edit method with each option, and each wrong edit.
    terms : bool
        Whether requests may have convex terms.
    """

    def __init__(
        self, draw: Draw, program: Any, mirror: Mirror, counts: Counter, terms: bool = False
    ) -> None:
        self.draw, self.program, self.mirror, self.counts, self.terms = draw, program, mirror, counts, terms
        self.names = 0
        self.kept, self.rows_kept = (0, 0) if draw.family.whole else (8, 2)

    # ---- calls -----------------------------------------------------------------------------------

    def call(self, verb: str, *arguments: Any, **options: Any) -> Any:
        """Call an edit method and count its options."""
        names = options_of(verb)
        given = dict(zip(names, arguments, strict=False)) | options
        self.counts.update(f"{verb}: {name}" for name in given)
        if self.program.sense == "max":
            self.counts["edit: maximised"] += 1
            arguments = tuple(negated(n, v) for n, v in zip(names, arguments, strict=False))
            options = {name: negated(name, value) for name, value in options.items()}
        return getattr(self.program, verb)(*arguments, **options)

    def name(self, kind: str) -> Hashable:
        """A new id, of one of the kinds that can be saved."""
        self.names += 1
        return self.draw.one([f"{kind}{self.names}", (kind, self.names), self.names])

    def some(self, ids: Any, most: int = 4) -> list[Hashable]:
        """A few different ids."""
        ids = list(ids)
        count = min(len(ids), int(self.draw.rng.integers(1, most + 1)))
        return [ids[i] for i in self.draw.rng.choice(len(ids), count, replace=False)] if ids else []

    # ---- forms of arguments ----------------------------------------------------------------------

    def mapping(self, usage: dict, n: int) -> Any:
        """A usage in one of the forms that a request's own has."""
        form = self.draw.one(["mapping", "mapping", "mapping", "matrix"])
        if form == "matrix":
            return self.matrix([usage], [n])
        given: dict[Hashable, Any] = {}
        for id, entries in usage.items():
            dense = [entries.get(j, 0.0) for j in range(n)]
            ways = ["array", "pair"] + ["scalar"] * (len(set(dense)) == 1)
            way = self.draw.one(ways)
            pair = (list(entries), list(entries.values()))
            given[id] = {"array": np.array(dense), "pair": pair, "scalar": dense[0]}[way]
        return given

    def matrix(self, usages: list[dict], sizes: list[int]) -> Any:
        """Usages of many requests as one sparse matrix."""
        rows = {id: i for i, id in enumerate(self.mirror.resources)}
        dense = np.zeros((len(rows), sum(sizes)))
        begin = 0
        for usage, n in zip(usages, sizes, strict=True):
            for id, entries in usage.items():
                for j, value in entries.items():
                    dense[rows[id], begin + j] = value
            begin += n
        return self.draw.one([csc_array, csr_array])(dense)

    def columns(self, n: int | None = None) -> tuple[Any, Any, dict | Hashable, int]:
        """Usage as given, as the mirror takes it, plainly, and the number of columns."""
        fitting = [h for h, (size, _) in self.mirror.columns.items() if n is None or size == n]
        if fitting and not self.draw.chance(self.draw.family.own):
            handle = self.draw.one(fitting)
            size, plain = self.mirror.columns[handle]
            return handle, handle, plain, size
        n = n or self.draw.width
        plain = self.draw.usage(n, list(self.mirror.resources), self.draw.family.relation != "<=")
        return self.mapping(plain, n), plain, plain, n

    def costs(self, n: int) -> tuple[Any, Any]:
        """Costs as given and as the mirror takes them."""
        costs = self.draw.costs(n)
        return self.draw.one([costs, np.array(costs)]), costs

    def term(self, n: int) -> Log | None:
        """A convex term, or none."""
        if not self.terms or self.draw.chance(0.5):
            return None
        image = self.draw.rng.uniform(0.1, 1.0, n).tolist()
        return Log(self.draw.unit * self.draw.number(0.1, 2.0), self.draw.number(0.1, 1.0), image)

    def fields(self, n: int) -> dict[str, Any]:
        """Fields of a new request, as the mirror takes them."""
        draw, found = self.draw, self.draw.sum_row()
        found["upper"] = draw.upper(n, found["total"])
        if draw.chance(0.5) or draw.family.unit:
            found["scale"] = draw.scale()
        if draw.chance(0.25):
            found["override"] = draw.override(n)
        if draw.chance(0.2):
            found["integral"] = draw.chance(0.5)
        if draw.chance(0.2):
            found["start"] = draw.start(n)
        if self.terms:
            found["term"] = self.term(n)
        if draw.chance(0.25):
            found["columns"] = self.column_names(n)
        return found

    def column_names(self, n: int) -> list[Hashable]:
        """New names of n columns."""
        return [self.name("c") for _ in range(n)]

    @staticmethod
    def given(fields: dict[str, Any], names: list[Hashable] | None = None) -> dict[str, Any]:
        """Fields as a program takes them; `names`: of the columns, if the fields have none."""
        found, request = dict(fields), Request([], {}, columns=fields.get("columns") or names)
        for field in ("override", "start"):
            if field in found:
                found[field] = request.named(found[field])
        if isinstance(found.get("term"), Log):
            found["term"] = LogTerm(found["term"].weight, found["term"].offset, image=found["term"].image)
        return found

    def bulk(
        self, each: list[dict[str, Any]], sizes: list[int], names: list[list[Hashable] | None]
    ) -> dict[str, Any]:
        """The same fields of many requests, in the forms of the plural edit methods.

        `names`: of the columns of each request.
        """
        found: dict[str, Any] = {}
        for name in each[0]:
            plural = name if name in ("upper", "relation", "integral", "columns") else f"{name}s"
            if name in ("override", "start"):
                found[plural] = self.entries([own[name] for own in each], names)
            else:
                found[plural] = self.form(name, [self.given({name: own[name]})[name] for own in each], sizes)
        return found

    def entries(self, values: list[Any], names: list[list[Hashable] | None]) -> Any:
        """Numbers for single columns of many requests in one of their forms."""
        if not any(value is KEEP for value in values) and self.draw.chance(0.5):
            counts = [len(own) for own in values]
            columns = np.array([j for own in values for j in own], np.int64)
            return np.array(counts), columns, np.array([v for own in values for v in own.values()], float)
        requests = [Request([], {}, columns=own) for own in names]
        pairs = zip(requests, values, strict=True)
        return [None if value is KEEP else request.named(value) for request, value in pairs]

    def form(self, name: str, values: list[Any], sizes: list[int]) -> Any:
        """One field of many requests in one of its forms."""
        draw = self.draw
        if name == "upper":
            lists = [
                value if isinstance(value, list) else [value] * n
                for value, n in zip(values, sizes, strict=True)
            ]
            flat = np.array([v for own in lists for v in own])
            return (
                draw.one([values, flat])
                if values != [values[0]] * len(values) or isinstance(values[0], list)
                else draw.one([values, flat, values[0]])
            )
        if name in ("term", "columns"):
            return values
        forms = [values]
        if all(value == values[0] for value in values):
            forms.append(values[0])
        if name in ("scale", "total", "integral") and None not in values:
            forms.append(np.array(values))
        return draw.one(forms)

    # ---- resources -------------------------------------------------------------------------------

    def add_resource(self) -> None:
        id, (lower, upper) = self.name("r"), self.draw.row()
        self.call("add_resource", id, upper, lower=lower)
        self.mirror.resources[id] = (lower, finite(upper))

    def add_resources(self) -> None:
        ids = [self.name("r") for _ in range(int(self.draw.rng.integers(0, 3)))]
        bounds = [self.draw.row() for _ in ids]
        low, high = [b[0] for b in bounds], [b[1] for b in bounds]
        self.call("add_resources", ids, lower=low, upper=np.array(high))
        self.mirror.resources |= {id: (b[0], finite(b[1])) for id, b in zip(ids, bounds, strict=True)}

    def update_resources(self) -> None:
        draw, resources = self.draw, self.mirror.resources
        ids = self.some(resources, 3)
        how = draw.one(["upper", "lower", "both", "by", "by", "little"])
        new = {}
        options: dict[str, Any] = {}
        if how == "by":
            by = [draw.number(-0.2, 0.3) * min(resources[id][1], 1e3) for id in ids]
            for id, change in zip(ids, by, strict=True):
                new[id] = (resources[id][0], resources[id][1] + change)
            options["by"] = np.array(by)
        else:
            for id in ids:
                lower, upper = resources[id]
                drawn = draw.row()
                if how == "little":
                    upper *= float(draw.rng.uniform(0.99, 1.01))
                elif how != "lower":
                    upper = drawn[1]
                if how in ("lower", "both"):
                    lower = draw.one([-math.inf, -draw.number(0.0, 2.0), min(0.05 * upper, 1.0), upper])
                    if lower >= 1e20:
                        lower = 0.0
                new[id] = (min(lower, upper), upper)
            if how != "lower":
                options["upper"] = [new[id][1] for id in ids]
            if how not in ("upper", "little"):
                options["lower"] = [new[id][0] for id in ids]
            else:
                new = {id: (resources[id][0], upper) for id, (_, upper) in new.items()}
        if any(lower > upper or ("by" in options and upper < 0) for lower, upper in new.values()):
            self.refused("update_resources", "crossed", ids, **options)
            return
        if len(ids) == 1 and draw.chance(0.5):
            ids, options = ids[0], {name: float(value[0]) for name, value in options.items()}
            self.call("update_resources", ids, **options)
        else:
            self.call("update_resources", ids, **options)
        if "by" in options:  # decimals are added as fractions, so the last digit may be another one
            for id, (lower, upper) in new.items():
                found = self.program.resources[id].upper
                assert abs(found - upper) <= 1e-12 * max(abs(upper), 1.0) or (found > 1e20 and upper > 1e20)
                new[id] = lower, found
        resources |= {id: (lower, finite(upper)) for id, (lower, upper) in new.items()}

    def replace_resource(self) -> None:
        """Remove a row and add another one, which takes its place, perhaps with its id."""
        resources = self.mirror.resources
        if len(resources) <= self.rows_kept:
            return
        id, (lower, upper) = self.draw.one(list(resources)), self.draw.row()
        self.call("remove_resources", id)
        self.mirror.remove_resource(id)
        id = self.draw.one([id, self.name("r")])
        self.call("add_resource", id, upper, lower=lower)
        resources[id] = (lower, finite(upper))
        self.counts["edit: a row in the place of another"] += 1

    def remove_resources(self) -> None:
        ids = self.some(self.mirror.resources, 2)
        if not ids or len(self.mirror.resources) - len(ids) < self.rows_kept:
            return
        if len(ids) == 1 and self.draw.chance(0.5):
            self.call("remove_resources", ids[0])
        else:
            self.call("remove_resources", ids)
        for id in ids:
            self.mirror.remove_resource(id)

    # ---- what requests share ---------------------------------------------------------------------

    def share_columns(self) -> None:
        n = self.draw.width if self.draw.chance(0.8) else int(self.draw.rng.integers(1, 2 * self.draw.width))
        plain = self.draw.usage(n, list(self.mirror.resources), self.draw.family.relation != "<=")
        names = self.column_names(n) if self.draw.chance(0.3) else None
        handle = self.call("share_columns", self.mapping(plain, n), n, columns=names)
        self.mirror.columns[handle] = (n, plain)
        if names is not None:
            self.mirror.names[handle] = names

    def forget(self) -> None:
        handles = list(self.mirror.columns)
        if handles:
            handle = self.draw.one(handles)
            self.call("forget", handle)
            self.mirror.forget(handle)
            self.refused("forget", "forgotten", handle)

    def reserve(self) -> None:
        self.call("reserve", int(self.draw.rng.integers(0, 2000)))

    # ---- requests --------------------------------------------------------------------------------

    def add_request(self, id: Hashable = None) -> None:
        given, key, _, n = self.columns()
        costs, cost_key = self.costs(n)
        fields, id = self.fields(n), self.name("q") if id is None else id
        names = self.mirror.names_of(key, fields.get("columns"))
        self.call("add_request", id, costs, given, **self.given(fields, names))
        self.mirror.add(id, cost_key, key, **fields)

    def add_requests(self, count: int | None = None) -> None:
        draw = self.draw
        count = int(draw.rng.integers(1, 5)) if count is None else count
        chosen = [self.columns() for _ in range(count)]
        if draw.chance(0.3) and self.mirror.columns:  # one handle for all
            handle = draw.one(list(self.mirror.columns))
            size, plain = self.mirror.columns[handle]
            chosen = [(handle, handle, plain, size)] * count
            usage: Any = handle
        elif all(isinstance(key, dict) for _, key, _, _ in chosen) and draw.chance(0.5):
            usage = self.matrix([plain for _, _, plain, _ in chosen], [n for *_, n in chosen])
        else:
            usage = [given for given, *_ in chosen]
        sizes = [n for *_, n in chosen]
        costs, keys, widths = self.many_costs(sizes)
        each = [self.fields(n) for n in sizes]
        fill = {"scale": 1.0, "override": {}, "integral": False, "start": {}, "term": None, "columns": None}
        names = sorted({name for own in each for name in own})
        each = [{name: own.get(name, fill.get(name)) for name in names} for own in each]
        ids = [self.name("q") for _ in sizes]
        known = [self.mirror.names_of(c[1], own.get("columns")) for c, own in zip(chosen, each, strict=True)]
        options, table = (
            self.bulk(each, sizes, known),
            self.table(ids, keys, [key for _, key, _, _ in chosen]),
        )
        if table and "columns" not in options:
            later = {name: options.pop(name) for name in ("overrides", "starts", "terms") if name in options}
            self.call("add_table", table, **options)
            if later:
                self.call("update_requests", ids, **later)
            self.counts["edit: requests from a table"] += 1
        else:
            self.call("add_requests", ids, costs, widths, usage, **options)
        for id, cost, (_, key, _, _), fields in zip(ids, keys, chosen, each, strict=True):
            self.mirror.add(id, cost, key, **fields)

    def table(self, ids: list[Hashable], costs: list[Any], usages: list[Any]) -> dict[str, list]:
        """Some requests as a long table, every other time; empty if they share columns or costs."""
        if self.names % 2 or not all(isinstance(u, dict) for u in usages) or not isinstance(costs[0], list):
            return {}
        rows = []
        for id, own, usage in zip(ids, costs, usages, strict=True):
            for j, cost in enumerate(own):
                used = [(id, j, row, entries[j], cost) for row, entries in usage.items() if j in entries]
                rows += used or [(id, j, None, None, cost)]
        names = ("request", "column", "resource", "use", "cost")
        return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))

    def many_costs(self, sizes: list[int]) -> tuple[Any, list[Any], list[int] | None]:
        """Costs of many requests as given and as the mirror takes them, and sizes if they are needed."""
        keys = [self.draw.costs(n) for n in sizes]
        if self.draw.chance(0.5):
            return np.array([c for own in keys for c in own]), keys, sizes
        return keys, keys, self.draw.one([None, sizes])

    def changes(self, id: Hashable, names: list[str]) -> dict[str, Any]:
        """New values of some fields of a request, as the mirror takes them."""
        draw, request = self.draw, self.mirror.requests[id]
        n, found = request.size, {}
        row = draw.sum_row()
        total = row["total"] if "total" in names else request.total
        for name in names:
            if name == "scale":
                found[name] = draw.scale()
            elif name == "override":
                found[name] = draw.override(n)
            elif name == "start":
                found[name] = draw.start(n)
            elif name == "integral":
                found[name] = draw.chance(0.5)
            elif name == "term":
                found[name] = self.term(n)
            elif name == "upper":
                found[name] = draw.upper(n, total, draw.one(["one", "each"]))
            elif name == "total":
                open_ended = math.isinf(max(request.bounds)) and "upper" not in names
                found[name] = row["total"] if row["total"] is not None or not open_ended else 1.0
            elif name == "relation":
                found[name] = row["relation"] if total is not None else "<="
        return found

    def open_request(self) -> None:
        """Try to take sum row and bounds of a request away."""
        id = self.draw.one(list(self.mirror.requests))
        self.refused("update_request", "without any bound", id, total=None, upper=math.inf)

    NAMES = ("scale", "override", "start", "integral", "upper", "total", "relation")

    def update_request(self) -> None:
        draw = self.draw
        id = draw.one(list(self.mirror.requests))
        names = [name for name in self.NAMES if draw.chance(0.2)]
        if self.terms and draw.chance(0.5):
            names.append("term")
        request = self.mirror.requests[id]
        fields = self.changes(id, names)
        if fields.get("relation") == "==" and fields.get("total", request.total) is None:
            options = self.given(fields, request.columns)
            self.refused("update_request", "relation without total", id, **options)
            return
        options = self.given(fields, request.columns)
        if fields.get("term") is None and "term" not in fields and request.term and draw.chance(0.5):
            weight = self.draw.unit * draw.number(0.1, 2.0)
            options["term"], fields["term"] = {"weight": weight}, request.term._replace(weight=weight)
        if draw.chance(0.6):
            options["costs"], fields["costs"] = self.costs(request.size)
        self.call("update_request", id, **options)
        self.mirror.update(id, **fields)

    def replace_columns(self) -> None:
        """Replace the columns of a request."""
        draw = self.draw
        id = draw.one(list(self.mirror.requests))
        request = self.mirror.requests[id]
        given, key, _, n = self.columns(draw.one([None, request.size]))
        costs, cost_key = self.costs(n)
        fields: dict[str, Any] = {"upper": draw.upper(n, request.total)}
        if draw.chance(0.5):
            fields["start"] = draw.start(n)
        if draw.chance(0.3):
            fields["override"] = draw.override(n)
        if draw.chance(0.3):
            fields["columns"] = self.column_names(n)
            if request.columns and draw.chance(0.7):
                fields["columns"][: len(request.columns)] = request.columns[:n][::-1]
        if request.term is not None:
            fields["term"] = self.term(n)
            self.refused(
                "update_request",
                "columns without their term",
                id,
                costs=costs,
                usage=given,
                upper=fields["upper"],
            )
        if isinstance(request.upper, list) and len({min(bound, 1e20) for bound in request.upper}) > 1:
            self.refused("update_request", "columns without their bounds", id, costs=costs, usage=given)
        names = self.mirror.names_of(key, fields.get("columns"))
        self.call("update_request", id, costs=costs, usage=given, **self.given(fields, names))
        self.mirror.update(id, cost_key, key, **fields)

    def update_requests(self, most: int = 4) -> None:
        draw = self.draw
        ids = self.some(self.mirror.requests, most)
        names = [name for name in self.NAMES if draw.chance(0.2)]
        if self.terms and draw.chance(0.5):
            names.append("term")
        each = [self.changes(id, names) for id in ids]
        requests = [self.mirror.requests[id] for id in ids]
        pairs = list(zip(each, requests, strict=True))
        if any(f.get("relation") == "==" and f.get("total", r.total) is None for f, r in pairs):
            names = [name for name in names if name != "relation"]
            for fields in each:
                del fields["relation"]
        sizes = [request.size for request in requests]
        if "override" in names and draw.chance(0.3):
            each[0]["override"] = KEEP
        if "start" in names and draw.chance(0.3):
            each[0]["start"] = KEEP
        options = self.bulk(each, sizes, [request.columns for request in requests])
        if self.terms and "term" not in names and all(r.term for r in requests) and draw.chance(0.7):
            weights = [draw.unit * draw.number(0.1, 2.0) for _ in ids]
            options["terms"] = {"weight": weights}
            for fields, request, weight in zip(each, requests, weights, strict=True):
                fields["term"] = request.term._replace(weight=weight)
        if draw.chance(0.5):
            costs, keys, _ = self.many_costs(sizes)
            options["costs"] = costs
            for fields, key in zip(each, keys, strict=True):
                fields["costs"] = key
        if len(ids) == 1 and draw.chance(0.3) and not isinstance(ids[0], (list, tuple)):
            self.call("update_requests", ids[0], **options)
        else:
            self.call("update_requests", ids, **options)
        for id, fields in zip(ids, each, strict=True):
            self.mirror.update(id, **fields)

    def update_many_columns(self) -> None:
        """Replace the columns of a few requests at once."""
        draw = self.draw
        ids = [id for id in self.some(self.mirror.requests) if self.mirror.requests[id].term is None]
        if not ids:
            return
        chosen = [self.columns() for _ in ids]
        sizes = [n for *_, n in chosen]
        keys = [draw.costs(n) for n in sizes]
        each = [
            {"upper": draw.upper(n, self.mirror.requests[id].total)} for id, n in zip(ids, sizes, strict=True)
        ]
        costs: Any = keys
        widths = None
        if draw.chance(0.5):
            costs, widths = np.array([c for own in keys for c in own]), sizes
        usage: Any = [given for given, *_ in chosen]
        if all(isinstance(key, dict) for _, key, _, _ in chosen) and draw.chance(0.5):
            usage = self.matrix([plain for _, _, plain, _ in chosen], sizes)
        if draw.chance(0.3):
            for fields, n in zip(each, sizes, strict=True):
                fields["columns"] = draw.one([None, self.column_names(n)])
        options = self.bulk(each, sizes, [None] * len(ids))
        table = self.table(ids, keys, [key for _, key, _, _ in chosen])
        if table and "columns" not in options:
            self.call("update_table", table, **options)
            self.counts["edit: columns from a table"] += 1
        else:
            self.call("update_requests", ids, costs=costs, sizes=widths, usage=usage, **options)
        for id, cost, (_, key, _, _), fields in zip(ids, keys, chosen, each, strict=True):
            self.mirror.update(id, cost, key, **fields)

    def remove_request(self) -> None:
        if len(self.mirror.requests) > self.kept:
            id = self.draw.one(list(self.mirror.requests))
            self.call("remove_request", id)
            del self.mirror.requests[id]
            if self.draw.chance(0.3):
                self.add_request(id)
                self.counts["edit: the same id again"] += 1

    def remove_requests(self) -> None:
        ids = self.some(self.mirror.requests, 3)
        if len(self.mirror.requests) - len(ids) > self.kept:
            self.call("remove_requests", ids)
            for id in ids:
                del self.mirror.requests[id]

    def clear(self) -> None:
        """Remove all requests and add some."""
        self.call("remove_requests", list(self.mirror.requests))
        self.mirror.requests.clear()
        while self.draw.large and len(self.mirror.requests) < self.draw.requests:
            self.add_requests(20)
        if self.draw.chance(0.7):
            self.add_requests(2 if self.draw.family.whole else 20)
        self.counts["edit: all requests removed"] += 1

    def price_moves(self) -> None:
        draw = self.draw
        ids = self.some(self.mirror.requests, 5)
        columns = [draw.one([None, -1, int(draw.rng.integers(self.mirror.requests[id].size))]) for id in ids]
        prices = [draw.unit * draw.number(0.0, 1.0) for _ in ids]
        for _ in range(draw.one([1, 1, 2])):  # a second call changes nothing
            if None not in columns and draw.chance(0.5):
                self.call("price_moves", ids, np.array(columns), np.array(prices))
            else:
                each = [self.mirror.requests[id].columns for id in ids]
                named = [
                    column if names is None else None if column in (None, -1) else names[column]
                    for names, column in zip(each, columns, strict=True)
                ]
                self.call("price_moves", ids, named, prices)
        for id, column, price in zip(ids, columns, prices, strict=True):
            self.mirror.price_moves(id, column, price)

    # ---- columns of requests ---------------------------------------------------------------------

    def some_columns(self, leave: int) -> tuple[list[Hashable], list[int]]:
        """Some columns of some requests: the request, and the number, of each; `leave` so many of each."""
        owners, columns = [], []
        first = 0 if self.draw.family.whole or not leave else 1  # it takes all, or nothing of the rows
        for id in self.some(self.mirror.requests, 3):
            size = self.mirror.requests[id].size
            numbers = self.draw.rng.permutation(np.arange(first, size)).tolist()
            count = min(int(self.draw.rng.integers(1, 3)), size - leave)
            owners += [id] * len(numbers[:count])
            columns += numbers[:count]
        return owners, columns

    def named(self, owners: list[Hashable], columns: list[int]) -> list[Any]:
        """Names, or numbers, of columns."""
        each = [self.mirror.requests[id].columns for id in owners]
        return [j if names is None else names[j] for names, j in zip(each, columns, strict=True)]

    def of_one(self, owners: list[Hashable]) -> Any:
        """Requests of columns as given: one for all, if there is only one, or one each."""
        one = len(set(owners)) == 1 and self.draw.chance(0.7)
        return owners[0] if one else owners

    def bounds(self, owners: list[Hashable]) -> list[float]:
        """Upper bounds of columns."""
        totals = [self.mirror.requests[id].total for id in owners]
        found = self.draw.upper(len(owners), None if None in totals else totals[0], "each")
        assert isinstance(found, list)
        return found

    def add_columns(self) -> None:
        owners, _ = self.some_columns(0)
        draw, requests = self.draw, self.mirror.requests
        names = [None if requests[id].columns is None else self.name("c") for id in owners]
        costs, options = draw.costs(len(owners)), {}
        usage = draw.usage(len(owners), list(self.mirror.resources))
        upper = self.bounds(owners)
        if draw.chance(0.3) or any(requests[id].total is None for id in owners):
            options["upper"] = draw.one([upper, np.array(upper)])
        given: Any = draw.one([costs, np.array(costs)])
        if draw.chance(0.2):
            given, costs = costs[0], costs[:1] * len(owners)
        unnamed = all(name is None for name in names) and (len(owners) == 1 or not isinstance(given, float))
        told = None if unnamed and draw.chance(0.5) else names
        self.call(
            "add_columns", self.of_one(owners), told, given, self.mapping(usage, len(owners)), **options
        )
        self.mirror.add_columns(owners, names, costs, usage, upper if options else None)

    def remove_columns(self) -> None:
        owners, columns = self.some_columns(1)
        self.call("remove_columns", self.of_one(owners), self.named(owners, columns))
        self.mirror.remove_columns(owners, columns)

    def update_columns(self) -> None:
        owners, columns = self.some_columns(0)
        draw, options = self.draw, {}
        costs = draw.costs(len(owners)) if draw.chance(0.6) else None
        usage = draw.usage(len(owners), list(self.mirror.resources)) if draw.chance(0.4) else None
        upper = self.bounds(owners) if draw.chance(0.3) else None
        if costs is not None:
            options["costs"] = costs
        if usage is not None:
            options["usage"] = self.mapping(usage, len(owners))
        if upper is not None:
            options["upper"] = upper
        self.call("update_columns", self.of_one(owners), self.named(owners, columns), **options)
        self.mirror.update_columns(owners, columns, costs, usage, upper)

    # ---- wrong edits -----------------------------------------------------------------------------

    def refused(self, verb: str, why: str, *arguments: Any, **options: Any) -> None:
        """Make an edit that must raise."""
        self.counts[f"refused: {verb}, {why}"] += 1
        expected = TypeError if why == "misspelt" else EditError
        before = self.everything()
        try:
            getattr(self.program, verb)(*arguments, **options)
        except expected as error:
            require(bool(str(error)), "an error without a message")
            require(why != "misspelt" or not isinstance(error, EditError), "EditError for a keyword")
            require(self.everything() == before, verb, why, "was refused and changed something")
        else:
            require(False, verb, why, "was accepted:", arguments, options)

    def everything(self) -> list | None:
        """All that the program holds, bit by bit, if it is small and in this process."""
        store = self.program.store
        return snapshot(self.program) if isinstance(store, ConstraintStore) and not self.draw.large else None

    def wrong(self) -> None:
        """A few edits with one thing wrong each."""
        if not self.mirror.resources:
            return
        cases = self.wrong_cases()
        for index in self.draw.rng.choice(len(cases), 6, replace=False):
            verb, why, arguments, options = cases[index]
            self.refused(verb, why, *arguments, **options)

    def wrong_cases(self) -> list[tuple[str, str, tuple, dict]]:
        """Edit methods, what is wrong, and their arguments."""
        draw, mirror = self.draw, self.mirror
        id = draw.one(list(mirror.requests))
        row = draw.one(list(mirror.resources))
        finite_rows = [id for id, (_, upper) in mirror.resources.items() if upper < math.inf]
        full = draw.one(finite_rows or ["?"])
        n = mirror.requests[id].size
        other = draw.one(list(mirror.requests))
        costs, usage = draw.costs(n), self.mapping(draw.usage(n, list(mirror.resources)), n)
        bad = draw.costs(n)
        bad[-1] = draw.one([SPOILT, math.inf])
        stranger = ContinualProgram().share_columns({}, n)
        names = mirror.requests[id].columns
        first, new, none = (names[0], ["new"], "?") if names else (0, None, n)
        return [
            ("add_resource", "taken", (row,), {}),
            ("add_resource", "NaN", ("new", SPOILT), {}),
            ("add_resource", "crossed", ("new", 1.0), {"lower": 2.0}),
            ("add_resources", "twice", (["new", "new"],), {}),
            ("add_resources", "one is wrong", (["new", "newer"],), {"upper": [1.0, SPOILT]}),
            ("update_resources", "unknown", ("?",), {"upper": 1.0}),
            ("update_resources", "twice", ([row, row],), {"upper": 1.0}),
            ("update_resources", "both", (row,), {"upper": 1.0, "by": 1.0}),
            ("update_resources", "too much", (full,), {"by": -1e19}),
            ("remove_resources", "unknown", ([row, "?"],), {}),
            ("share_columns", "unknown row", ({"?": 1.0}, 2), {}),
            ("share_columns", "length", ({row: [1.0, 2.0]}, 3), {}),
            ("forget", "foreign", (stranger,), {}),
            ("reserve", "negative", (-1,), {}),
            ("add_request", "taken", (id, costs, usage), {}),
            ("add_request", "costs", ("new", bad, usage), {}),
            ("add_request", "foreign", ("new", costs, stranger), {}),
            ("add_request", "length", ("new", [*costs, 1.0, 2.0], {row: costs}), {}),
            ("add_request", "total", ("new", costs, usage), {"total": -1.0}),
            ("add_request", "relation", ("new", costs, usage), {"total": 1.0, "relation": "<"}),
            ("add_request", "relation without total", ("new", costs, usage), {"relation": "=="}),
            ("add_request", "upper", ("new", costs, usage), {"upper": -1.0}),
            ("add_request", "scale", ("new", costs, usage), {"scale": 0.0}),
            ("add_request", "override", ("new", costs, usage), {"override": {n: 1.0}}),
            ("add_request", "start", ("new", costs, usage), {"start": {-1: 1.0}}),
            ("add_request", "misspelt", ("new", costs, usage), {"totals": 1.0}),
            ("add_requests", "taken", (["new", id], [costs, costs], None, [usage, usage]), {}),
            ("add_requests", "costs", (["new", "newer"], [costs, bad], None, [usage, usage]), {}),
            ("add_requests", "sizes", (["new"], costs, [n + 1], [usage]), {}),
            ("add_requests", "totals", (["new"], [costs], None, [usage]), {"totals": [1.0, 1.0]}),
            ("add_requests", "misspelt", (["new"], [costs], None, [usage]), {"total": 1.0}),
            ("update_request", "unknown", ("?",), {"scale": 1.0}),
            ("update_request", "costs", (id,), {"costs": bad, "scale": 9.0}),
            ("update_request", "length", (id,), {"costs": [*costs, 1.0]}),
            ("update_request", "no costs", (id,), {"usage": usage}),
            ("update_request", "scale", (id,), {"costs": costs, "scale": -1.0}),
            ("update_request", "upper", (id,), {"costs": costs, "upper": SPOILT}),
            ("update_request", "override", (id,), {"scale": 3.0, "override": {none: 1.0}}),
            ("update_request", "start", (id,), {"scale": 3.0, "start": {none: 1.0}}),
            ("update_request", "total", (id,), {"scale": 3.0, "total": SPOILT}),
            ("update_request", "misspelt", (id,), {"scales": 1.0}),
            ("update_requests", "unknown", ([id, "?"],), {"scales": 3.0}),
            ("update_requests", "twice", ([id, id],), {"scales": 3.0}),
            ("update_requests", "scales", ([id],), {"scales": [-1.0], "totals": 2.0}),
            ("update_requests", "overrides", ([id],), {"scales": 3.0, "overrides": [{none: 1.0}]}),
            ("update_requests", "misspelt", ([id],), {"scale": 1.0}),
            ("remove_request", "unknown", ("?",), {}),
            ("remove_requests", "unknown", ([id, "?"],), {}),
            ("remove_requests", "twice", ([id, other, id],), {}),
            ("add_request", "names", ("new", costs, usage), {"columns": ["a"] * (n + 1)}),
            ("update_request", "names alone", (id,), {"columns": ["a"] * n}),
            ("add_columns", "unknown", ("?", None, 1.0, {}), {}),
            ("add_columns", "unknown row", (id, new, 1.0, {"?": 1.0}), {}),
            ("add_columns", "costs", (id, new, SPOILT, {}), {}),
            ("add_columns", "upper", (id, new, 1.0, {}), {"upper": -1.0}),
            ("add_columns", "name", (id, [None] if names else ["a"], 1.0, {}), {}),
            ("remove_columns", "unknown", (id, ["?"]), {}),
            ("remove_columns", "all", (id, names or list(range(n))), {}),
            ("update_columns", "twice", ([id, id], [first, first]), {"costs": 1.0}),
            ("update_columns", "costs", (id, [first]), {"costs": [1.0, 2.0]}),
            ("price_moves", "column", ([id], [none], 1.0), {}),
            ("price_moves", "price", ([id], [first], -1.0), {}),
            ("price_moves", "twice", ([id, id], [first, first], 1.0), {}),
        ]

    # ---- any -------------------------------------------------------------------------------------

    @property
    def edits(self) -> list[tuple[Callable[[], None], float]]:
        """Every kind of edit, and how often it comes."""
        return [
            (self.add_resource, 0.3),
            (self.add_resources, 0.3),
            (self.update_resources, 2.0),
            (self.remove_resources, 0.3),
            (self.share_columns, 0.4),
            (self.forget, 0.4),
            (self.reserve, 0.2),
            (self.add_request, 2.0),
            (self.add_requests, 1.0),
            (self.update_request, 5.0),
            (self.replace_columns, 1.5),
            (self.update_requests, 2.0),
            (self.update_many_columns, 0.5),
            (self.remove_request, 1.2),
            (self.remove_requests, 0.8),
            (self.price_moves, 0.8),
            (self.add_columns, 1.0),
            (self.remove_columns, 0.8),
            (self.update_columns, 0.8),
            (self.wrong, 1.5),
            (self.replace_resource, 0.4),
            (self.open_request, 0.15),
            (self.clear, 0.05),
        ]

    def any(self) -> None:
        """One edit."""
        if not self.mirror.requests:
            self.add_requests(self.draw.one([1, 3]) if self.draw.family.whole else 10)
            return
        edits, weights = zip(*self.edits, strict=True)
        share = np.array(weights) / sum(weights)
        edits[int(self.draw.rng.choice(len(edits), p=share))]()

    def most(self) -> None:
        """Edit most requests at once."""
        ids = list(self.mirror.requests)
        scales = [self.draw.scale() for _ in ids]
        self.call("update_requests", ids, scales=scales)
        for id, scale in zip(ids, scales, strict=True):
            self.mirror.update(id, scale=scale)

    def begin(self) -> None:
        """A program from nothing."""
        for _ in range(self.draw.rows):
            self.add_resource()
        for _ in range(3):
            self.share_columns()
        while len(self.mirror.requests) < self.draw.requests:
            self.add_requests(min(20, self.draw.requests - len(self.mirror.requests)))
