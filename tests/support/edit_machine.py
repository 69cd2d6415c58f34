"""The machine of the stateful tests: every verb in any order, on a program and on a plain-Python model."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from scipy.sparse import coo_array, csc_array, csr_array

from copter import ContinualProgram, EditError, ProximalPoint
from copter.store.compiled import compile_program
from support.numpy_twins import INF, verify
from support.strategies import (
    PlainProgram,
    PlainRequest,
    capacities,
    coefficients,
    costs,
    counts,
    relations,
    row_bounds,
    row_kinds,
    scales,
    sizes,
    snapshot,
    totals,
    uppers,
)


class Shared(list):
    """Costs that are a vector of the program; ``handle`` names it."""


def as_given(value):
    """What a verb is given for a value: the handle of costs that are shared."""
    return getattr(value, "handle", value)


class Edits(RuleBasedStateMachine):
    """Verbs on a ContinualProgram and on a PlainProgram; the solver keeps its state all along."""

    settings_of_solver: dict = {}
    tolerance = 1e-6

    def __init__(self) -> None:
        super().__init__()
        self.program, self.plain = self.empty_program(), PlainProgram()
        self.templates: list = []  # (handle, n, usage)
        self.vectors: list[Shared] = []
        self.names = iter(range(10**6))
        self.solver = ProximalPoint(tolerance=self.tolerance, **self.settings_of_solver)

    def empty_program(self) -> ContinualProgram:
        return ContinualProgram()

    @initialize(
        data=st.data(), caps=st.lists(capacities, min_size=1, max_size=3), sizes=st.lists(sizes, min_size=1)
    )
    def begin(self, data, caps, sizes):
        for upper in caps:
            self.add_resource("<=", upper, 0.0, 0.0)
        for _ in sizes[:3]:
            self.add_request(data, data.draw(totals), "<=", 1.0, False)

    # ---- drawing -------------------------------------------------------------------------------

    def some(self, data, ids, least=1):
        ids = list(ids)
        return (
            data.draw(st.lists(st.sampled_from(ids), min_size=least, max_size=4, unique=True)) if ids else []
        )

    def vector(self, data, n, entries):
        return data.draw(st.lists(entries, min_size=n, max_size=n))

    def costs(self, data, n):
        """Costs of n columns, of a vector that is there or new ones."""
        fitting = [vector for vector in self.vectors if len(vector) == n]
        if fitting and data.draw(st.booleans()):
            return data.draw(st.sampled_from(fitting))
        return self.vector(data, n, costs)

    def usage(self, data, n):
        """Coefficients in the three forms that a program takes, and plainly."""
        given, plain = {}, {}
        for id in self.some(data, self.plain.resources, least=0):
            form = data.draw(st.sampled_from(["scalar", "array", "pair"]))
            if form == "scalar":
                given[id] = data.draw(coefficients)
                dense = [given[id]] * n
            else:
                dense = self.vector(data, n, coefficients)
                given[id] = dense
            if form == "pair":
                columns = data.draw(st.permutations([j for j in range(n) if dense[j] or j % 2]))
                given[id] = columns, [dense[j] for j in columns]
            plain[id] = {j: v for j, v in enumerate(dense) if v}
        return given, plain

    def columns(self, data, fixed=None):
        """Costs and usage: (n, costs, usage as given, usage plainly)."""
        if fixed is None and self.templates and data.draw(st.booleans()):
            fixed = data.draw(st.sampled_from(self.templates))
        if fixed is not None:
            handle, n, plain = fixed
            alive = {i: dict(e) for i, e in plain.items()}
            return self.costs(data, n), handle, alive
        n = data.draw(sizes)
        return self.costs(data, n), *self.usage(data, n)

    def upper(self, data, n):
        return data.draw(st.one_of(uppers, st.lists(uppers, min_size=n, max_size=n)))

    def override(self, data, n):
        return data.draw(st.dictionaries(st.integers(0, n - 1), costs, max_size=2))

    # ---- resources -----------------------------------------------------------------------------

    @rule(kind=row_kinds, at=capacities, below=counts, above=counts)
    def add_resource(self, kind, at, below, above):
        id = f"r{next(self.names)}"
        lower, upper = row_bounds(kind, at, below, above)
        self.program.add_resource(id, upper, lower=lower)
        self.plain.resources[id] = (lower, upper)

    @precondition(lambda self: self.plain.resources)
    @rule(data=st.data(), kind=row_kinds, at=capacities, below=counts, above=counts)
    def update_resources(self, data, kind, at, below, above):
        id = data.draw(st.sampled_from(list(self.plain.resources)))
        lower, upper = row_bounds(kind, at, below, above)
        self.program.update_resources(id, upper=upper, lower=lower)
        self.plain.resources[id] = (lower, upper)

    @precondition(lambda self: self.plain.resources)
    @rule(data=st.data(), kind=row_kinds, below=counts, above=counts)
    def update_many_resources(self, data, kind, below, above):
        ids = self.some(data, self.plain.resources)
        new = [row_bounds(kind, at, below, above) for at in self.vector(data, len(ids), capacities)]
        lower, upper = zip(*new, strict=True)
        self.program.update_resources(ids, upper=upper, lower=lower)
        self.plain.resources |= dict(zip(ids, new, strict=True))

    @precondition(lambda self: self.plain.resources)
    @rule(data=st.data(), count=counts, up=st.booleans())
    def change_count(self, data, count, up):
        id = data.draw(st.sampled_from(list(self.plain.resources)))
        lower, upper = self.plain.resources[id]
        after = upper + count if up else upper - count
        by = count if up else -count
        if after < lower or after < 0 <= upper:
            self.refused(id, "by", lambda: self.program.update_resources(id, by=by))
        else:
            self.program.update_resources(id, by=by)
            self.plain.resources[id] = (lower, after)

    @precondition(lambda self: self.plain.resources)
    @rule(data=st.data())
    def remove_resources(self, data):
        id = data.draw(st.sampled_from(list(self.plain.resources)))
        self.program.remove_resources(id)
        self.plain.remove_resources(id)
        for _, _, usage in self.templates:
            usage.pop(id, None)

    # ---- shared columns ------------------------------------------------------------------------

    @rule(data=st.data(), n=st.integers(1, 12))
    def share_columns(self, data, n):
        given, plain = self.usage(data, n)
        self.templates.append((self.program.share_columns(given, n), n, plain))

    @precondition(lambda self: self.templates)
    @rule(data=st.data())
    def forget_columns(self, data):
        where = data.draw(st.integers(0, len(self.templates) - 1))
        handle, n, _ = self.templates.pop(where)
        self.program.forget(handle)
        self.refused(None, "usage", lambda: self.program.add_request("late", [0.0] * n, handle))

    # ---- shared costs---------------------------------------------------------------------------

    @rule(data=st.data(), n=sizes)
    def share_costs(self, data, n):
        widths = [n, *(len(r.costs) for r in self.plain.requests.values()), *(t[1] for t in self.templates)]
        shared = Shared(self.vector(data, data.draw(st.sampled_from(widths)), costs))
        shared.handle = self.program.share_costs(shared)
        self.vectors.append(shared)

    @precondition(lambda self: self.vectors)
    @rule(data=st.data())
    def forget_costs(self, data):
        vector = self.vectors.pop(data.draw(st.integers(0, len(self.vectors) - 1)))
        self.program.forget(vector.handle)
        self.refused(None, "costs", lambda: self.program.add_request("late", vector.handle, {}))

    @precondition(lambda self: self.vectors and self.plain.requests)
    @rule(data=st.data(), override=st.booleans())
    def use_shared_costs(self, data, override):
        vector = data.draw(st.sampled_from(self.vectors))
        fitting = [id for id, r in self.plain.requests.items() if len(r.costs) == len(vector)]
        ids, change = self.some(data, fitting, least=0), {}
        if override:
            change["overrides"] = [self.override(data, len(vector)) for _ in ids]
        self.program.update_requests(ids, costs=vector.handle, **change)
        for k, id in enumerate(ids):
            self.plain.requests[id].costs = vector
            if override:
                self.plain.requests[id].override = change["overrides"][k]

    @precondition(lambda self: self.vectors)
    @rule(data=st.data(), count=st.integers(1, 3), relation=relations, total=counts)
    def add_requests_that_share(self, data, count, relation, total):
        ids = [f"q{next(self.names)}" for _ in range(count)]
        chosen = [data.draw(st.sampled_from(self.vectors)) for _ in ids]
        drawn = [self.usage(data, len(vector)) for vector in chosen]
        own, handles = [self.override(data, len(vector)) for vector in chosen], [v.handle for v in chosen]
        options = {"totals": total, "relation": relation, "overrides": own}
        self.program.add_requests(ids, handles, None, [given for given, _ in drawn], **options)
        for id, vector, (_, plain), override in zip(ids, chosen, drawn, own, strict=True):
            self.plain.requests[id] = PlainRequest(vector, plain, total, relation, override=override)

    # ---- requests ------------------------------------------------------------------------------

    @rule(data=st.data(), total=totals, relation=relations, scale=scales, integral=st.booleans())
    def add_request(self, data, total, relation, scale, integral):
        id = f"q{next(self.names)}"
        cost, given, plain = self.columns(data)
        upper, override = self.upper(data, len(cost)), self.override(data, len(cost))
        if total is None and relation == "==":
            self.refused(
                id, "relation", lambda: self.program.add_request(id, as_given(cost), given, relation=relation)
            )
            relation = "<="
        options = {"total": total, "relation": relation, "upper": upper, "scale": scale, "integral": integral}
        self.program.add_request(id, as_given(cost), given, override=override, **options)
        self.plain.requests[id] = PlainRequest(cost, plain, override=override, **options)

    @rule(data=st.data(), form=st.sampled_from([csc_array, csr_array, coo_array]), relation=relations)
    def add_requests(self, data, form, relation):
        fixed = data.draw(st.sampled_from([None, *self.templates]))
        widths = data.draw(st.lists(sizes, min_size=0, max_size=4))
        if fixed is not None:
            widths = [fixed[1]] * len(widths)
        ids = [f"q{next(self.names)}" for _ in widths]
        drawn = [self.usage(data, n)[1] if fixed is None else dict(fixed[2]) for n in widths]
        cost = [self.vector(data, n, costs) for n in widths]
        flat = [c for part in cost for c in part]
        total = data.draw(st.one_of(st.none(), st.lists(counts, min_size=len(ids), max_size=len(ids))))
        scale = data.draw(st.one_of(st.none(), st.lists(scales, min_size=len(ids), max_size=len(ids))))
        upper = self.upper(data, len(flat))
        fresh = PlainProgram(dict(self.plain.resources))
        begin = 0
        for k, id in enumerate(ids):
            own = upper[begin : begin + widths[k]] if isinstance(upper, list) else upper
            usage = {i: dict(e) for i, e in drawn[k].items()}
            fresh.requests[id] = PlainRequest(
                cost[k], usage, total and total[k], relation, own, scale[k] if scale else 1.0, {}, True
            )
            begin += widths[k]
        given = fixed[0] if fixed is not None else form(fresh.model().A)
        options = {"totals": total, "relation": relation, "upper": upper, "scales": scale, "integral": True}
        if total is None and relation == "==":
            self.refused(
                None, "relation", lambda: self.program.add_requests(ids, flat, widths, given, **options)
            )
            options["relation"] = "<="
        self.program.add_requests(ids, flat, widths, given, **options)
        self.plain.requests.update(fresh.requests)

    @precondition(lambda self: self.plain.requests)
    @rule(data=st.data())
    def update_fields(self, data):
        id = data.draw(st.sampled_from(list(self.plain.requests)))
        request, change = self.plain.requests[id], {}
        n = len(request.costs)
        fields = st.sampled_from(["costs", "scale", "override", "total", "relation", "upper", "integral"])
        for name in data.draw(st.lists(fields, unique=True)):
            value = {
                "costs": lambda: self.costs(data, n),
                "scale": lambda: data.draw(scales),
                "override": lambda: self.override(data, n),
                "total": lambda: data.draw(totals),
                "relation": lambda: data.draw(relations),
                "upper": lambda: self.upper(data, n),
                "integral": lambda: data.draw(st.booleans()),
            }[name]()
            change[name] = value
        given = {name: as_given(value) for name, value in change.items()}
        if change.get("total", request.total) is None and change.get("relation") == "==":
            self.refused(id, "relation", lambda: self.program.update_request(id, **given))
            del change["relation"], given["relation"]
        for name, value in change.items():
            setattr(request, name, value)
        request.forget_relation()
        self.program.update_request(id, **given)

    @precondition(lambda self: self.plain.requests)
    @rule(data=st.data(), with_start=st.booleans())
    def update_columns(self, data, with_start):
        id = data.draw(st.sampled_from(list(self.plain.requests)))
        request = self.plain.requests[id]
        cost, given, plain = self.columns(data)
        upper = self.upper(data, len(cost))
        start = {0: 0.5} if with_start else None
        if isinstance(request.upper, list):
            self.refused(
                id, "upper", lambda: self.program.update_request(id, costs=as_given(cost), usage=given)
            )
        self.program.update_request(id, costs=as_given(cost), usage=given, upper=upper, start=start)
        request.costs, request.usage, request.override, request.upper = cost, plain, {}, upper

    @precondition(lambda self: self.plain.requests)
    @rule(data=st.data())
    def update_requests(self, data):
        ids = self.some(data, self.plain.requests)
        requests = [self.plain.requests[id] for id in ids]
        change = {}
        if data.draw(st.booleans()):
            change["costs"] = [self.vector(data, len(request.costs), costs) for request in requests]
            for request, new in zip(requests, change["costs"], strict=True):
                request.costs = new
        if data.draw(st.booleans()):
            change["scales"] = self.vector(data, len(ids), scales)
            for request, scale in zip(requests, change["scales"], strict=True):
                request.scale = scale
        if data.draw(st.booleans()):
            new = [self.override(data, len(request.costs)) for request in requests]
            flat = [(j, c) for override in new for j, c in override.items()]
            change["overrides"] = [len(o) for o in new], [j for j, _ in flat], [c for _, c in flat]
            for request, override in zip(requests, new, strict=True):
                request.override = override
        self.program.update_requests(ids, **change)

    @precondition(lambda self: any(r.total is not None for r in self.plain.requests.values()))
    @rule(data=st.data())
    def update_totals(self, data):
        ids = self.some(data, [id for id, r in self.plain.requests.items() if r.total is not None])
        new = self.vector(data, len(ids), st.sampled_from([0.0, 1.0, 2.5]))
        self.program.update_requests(ids, totals=new)
        for id, total in zip(ids, new, strict=True):
            self.plain.requests[id].total = total

    @precondition(lambda self: self.plain.requests)
    @rule(data=st.data())
    def remove_requests(self, data):
        ids = self.some(data, self.plain.requests)[:2]
        if len(ids) == 1:
            self.program.remove_request(ids[0])
        else:
            self.program.remove_requests(ids)
        for id in ids:
            del self.plain.requests[id]

    # ---- what must be refused --------------------------------------------------------------------

    def refused(self, subject, field, verb):
        before = snapshot(self.program)
        with pytest.raises(EditError) as caught:
            verb()
        assert caught.value.field == field
        assert subject is None or caught.value.subject == subject
        assert snapshot(self.program) == before

    @precondition(lambda self: self.plain.requests and self.plain.resources)
    @rule(data=st.data(), bad=st.sampled_from([np.nan, INF, -INF]), how=st.integers(0, 9))
    def bad_edits(self, data, bad, how):
        p = self.program
        id = data.draw(st.sampled_from(list(self.plain.requests)))
        row = data.draw(st.sampled_from(list(self.plain.resources)))
        n = len(self.plain.requests[id].costs)
        one = csc_array((len(self.plain.resources), 1))
        subject, field, verb = [
            (id, "id", lambda: p.add_request(id, [1.0], {})),
            (id, "costs", lambda: p.update_request(id, costs=[bad] * n, scale=2.0, total=3.0, upper=1.0)),
            (id, "scale", lambda: p.update_request(id, costs=[0.0] * n, scale=bad, override={0: 1.0})),
            (id, "total", lambda: p.update_request(id, total=-1.0, scale=2.0)),
            (id, "override", lambda: p.update_request(id, override={0: bad}, costs=[0.0] * n)),
            (id, "upper", lambda: p.update_request(id, upper=-0.5, scale=2.0, override={})),
            ("new", "usage", lambda: p.add_request("new", [1.0], {row: 1.0, "nowhere": 1.0})),
            (id, "id", lambda: p.add_requests(["new", id], [1.0, 1.0], [1, 1], one)),
            ("nobody", "id", lambda: p.remove_requests([id, "nobody"])),
            (row, "lower", lambda: p.update_resources(row, upper=1.0, lower=2.0)),
        ][how]
        self.refused(subject, field, verb)

    # ---- what must hold --------------------------------------------------------------------------

    @invariant()
    def same_as_built_from_scratch(self):
        program, model = self.program, self.plain.model()
        assert program.resource_ids == list(self.plain.resources)
        assert program.request_ids == list(self.plain.requests)
        assert (program.n_variables, program.nnz) == (model.c.size, model.A.nnz)
        assert program.n_rows == len(model.row_lower) + sum(map(bool, model.relation))
        for id, request in self.plain.requests.items():
            assert program.requests[id].costs.tolist() == request.effective()
            assert program.requests[id].total == request.total
        assert [program.resources[id] for id in self.plain.resources] == list(self.plain.resources.values())
        built = compile_program(program)
        m = model.row_lower.size
        sums, low, high = model.sum_rows()
        np.testing.assert_allclose(built.c, model.c, rtol=1e-15)
        np.testing.assert_array_equal(built.upper, model.upper)
        np.testing.assert_array_equal(built.A[:m].toarray(), model.A.toarray())
        np.testing.assert_array_equal(built.A[m:].toarray(), sums.toarray())
        np.testing.assert_array_equal(built.row_lower, np.concatenate((model.row_lower, low)))
        np.testing.assert_array_equal(built.row_upper, np.concatenate((model.row_upper, high)))
        wanted = [r.integral for r in self.plain.requests.values() for _ in r.costs]
        assert built.integrality.tolist() == wanted

    @precondition(lambda self: self.plain.requests)
    @rule()
    def solve(self):
        solution = self.solver.solve(self.program, deadline=600.0)
        status = verify(solution, self.program, self.plain.model(), self.tolerance, either=True)
        if status == "optimal":
            again = self.solver.solve(self.program)
            assert (again.iterations, again.churn, again.warm_started) == (0, 0.0, True)
            assert all(map(np.array_equal, again.nonzeros, solution.nonzeros))


PROFILE = settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    phases=[Phase.generate],  # shrinking takes minutes: add Phase.shrink to look at a failure
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
