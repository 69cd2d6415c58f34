"""Workload files: what is read back, the files of other authors, and what the errors name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copter.errors import InputError
from copter.problems.cluster.workload import JobSubmission, read_workload, write_workload

counts = st.none() | st.integers(1, 10**6)
kinds = st.sampled_from([("adaptive", None), ("strong-scaling", None), ("rigid", 4)])


@given(
    kind=kinds, batch=counts, tuned=counts, least=counts, extra=counts, largest=counts,
    tenant=st.text("ab c", max_size=4), priority=st.integers(-9, 9), preemptible=st.booleans(),
    reserved=st.booleans(),
)  # fmt: skip
def test_all_fields_are_read_back_in_order_of_time(
    tmp_path_factory, kind, batch, tuned, least, extra, largest, tenant, priority, preemptible, reserved
):
    most = None if extra is None else (least or 1) + extra
    job = JobSubmission(
        "a", 0.1 + 0.2, "x", "bert", *kind, preemptible, reserved, batch_size=batch, tuned_gpus=tuned,
        min_gpus=least, max_gpus=most, max_batch_size=largest, tenant=tenant.strip(), priority=priority,
    )  # fmt: skip
    first = JobSubmission("b", 0.0, "x", "bert")
    path = tmp_path_factory.mktemp("workload") / "w.csv"
    write_workload(path, [job, first])
    assert read_workload(path, {"bert"}) == [first, job]


def written(tmp_path, columns, *rows):
    path = tmp_path / "w.csv"
    path.write_text("\n".join((columns, *rows)) + "\n")
    return path


def test_files_of_other_authors_are_read_as_they_are(tmp_path):
    path = written(tmp_path, "name,time,category,application", "b,7.5,S,bert", "a,1,B,ncf")
    assert read_workload(path) == [JobSubmission("a", 1.0, "B", "ncf"), JobSubmission("b", 7.5, "S", "bert")]
    path = written(tmp_path, "name,time,application,num_replicas,batch_size", "a,1,bert,6,384")
    assert read_workload(path) == [JobSubmission("a", 1.0, "training", "bert", tuned_gpus=6, batch_size=384)]


@pytest.mark.parametrize(
    ("columns", "row", "where", "words"),
    [
        ("name,time", None, "line 1, application", "must be a column; the file has ['name', 'time']"),
        ("", "a,-1,bert", "line 2, time", "must be finite and not negative"),
        ("", "a,soon,bert", "line 2, time", "'soon': must be a number"),
        ("", "a,1,gpt", "line 2, application", "'gpt': must be one of bert"),
        ("", "a,1,bert\na,2,bert", "line 3, name", "'a': must be unique; it is also on line 2"),
        (",kind", "a,1,bert,stiff", "line 2, kind", "'stiff': must be one of"),
        (",kind,gpus", "a,1,bert,rigid,", "line 2, gpus", "must be given for rigid jobs and no others"),
        (",preemptible", "a,1,bert,maybe", "line 2, preemptible", "'maybe': must be true or false"),
        (",max_gpus", "a,1,bert,1.5", "line 2, max_gpus", "'1.5': must be a number"),
        (",min_gpus,max_gpus", "a,1,bert,4,2", "line 2, min_gpus", "4: must be at most max_gpus = 2"),
        (",num_replicas,tuned_gpus", "a,1,bert,6,4", "line 2, num_replicas", "the job has tuned_gpus"),
    ],
)
def test_errors_name_file_line_and_field(tmp_path, columns, row, where, words):
    columns = columns if row is None else "name,time,application" + columns
    path = written(tmp_path, columns, *([row] if row else []))
    with pytest.raises(InputError) as caught:
        read_workload(path, {"bert"})
    assert (caught.value.path, caught.value.where) == (str(path), where)
    assert words in str(caught.value) and str(path) in str(caught.value)


@pytest.mark.parametrize(
    "fields",
    [{"time": float("nan")}, {"kind": "stiff"}, {"kind": "rigid"}, {"gpus": 4}, {"kind": "rigid", "gpus": 0}],
)
def test_submissions_that_make_no_sense(fields):
    with pytest.raises(ValueError, match="'a'"):
        JobSubmission(**{"name": "a", "time": 0.0, "category": "x", "application": "bert"} | fields)
