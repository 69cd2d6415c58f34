"""Columns of workload files for tuned sizes, limits of the user and tenants."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copter.errors import InputError
from copter.problems.cluster.workload import JobSubmission, read_workload, write_workload

HEADER = "name,time,category,application,"
counts = st.none() | st.integers(1, 10**6)


@given(
    batch=counts, tuned=counts, least=counts, extra=counts, largest=counts,
    tenant=st.text("ab c", max_size=4), priority=st.integers(-9, 9),
)  # fmt: skip
def test_all_fields_are_read_back(tmp_path_factory, batch, tuned, least, extra, largest, tenant, priority):
    most = None if extra is None else (least or 1) + extra
    job = JobSubmission(
        "a", 1.5, "x", "bert", batch_size=batch, tuned_gpus=tuned, min_gpus=least, max_gpus=most,
        max_batch_size=largest, tenant=tenant.strip(), priority=priority,
    )  # fmt: skip
    path = tmp_path_factory.mktemp("workload") / "w.csv"
    write_workload(path, [job])
    assert read_workload(path) == [job]


def test_files_without_the_columns_are_read_as_before(tmp_path):
    path = tmp_path / "w.csv"
    path.write_text("name,time,category,application\na,1,x,bert\n")
    assert read_workload(path) == [JobSubmission("a", 1.0, "x", "bert")]


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("batch_size", "big", "'big': must be a number of batch size"),
        ("tuned_gpus", "0", "must be at least 1"),
        ("min_gpus", "-1", "'-1': must be a number"),
        ("max_gpus", "1.5", "'1.5': must be a number"),
        ("max_batch_size", "1" * 5000, "must be a number"),
        ("priority", "high", "'high': must be an integer"),
    ],
)
def test_errors_name_file_line_and_field(tmp_path, field, value, words):
    path = tmp_path / "w.csv"
    path.write_text(f"{HEADER}{field}\na,1,x,bert,{value}\n")
    with pytest.raises(InputError) as caught:
        read_workload(path)
    assert (caught.value.path, caught.value.where) == (str(path), f"line 2, {field}")
    assert words in str(caught.value)


def test_limits_that_leave_nothing_are_refused(tmp_path):
    path = tmp_path / "w.csv"
    path.write_text(f"{HEADER}min_gpus,max_gpus\na,1,x,bert,4,2\n")
    with pytest.raises(InputError, match="line 2, min_gpus: 4: must be at most max_gpus = 2"):
        read_workload(path)


def test_authors_files_are_read_as_they_are(tmp_path):
    path = tmp_path / "w.csv"
    path.write_text("name,time,application,num_replicas,batch_size\na,1,bert,6,384\n")
    (job,) = read_workload(path)
    assert job == JobSubmission("a", 1.0, "training", "bert", tuned_gpus=6, batch_size=384)
    path.write_text("name,time,application,num_replicas,tuned_gpus\na,1,bert,6,4\n")
    with pytest.raises(
        InputError, match="line 2, num_replicas: must be empty, because the job has tuned_gpus"
    ):
        read_workload(path)
