"""Requests from a long table: the same program as from dicts, in every form, and what is refused."""

from importlib import import_module

import numpy as np
import pytest

from copter import ContinualProgram, make_solver
from copter.errors import EditError, UnknownIdError
from support.strategies import snapshot

LIBRARIES = {}
"""Those that are installed. Polars changes the environment when it is imported, which no test may do."""
for _name in ("pandas", "polars", "pyarrow"):
    try:
        LIBRARIES[_name] = import_module(_name)
    except ModuleNotFoundError:
        pass

NAMES = ("request", "column", "resource", "use", "cost")
ROWS = [
    ("a", "small", "gpu", 1.0, -1.0),
    ("b", "small", "gpu", 2.0, -4.0),
    ("a", "large", "gpu", 2.0, -1.5),
    ("a", "large", "link", 3.0, -1.5),
    ("b", "none", None, None, 0.0),
    ("a", "none", "", np.nan, 0.25),
    ("b", "large", "link", 0.5, -5.0),
    ("a", "small", "link", 0.5, -1.0),
]


def table_of(rows):
    return {name: [row[k] for row in rows] for k, name in enumerate(NAMES)}


def program_of(edit=lambda program: None, **options):
    program = ContinualProgram(**options)
    program.add_resources(["link", "gpu", "idle"], upper=10.0)
    edit(program)
    return program


def added(table, **options):
    return program_of(lambda program: program.add_table(table, **options))


def by_dicts(program):
    a = {"gpu": [1, 2, 0], "link": [0.5, 3, 0]}
    b = {"gpu": ([0], [2.0]), "link": ([2], [0.5])}
    names = [("small", "large", "none"), ("small", "none", "large")]
    costs = [[-1.0, -1.5, 0.25], [-4.0, 0.0, -5.0]]
    program.add_requests(["a", "b"], costs, None, [a, b], totals=[1.0, 2.0], columns=names)


def same(one, other):
    assert one.request_ids == other.request_ids
    for id in one.request_ids:
        a, b = one.requests[id], other.requests[id]
        assert a.columns == b.columns
        assert (a.costs.tolist(), a.total, a.relation, a.scale) == (
            b.costs.tolist(),
            b.total,
            b.relation,
            b.scale,
        )
        assert a.upper.tolist() == b.upper.tolist() and a.integral == b.integral
        found = {name: dict(zip(*map(list, entries), strict=True)) for name, entries in a.usage.items()}
        assert found == {
            name: dict(zip(*map(list, entries), strict=True)) for name, entries in b.usage.items()
        }


def structured(rows):
    filled = [(q, c, r or "", 0.0 if u is None else u, cost) for q, c, r, u, cost in rows]
    return np.array(filled, list(zip(NAMES, ["U5", "U5", "U5", "f8", "f8"], strict=True)))


def objects(rows):
    table = table_of(rows)
    kinds = dict.fromkeys(("request", "column", "resource"), object)
    return {name: np.array(values, kinds.get(name, np.float64)) for name, values in table.items()}


def library(name):
    return LIBRARIES.get(name) or pytest.skip(f"{name} is not installed")


def frame(rows):
    pandas = library("pandas")
    return pandas.DataFrame(table_of(rows))


def categories(rows):
    return frame(rows).astype({"request": "category", "resource": "category"})


def masked(rows):
    return frame(rows).convert_dtypes()


def reordered(rows):
    return frame(rows).sample(frac=1.0, random_state=0).sort_index()


def polars_frame(rows):
    polars = library("polars")
    return polars.DataFrame(table_of(rows), strict=False)


def arrow_table(rows):
    pyarrow = library("pyarrow")
    return pyarrow.table(table_of(rows))


FORMS = (
    table_of,
    structured,
    objects,
    frame,
    categories,
    masked,
    reordered,
    polars_frame,
    arrow_table,
)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_table_is_the_same_as_dicts(form):
    expected = program_of(by_dicts)
    program = added(form(ROWS), totals=[1.0, 2.0])
    same(program, expected)
    assert (
        make_solver("copter").solve(program).x.choices() == make_solver("copter").solve(expected).x.choices()
    )


@pytest.mark.parametrize("seed", range(20))
def test_random_tables_are_the_same_as_dicts_after_edits(seed):
    rng = np.random.default_rng(seed)
    program, expected = program_of(sense="max"), program_of(sense="max")
    for round in range(3):
        ids = [f"q{k}" for k in range(6)]
        sizes = rng.integers(1, 5, 6).tolist()
        costs = [rng.normal(size=n) for n in sizes]
        dense = [rng.integers(0, 3, (3, n)) * rng.uniform(0.5, 1.5) for n in sizes]
        rows = []
        for id, cost, use in zip(ids, costs, dense, strict=True):
            for j in range(cost.size):
                used = [
                    (id, j, r, use[k, j], cost[j]) for k, r in enumerate(program.resource_ids) if use[k, j]
                ]
                rows += used or [(id, j, None, 0.0, cost[j])]
        first = {id: rows.index(next(row for row in rows if row[0] == id)) for id in ids}
        assert list(first) == ids
        usages = [dict(zip(program.resource_ids, use, strict=True)) for use in dense]
        if round:
            program.update_table(table_of(rows))
            expected.update_requests(ids, costs=costs, usage=usages)
        else:
            program.add_table(table_of(rows), totals=1.0, relation="==", scales=np.arange(1.0, 7.0))
            expected.add_requests(
                ids, costs, None, usages, totals=1.0, relation="==", scales=np.arange(1.0, 7.0)
            )
        same(program, expected)
        program.remove_resources("gpu")  # positions are no longer slots
        expected.remove_resources("gpu")
        for each in (program, expected):
            each.add_resource("gpu", upper=5.0)


def test_ids_may_be_anything_that_has_a_hash():
    program = ContinualProgram()
    program.add_resources([("rack", 1), 7], upper=[3.0, 4.0])
    rows = [(("job", 1), (0, "x"), ("rack", 1), 1.0, -1.0), (5, 2.5, 7, 2.0, -2.0)]
    program.add_table(table_of(rows), upper=1e3)
    assert program.request_ids == [("job", 1), 5]
    assert list(program.requests[5].usage) == [7]
    numbers = {"request": np.array([3, 3, 4]), "column": np.array([0, 1, 0]), "resource": np.array([7, 7, 7])}
    program.add_table(numbers | {"use": np.array([1, 2, 3]), "cost": np.array([-1, -2, -3])}, upper=1e3)
    assert program.requests[3].costs.tolist() == [-1.0, -2.0]


def with_row(**changes):
    """The table with changes of its third row: request a, column large, resource gpu."""
    table = table_of(ROWS)
    for name, value in changes.items():
        table[name][2] = value
    return table


def without(name):
    table = table_of(ROWS)
    del table[name]
    return table


WRONG = [
    (
        with_row(resource="gpus"),
        "'a': resource of column 'large' = 'gpus': there is no resource with this id; did you mean",
    ),
    (with_row(cost=np.nan), r"'a': cost of column 'large' = nan: must be finite"),
    (with_row(cost=None), r"'a': cost of column 'large' = nan: must be finite"),
    (
        with_row(cost=-1.6),
        r"'a': cost of column 'large' = -1.\d: must be equal in all rows of a column; another row has -1.\d",
    ),
    (with_row(use=np.nan), r"'a': use of resource 'gpu' of column 'large' = nan: must be finite"),
    (
        with_row(resource="link"),
        r"'a': resource of column 'large' = 'link': must be in one row of the column only",
    ),
    *[
        (
            with_row(resource=none),
            r"'a': resource of column 'large' = .*: must be a resource, because the column",
        )
        for none in (None, "", np.nan)
    ],
    (table_of([*ROWS, ROWS[4]]), r"'b': resource of column 'none' = None: must be a resource, because the"),
    (
        table_of([("b", "some", None, 2.0, 0.0)]),
        r"'b': use of column 'some' = 2.0: must be 0 or missing, because",
    ),
    (with_row(request=None), r"request = None: must be an id; row 2 of the table has none"),
    (with_row(request=np.nan), r"request = nan: must be an id; row 2 of the table has none"),
    (table_of(ROWS) | {"request": np.array([1.0, 1, np.nan, 1, 1, 1, 1, 1])}, r"request = nan: .* row 2 of"),
    (with_row(cost="much"), r"cost = 'much': must be a number"),
    (with_row(request=["a"]), r"request = \['a'\]: must be hashable"),
    (with_row(resource=["gpu"]), r"resource = \['gpu'\]: must be hashable"),
    (
        without("use"),
        r"table = 'use': the table must have this column; it has \['request', 'column', 'resource', 'cost'\]",
    ),
    (table_of(ROWS) | {"cost": [1.0]}, r"cost = 1: must have as many rows as request, which has 8"),
    (
        table_of(ROWS) | {"cost": np.ones((8, 1))},
        r"cost = \(8, 1\): must be a list or an array of one dimension",
    ),
    (table_of([]), r"table = 0: must have at least one row"),
    (None, r"table = 'NoneType': must be a mapping of arrays, a structured array or a data frame"),
    (ROWS, r"table = 'request': the table must have this column"),
]


@pytest.mark.parametrize(("table", "said"), WRONG)
def test_a_wrong_table_is_refused_and_changes_nothing(table, said):
    program = program_of(by_dicts)
    before = snapshot(program)
    for verb in ("add_table", "update_table"):
        with pytest.raises(EditError, match=said):
            getattr(program, verb)(table)
    assert snapshot(program) == before


@pytest.mark.parametrize("name", ["request", "column"])
def test_a_missing_value_of_pandas_is_no_id(name):
    pandas = library("pandas")
    program = program_of(by_dicts)
    for missing in (pandas.NA, pandas.NaT):
        table = with_row(**{name: missing})
        for given in (table, pandas.DataFrame(table)):
            with pytest.raises(EditError, match=f"{name} = .*: must be an id; row 2 of the table has none"):
                program.add_table(given)


def test_requests_must_be_new_or_known():
    program = program_of(by_dicts)
    with pytest.raises(EditError, match="'a'"):
        program.add_table(table_of(ROWS))
    with pytest.raises(UnknownIdError, match="'z'"):
        program.update_table(table_of([("z", 0, "gpu", 1.0, 1.0)]))
    program.update_request("a", upper=[1.0, 2.0, 3.0])
    with pytest.raises(EditError, match="upper"):
        program.update_table(table_of(ROWS))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.uint64])
@pytest.mark.parametrize("spread", [1, 10**9])
def test_whole_numbers_of_any_type_are_the_same_requests(dtype, spread):
    """Ids over the whole range of a type, in any order, narrow and wide, against a plain loop."""
    rng = np.random.default_rng(5)
    bounds = np.iinfo(dtype)
    if np.dtype(dtype).itemsize == 1:
        ids = rng.permutation(np.arange(bounds.min, bounds.max + 1))
    else:
        ids = rng.permutation(np.array([int(bounds.max) - k * spread for k in range(200)], dtype))
    rows = [(id, k, r, float(k + 1)) for id in ids.tolist() for k in range(3) for r in range(2)]
    order = rng.permutation(len(rows))
    request = np.array([rows[k][0] for k in order], dtype)
    column, resource, cost = (np.array([rows[k][j] for k in order]) for j in (1, 2, 3))
    tables = {
        "array": {"request": request, "column": column.astype(np.int8), "resource": resource},
        "list": {"request": request.tolist(), "column": column.tolist(), "resource": resource.tolist()},
    }
    found = []
    for table in tables.values():
        program = ContinualProgram()
        program.add_resources([0, 1], upper=50.0)
        program.add_table(table | {"use": np.ones(cost.size), "cost": cost}, totals=1.0)
        each = {
            id: dict(zip(program.requests[id].columns, program.requests[id].costs, strict=True))
            for id in ids.tolist()
        }
        found.append((list(program.request_ids), each, program.nnz))
    assert found[0] == found[1] and found[0][2] == 6 * ids.size
