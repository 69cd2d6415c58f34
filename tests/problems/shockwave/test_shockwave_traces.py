"""Traces of Shockwave: reader, writer, generator, and the authors' files."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from copter.errors import InputError
from copter.problems.shockwave import Mode, Regime, generate, read_jobs, write_jobs
from copter.problems.shockwave.generator import _MODELS, HOURS, SIZE_MIX
from support.shockwave_cases import jobs as some_jobs

ENTRY = {
    "arrival_s": 5.0,
    "mode": "gns",
    "scale_factor": 2,
    "num_epochs": 7,
    "samples_per_epoch": 100,
    "regimes_bs_nepochs_epochsec": [[16, 3, 10.0], [32, 4, 8]],
}


def write(tmp_path, content):
    path = tmp_path / "trace.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_reads_jobs_in_order_of_arrival(tmp_path):
    jobs = read_jobs(write(tmp_path, [ENTRY | {"arrival_s": 9}, ENTRY]))
    assert [job.name for job in jobs] == ["job-1", "job-0"]
    first = jobs[0]
    assert (first.arrival, first.gpus, first.mode, first.epochs) == (5.0, 2, Mode.GNS, 7)
    assert first.regimes == (Regime(16, 3, 10.0), Regime(32, 4, 8.0))
    assert first.seconds == 3 * 10 + 4 * 8


@given(jobs=some_jobs())
def test_written_jobs_come_back(tmp_path_factory, jobs):
    path = tmp_path_factory.mktemp("traces") / "trace.json"
    write_jobs(path, jobs)
    assert read_jobs(path) == sorted(jobs, key=lambda job: job.arrival)


@pytest.mark.parametrize(
    ("content", "where", "why"),
    [
        ("{", "file", "JSON"),
        ([{k: v for k, v in ENTRY.items() if k != "mode"}], "job 0.mode", "missing"),
        ([ENTRY | {"scale_factor": 1.5}], "job 0.scale_factor", "1.5"),
        ([ENTRY | {"arrival_s": -1}], "job 0", "arrival"),
        ([ENTRY | {"num_epochs": 8}], "job 0.num_epochs", "7"),
        ([ENTRY | {"regimes_bs_nepochs_epochsec": [[1, 2]]}], "epochsec[0]", "seconds"),
        ([ENTRY | {"mode": "static"}], "job 0", "static"),
        ([ENTRY | {"name": "a"}, ENTRY | {"name": "a"}], "job 'a'", "job names must be unique"),
    ],
)
def test_malformed_traces_are_named(tmp_path, content, where, why):
    path = write(tmp_path, content)
    with pytest.raises(InputError) as caught:
        read_jobs(path)
    assert str(path) in str(caught.value)
    assert where in str(caught.value) and why in str(caught.value)


@given(seed=st.integers(0, 1000), count=st.integers(0, 60))
def test_generator_keeps_the_rules_of_each_mode(seed, count):
    jobs = generate(count, seed=seed)
    assert jobs == generate(count, seed=seed)
    assert len(jobs) == count and all(a.arrival <= b.arrival for a, b in zip(jobs, jobs[1:], strict=False))
    for job in jobs:
        sizes = [regime.batch_size for regime in job.regimes]
        assert set(sizes) <= set(_MODELS[job.model].epoch_seconds)
        if job.mode is Mode.STATIC:
            assert len(sizes) == 1
        elif job.mode is Mode.GNS:
            assert all(b == 2 * a for a, b in zip(sizes, sizes[1:], strict=False))
        else:
            assert sizes == sorted(sizes) and len(sizes) <= 2
        # Hours are those at the first batch size; rounding to whole epochs moves short jobs most.
        first = job.epochs * job.regimes[0].epoch_seconds
        assert HOURS[0] * 3600 - 600 <= first <= HOURS[1] * 3600 + 600


def test_generator_has_the_shape_of_the_authors_traces():
    jobs = generate(3000, seed=4)
    assert np.mean(np.diff([job.arrival for job in jobs])) == pytest.approx(42.0, rel=0.1)
    hours = np.array([job.seconds for job in jobs]) / 3600
    # Between the least and the largest quartile of the authors' four traces, with 10% to spare.
    for share, low, high in ((25, 0.40, 0.55), (50, 0.66, 0.93), (75, 1.03, 1.45), (90, 1.9, 2.6)):
        assert low <= np.percentile(hours, share) <= high
    assert np.mean([job.gpus == 1 for job in jobs]) == pytest.approx(0.6, abs=0.05)


def test_batch_sizes_are_those_of_table_2():
    printed = {
        "ResNet-18": (16, 256),
        "ResNet-50": (16, 128),
        "LM": (5, 80),
        "Transformer": (16, 256),
        "Recommendation": (512, 8192),
    }
    assert {
        name: (min(one.epoch_seconds), max(one.epoch_seconds)) for name, one in _MODELS.items()
    } == printed


def test_sizes_of_the_paper_by_gpu_hours():
    jobs = generate(3000, seed=4, size_mix=SIZE_MIX, mode_mix={Mode.STATIC: 1.0})
    hours = np.array([job.gpus * job.seconds for job in jobs]) / 3600
    for (least, most), share in SIZE_MIX.items():
        assert np.mean((hours >= 0.99 * least) & (hours < 0.99 * most)) == pytest.approx(share, abs=0.03)
