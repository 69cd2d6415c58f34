"""Values in pandas Series belong to the labels of the index, in every argument of every edit method."""

import inspect

import numpy as np
import pytest

from copter import ContinualProgram, LogTerm
from copter.errors import EditError

pandas = pytest.importorskip("pandas")

IDS = ["x", "y", "z"]
NUMBERS = [1.0, 2.0, 3.0]
TABLE = {"request": IDS, "column": ["a", "b", "c"], "resource": ["r"] * 3, "use": [1] * 3, "cost": NUMBERS}
USAGES = [{"r": [1]}, {"r": [2]}, {"r": [3]}]
COLUMNS = {"request": IDS, "names": ["a", "b", "c"]}
REQUESTS = {"ids": IDS, "costs": [[1.0], [2.0], [3.0]], "sizes": None, "usage": USAGES, "totals": 9.0}
CALLS = {
    "add_resources": {"ids": ["u", "v", "w"]},
    "update_resources": {"ids": IDS},
    "add_requests": REQUESTS | {"ids": ["u", "v", "w"]},
    "update_requests": {"ids": IDS},
    "add_table": {"table": TABLE | {"request": ["u", "v", "w"]}, "totals": 9.0},
    "update_table": {"table": TABLE},
    "price_moves": {"ids": IDS, "columns": ["a", "b", "c"], "prices": 1.0},
    "add_columns": {"request": IDS, "names": ["d", "e", "f"], "costs": 1.0, "usage": {"r": 1}},
    "remove_columns": {"request": IDS, "names": ["b", "a", "a"]},
    "update_columns": {"request": IDS, "names": ["a", "b", "c"]},
}
"""Edits of many ids, with the arguments that are not Series."""
WITH = {"sizes": {"costs": NUMBERS}, "columns": {"costs": NUMBERS, "sizes": [1] * 3, "usage": USAGES}}
WITH |= {"usage": {"costs": [[1.0]] * 3}}
"""Further arguments of requests, which an argument needs."""
VALUES = {
    "lower": [-1.0, -2.0, -3.0], "upper": NUMBERS, "by": NUMBERS, "totals": NUMBERS, "scales": NUMBERS,
    "prices": NUMBERS, "costs": NUMBERS, "sizes": [1, 1, 1], "relation": ["==", "<=", "<="],
    "integral": [True, False, False], "overrides": [{}, None, {0: 3.0}], "starts": [{}, None, {0: 3.0}],
    "columns": [["a"], ["b"], ["c"]], "usage": USAGES, "terms": [None, LogTerm(1.0), LogTerm(2.0)],
}  # fmt: skip
"""One value for each id, by the name of the argument."""
ONE_ID_OR_NONE = {"add_resource", "add_request", "update_request", "remove_request", "remove_requests"}
ONE_ID_OR_NONE |= {
    "update_resource",
    "remove_resource",
    "remove_resources",
    "share_columns",
    "forget",
    "reserve",
    "apply",
}
ONE_ID_OR_NONE |= {"save", "to_arrays", "write", "take_starts", "return_starts"}
CASES = [
    (method, name)
    for method in CALLS
    for name in list(inspect.signature(getattr(ContinualProgram, method)).parameters)[1:]
    if name not in ("ids", "request", "table") and not (name == "usage" and method.endswith("columns"))
]


def program():
    made = ContinualProgram()
    made.add_resource("r", upper=100.0)
    made.add_resources(IDS, upper=[10.0, 20.0, 30.0])
    for id, n in zip(IDS, (3, 3, 3), strict=True):
        made.add_request(id, [1.0, 2.0, 3.0], {"r": [1, 2, 3]}, total=n, columns=["a", "b", "c"])
    return made


def state(made):
    requests, resources = made.requests[:], made.resources[:]
    terms = [None if term is None else repr(sorted(term.parameters.items())) for term in requests.terms]
    rows = {f"resource {name}": each for name, each in vars(resources).items()}
    every = vars(requests) | rows | {"usage": requests.usage.toarray(), "terms": terms}
    return {
        name: each.tolist() if isinstance(each, np.ndarray) else str(each) for name, each in every.items()
    }


def after(method, **given):
    made = program()
    getattr(made, method)(**given)
    return state(made)


def call_of(method, name):
    """Return the arguments of a call, without one, and the values of this argument."""
    given = CALLS[method].copy()
    values = VALUES.get(name)
    if name == "names" or method == "price_moves" and name == "columns":
        values = given[name]
    if name in WITH and method.endswith("requests"):
        given |= WITH[name]
    if method == "update_requests" and name in ("costs", "sizes", "overrides", "starts"):
        given |= {"usage": USAGES, "costs": NUMBERS, "sizes": [1, 1, 1]}
    elif name == "costs" and method.endswith("requests"):
        given["sizes"] = [1, 1, 1]
    if name == "relation":
        given["totals"] = 1.0
    given.pop(name, None)
    ids = given.get("ids") or given.get("request") or given["table"]["request"]
    return given, ids, values


def test_every_method_and_every_argument_is_a_case():
    own = {
        name for name, each in vars(ContinualProgram).items() if inspect.isfunction(each) and name[0] != "_"
    }
    assert own == set(CALLS) | ONE_ID_OR_NONE  # a new edit method is added to one of them
    assert {name for _, name in CASES} <= set(VALUES) | {"names"}  # a new argument gets values


@pytest.mark.parametrize(("method", "name"), CASES)
def test_a_series_is_read_by_its_index(method, name):
    given, ids, values = call_of(method, name)
    expected = after(method, **given, **{name: values})
    order = [2, 0, 1]
    shuffled = pandas.Series([values[k] for k in order], index=[ids[k] for k in order])
    assert after(method, **given, **{name: shuffled}) == expected
    other = pandas.Series(values)
    assert after(method, **given, **{name: other}) == expected  # without labels
    for index in (["x", "y", "other"], [ids[0], ids[0], ids[1]], [1, 2, 3], [5, 6, 7]):
        made = program()
        with pytest.raises(EditError, match=f"{name} = .*its index must have exactly the ids"):
            getattr(made, method)(**given, **{name: pandas.Series(values, index=index)})
        assert state(made) == state(program())
    if "table" not in given:  # the ids are in a Series with the same index
        key = "ids" if "ids" in given else "request"
        given[key] = pandas.Series(ids, index=[7, 8, 9])
        assert after(method, **given, **{name: pandas.Series(values, index=[7, 8, 9])}) == expected
    if name != "sizes" and (method, name) != ("remove_columns", "names"):
        assert after(method, **given, **{name: values[::-1]}) != expected or name == "names"


def test_whole_numbers_as_ids():
    made = ContinualProgram()
    made.add_resources([2, 0, 1], upper=pandas.Series({0: 5.0, 1: 6.0, 2: 7.0}, index=[1, 2, 0]))
    assert made.resources[:].upper.tolist() == [7, 5, 6]
    made.update_resources([0, 1, 2], upper=pandas.Series([1.0, 2.0, 3.0]))
    assert made.resources[:].upper.tolist() == [3, 1, 2]
    with pytest.raises(
        EditError, match=r"upper = \[0, 1, 2\]: its index 0, 1, 2, \.\.\. may mean positions or"
    ):
        made.update_resources([2, 0, 1], upper=pandas.Series([1.0, 2.0, 3.0]))


@pytest.mark.parametrize("order", [[0, 1, 2], [1, 0, 2]])
def test_flat_series_have_the_id_of_each_value(order):
    labels = [["x", "y", "y"][k] for k in order]
    flat = pandas.Series([1.0, 2.0, 3.0], index=labels)
    numbers = pandas.Series([0, 0, 1], index=labels)
    calls = [
        dict(costs=flat, sizes=[1, 2], usage=[{}, {}], totals=9.0),
        dict(costs=[[1.0], [2.0, 3.0]], sizes=None, usage=[{}, {}], upper=flat),
        dict(
            costs=[[1.0], [2.0, 3.0]],
            sizes=None,
            usage=[{}, {}],
            overrides=([1, 2], numbers, flat),
            totals=9.0,
        ),
    ]
    for given in calls:
        made = ContinualProgram()
        if order == [0, 1, 2]:
            made.add_requests(["x", "y"], **given)
            which = made.requests[:].upper if "upper" in given else made.requests[:].costs
            assert which.tolist() == [1, 2, 3] or made.requests["y"].override == {0: 2.0, 1: 3.0}
        else:
            with pytest.raises(EditError, match="its index must be the id of each value, in their order"):
                made.add_requests(["x", "y"], **given)


def test_missing_totals_are_none_in_a_series_of_objects_and_no_number_else():
    made = program()
    made.update_requests(IDS, upper=9.0)
    totals = pandas.Series([None, 2.0, 1.0], index=["y", "z", "x"], dtype=object)
    made.update_requests(IDS, totals=totals)
    assert made.requests[:].totals == [1, None, 2]
    for wrong in (totals.astype(float), totals.astype("Float64")):
        with pytest.raises(EditError, match="total"):
            made.update_requests(IDS, totals=wrong)


def test_counts_and_parameters_in_series():
    made = ContinualProgram()
    counts = pandas.Series([2, 1], index=["y", "x"])
    terms = [LogTerm(1.0), LogTerm(1.0)]
    made.add_requests(
        ["x", "y"], [[0.0] * 2] * 2, None, [{}] * 2, starts=(counts, [0, 0, 1], [1.0, 2.0, 3.0]), terms=terms,
        upper=9.0,
    )  # fmt: skip
    assert made.requests[:].starts == [{0: 1.0}, {0: 2.0, 1: 3.0}]
    made.update_requests(["x", "y"], terms={"weight": pandas.Series([5.0, 4.0], index=["y", "x"])})
    assert [made.requests[id].term.parameters["weight"] for id in "xy"] == [4, 5]


def test_a_series_of_one_request_is_read_by_the_names_of_its_columns():
    made = ContinualProgram()
    made.add_resource("r")
    names = ["s", "l"]

    def series(small, large):
        return pandas.Series({"l": large, "s": small})

    made.add_request("q", series(1.0, 2.0), {"r": series(3, 4)}, upper=series(5, 6), columns=names)
    shared = made.share_columns({"r": [1, 2]}, 2, columns=names)
    made.add_requests(
        ["t", "u"], [series(1.0, 2.0), [1.0, 2.0]], None, [shared, shared], upper=[series(5, 6), 7]
    )
    assert [made.requests[id].costs.tolist() for id in "qt"] == [[1, 2]] * 2
    assert [made.requests[id].upper.tolist() for id in "qtu"] == [[5, 6], [5, 6], [7, 7]]
    assert made.requests["q"].usage["r"][1].tolist() == [3, 4]
    made.update_request("q", costs=series(8.0, 9.0), upper=series(1, 2))
    assert made.requests["q"].costs.tolist() == [8, 9] and made.requests["q"].upper.tolist() == [1, 2]
    made.update_columns("q", names, costs=series(3.0, 4.0), usage={"r": series(7, 8)})
    assert made.requests["q"].costs.tolist() == [3, 4] and made.requests["q"].usage["r"][1].tolist() == [7, 8]
    for given in ({"costs": series(1.0, 2.0)}, {"upper": series(1.0, 2.0)}):
        with pytest.raises(
            EditError, match=f"'q': {next(iter(given))} = .*its index must have exactly the ids"
        ):
            made.update_request("q", **{name: each.rename({"l": "m"}) for name, each in given.items()})
    two = pandas.Series([1.0, 2.0], index=[4, 5])
    made.add_request("numbered", two, {"r": two}, total=1)
    assert made.requests["numbered"].costs.tolist() == [1, 2]  # columns without names: by position
