"""What the Slurm backend reads in squeue and writes for sbatch, with scripts in place of Slurm's commands."""

import os
from dataclasses import replace

import pytest

from copter.live.backends.base import Run, RunRefusedError
from copter.live.backends.slurm import SlurmBackend

SQUEUE = """for last; do :; done; mark=${last#--format=}; sed "s/^MARK|/${mark%%|*}|/" BASE/state"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    commands = {
        "squeue": SQUEUE.replace("BASE", str(tmp_path)),
        "sbatch": f'echo "$@" >> {tmp_path}/asked; cat > {tmp_path}/script; echo 7',
    }
    for name in ("squeue", "scancel", "sbatch", "sacct", "sinfo"):
        (tmp_path / name).write_text(f"#!/bin/sh\n{commands.get(name, 'exit 0')}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "state").touch()
    (tmp_path / "run").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return tmp_path


def run_in(folder, **options):
    return Run("j", 1, ("true",), str(folder), folder / "run", "a100", ("n1",), (2,), options=options)


def outcome(folder, reason):
    (folder / "state").write_text(f"MARK|7|PENDING|{os.geteuid()}|{reason}|copter-C-j.1\n")
    return SlurmBackend("C", ["n1"]).states([run_in(folder)])["j.1"].outcome


NEVER = """AssocMaxCpuPerJobLimit AssocMaxGRESMinutesPerJob AssocMaxGRESPerJob AssocMaxGRESPerNode
    AssocMaxWallDurationPerJobLimit QOSMaxWallDurationPerJobLimit QOSMaxGRESPerJob QOSMaxGRESPerNode
    QOSMaxCpuPerJobLimit QOSMaxNodePerJobLimit QOSMaxMemoryPerJob QOSMinCpuNotSatisfied QOSMinGRES
    MaxMemPerLimit PartitionTimeLimit PartitionNodeLimit DependencyNeverSatisfied JobHeldAdmin InvalidQOS"""
WAITS = """Priority Resources QOSGrpGRES QOSGrpCpuLimit QOSMaxGRESPerUser QOSMaxJobsPerUserLimit
    QOSMaxCpuPerUserLimit QOSMaxGRESPerAccount AssocGrpGRES AssocGrpCPUMinutesLimit AssocMaxJobsLimit
    ReqNodeNotAvail Dependency BeginTime Reservation PartitionDown NodeDown Licenses None"""


@pytest.mark.parametrize("reason", [*NEVER.split(), "launch failed requeued held"])
def test_what_no_waiting_brings_has_failed(folder, reason):
    assert outcome(folder, reason) == "failed"


@pytest.mark.parametrize("reason", WAITS.split())
def test_what_other_jobs_or_people_bring_is_waited_for(folder, reason):
    assert outcome(folder, reason) is None


@pytest.mark.parametrize(
    ("limit", "notice"),
    [("1", 30), ("2", 60), ("90", 60), ("0:30", 15), ("1:30", 45), ("0:00:50", 25), ("0-0:1", 30)]
    + [("1-0", 60), ("0-0:0:3", 1), ("0:01", 1), ("UNLIMITED", 60), ("0", 60), (None, 60)],
)
@pytest.mark.parametrize("by_run", [True, False])
def test_a_run_is_signalled_at_half_of_a_short_limit(folder, limit, notice, by_run):
    options = {} if limit is None else {"time": limit}
    backend = SlurmBackend("C", ["n1"], options={} if by_run else options)
    backend.start(run_in(folder, **(options if by_run else {})))
    assert f"--signal=URG@{notice}" in (folder / "asked").read_text().split()


@pytest.mark.parametrize(
    ("limits", "cpus", "megabytes"),
    [({}, 6, 8000), ({"cpus_per_gpu": 4}, 8, 8000), ({"memory_gb_per_gpu": 1.05}, 6, 2004)],
)
def test_limits_of_a_job_replace_the_figures_of_the_options(folder, limits, cpus, megabytes):
    SlurmBackend("C", ["n1"], cpus_per_gpu=3, memory_per_gpu=4000).start(
        replace(run_in(folder), limits=limits)
    )
    asked = (folder / "asked").read_text().split()
    assert {f"--cpus-per-task={cpus}", f"--mem={megabytes}"} <= set(asked)
    assert f"--cpus-per-task={cpus}" in (folder / "script").read_text()


@pytest.mark.parametrize("which", ["Memory specification can not be", "CPU count per node can not be"])
def test_a_limit_that_no_node_has_is_refused(folder, which):
    (folder / "sbatch").write_text(f'#!/bin/sh\necho "sbatch: error: {which} satisfied" >&2; exit 1\n')
    with pytest.raises(RunRefusedError, match=which):
        SlurmBackend("C", ["n1"]).start(run_in(folder))
