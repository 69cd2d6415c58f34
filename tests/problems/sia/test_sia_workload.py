"""Workload files: what is read back, and what the errors name."""

import pytest

from copter.errors import InputError
from copter.problems.sia import JobSubmission, read_workload, write_workload

HEADER = "name,time,category,application\n"


def write(tmp_path, text):
    path = tmp_path / "workload.csv"
    path.write_text(text)
    return path


def test_jobs_come_by_time(tmp_path):
    path = write(tmp_path, HEADER + "b,7.5,SiaJob,bert\na,1.0,BatchInferenceJob,llama\n")
    assert read_workload(path) == [
        JobSubmission("a", 1.0, "BatchInferenceJob", "llama"),
        JobSubmission("b", 7.5, "SiaJob", "bert"),
    ]


def test_written_jobs_are_read_back(tmp_path):
    jobs = [
        JobSubmission("a", 0.1 + 0.2, "SiaJob", "bert"),
        JobSubmission("b", 2.0, "SiaJob", "bert", "rigid", 4, preemptible=False),
        JobSubmission("c", 3.0, "SiaJob", "bert", "strong-scaling", reserved=True),
    ]
    write_workload(tmp_path / "w.csv", jobs)
    assert read_workload(tmp_path / "w.csv", {"bert"}) == jobs


@pytest.mark.parametrize(
    ("text", "line", "field", "words"),
    [
        (
            "name,time,category\n",
            1,
            "application",
            "must be a column; the file has ['name', 'time', 'category']",
        ),
        ("", 1, "name", "must be a column; the file has []"),
        (HEADER + "a,1,S,bert\nb,-1,S,bert\n", 3, "time", "must be finite and not negative"),
        (HEADER + "a,nan,S,bert\n", 2, "time", "must be finite and not negative"),
        (HEADER + "a,inf,S,bert\n", 2, "time", "must be finite and not negative"),
        (HEADER + "a,soon,S,bert\n", 2, "time", "'soon': must be a number"),
        (HEADER + "a,1,S,gpt\n", 2, "application", "'gpt': must be one of bert"),
        (HEADER + "a,1,S,bert\na,2,S,bert\n", 3, "name", "'a': must be unique; it is also on line 2"),
        (HEADER + ",1,S,bert\n", 2, "name", "is empty"),
        (HEADER + "a,1,S\n", 2, "application", "is empty"),
        (HEADER[:-1] + ",kind,gpus\na,1,S,bert,stiff,\n", 2, "kind", "'stiff': must be one of"),
        (
            HEADER[:-1] + ",kind,gpus\na,1,S,bert,rigid,\n",
            2,
            "gpus",
            "gpus = None: must be given for rigid jobs and no others",
        ),
        (HEADER[:-1] + ",kind,gpus\na,1,S,bert,rigid,few\n", 2, "gpus", "'few': must be a number of GPUs"),
        (
            HEADER[:-1] + ",preemptible\na,1,S,bert,maybe\n",
            2,
            "preemptible",
            "'maybe': must be true or false",
        ),
    ],
)
def test_errors_name_file_line_and_field(tmp_path, text, line, field, words):
    path = write(tmp_path, text)
    with pytest.raises(InputError) as caught:
        read_workload(path, {"bert"})
    error = caught.value
    assert (error.path, error.where) == (str(path), f"line {line}, {field}")
    assert words in str(error)
    assert str(path) in str(error)


@pytest.mark.parametrize(
    "fields",
    [
        {"time": float("nan")},
        {"kind": "stiff"},
        {"kind": "rigid"},
        {"gpus": 4},
        {"kind": "rigid", "gpus": 0},
    ],
)
def test_submissions_that_make_no_sense(fields):
    given = {"name": "a", "time": 0.0, "category": "SiaJob", "application": "bert"} | fields
    with pytest.raises(ValueError, match="'a'"):
        JobSubmission(**given)
