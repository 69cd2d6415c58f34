"""The use of GPUs, with a script in place of nvidia-smi."""

import asyncio

import pytest

from copter.live import gpu_use
from copter.live.files import PaceFile
from copter.live.gpu_use import GpuUse, GpuUseError, read_gpu_use
from copter.live.views import job_view, jobs_view
from support.live_cases import CLUSTER, RIGID, begin, make_service, named, notes

LINES = """\
0, GPU-aa, 35, 1024, 40960
1, GPU-bb, [N/A], [Not Supported], 40960
2, GPU-cc, 100, 8000, 40960
"""


@pytest.fixture
def smi(tmp_path, monkeypatch):
    """Return a function that writes the script."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def write(script):
        (folder / "nvidia-smi").write_text(f"#!/bin/sh\n{script}\n")
        (folder / "nvidia-smi").chmod(0o755)

    return write


def printing(text):
    return f"cat <<'END'\n{text}END"


def two_gpus(folder, **arguments):
    service = make_service(folder, policy="fcfs", **arguments)
    service.admission.submit(named(RIGID, "runs", types=("a100",)))
    begin(service, RIGID, "waits", gpus=4, types=("a100",))
    return service


def test_each_gpu_is_known_by_number_and_uuid(smi):
    smi(printing(LINES))
    uses = read_gpu_use()
    assert uses["0"] == uses["GPU-aa"] == GpuUse("0", 35, 1024, 40960)
    assert uses["1"] == GpuUse("1", None, None, 40960)
    assert set(uses) == {"0", "1", "2", "GPU-aa", "GPU-bb", "GPU-cc"}


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("exit 9", "ended with status 9"),
        (printing(LINES) + "\nexit 3", "ended with status 3"),
        (printing(LINES + "No devices were found\n"), "wrote 'No devices were found'"),
        (printing("0, GPU-aa, 1e400, 1, 2\n"), "wrote '0, GPU-aa, 1e400"),
        (printing("0, GPU-aa, 1, 2\n"), "must be number, UUID and three figures"),
        (printing("0, GPU-<b>, 1, 2, 3\n"), "must be number, UUID and three figures"),
        (r"printf '\033[2J\377\n'", r"wrote '\\\\x1b"),
        ("while :; do echo 0123456789012345678901234567890123456789; done", "wrote more than 65536 bytes"),
    ],
)
def test_other_output_is_refused(smi, script, why):
    smi(script)
    with pytest.raises(GpuUseError, match=why):
        read_gpu_use()


@pytest.mark.parametrize("script", ["exec sleep 600", "sleep 600 & exit 0", "exec >&-; exec sleep 600"])
def test_a_command_that_does_not_answer_is_killed(smi, monkeypatch, script):
    monkeypatch.setattr(gpu_use, "_ANSWER_SECONDS", 0.05)
    smi(script)
    with pytest.raises(GpuUseError, match=r"did not answer within 0.05 s"):
        read_gpu_use()


def test_a_command_that_cannot_be_called_is_named(smi):
    smi("")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PATH", "/nowhere")
        with pytest.raises(GpuUseError, match="nvidia-smi cannot be called: "):
            read_gpu_use()


@pytest.mark.parametrize(
    ("visible", "devices"), [(None, ["0", "1"]), ("2,0,1,3", ["2", "0"]), ("GPU-cc,GPU-aa,1,3", ["2", "0"])]
)
def test_a_running_job_has_the_use_of_its_gpus(tmp_path, smi, monkeypatch, visible, devices):
    smi(printing(LINES))
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    service = two_gpus(tmp_path / "live")
    assert job_view(service.record, "runs")["gpu_use"] == []
    asyncio.run(service.launcher.look_at_gpus())
    used = job_view(service.record, "runs")["gpu_use"]
    assert [one["device"] for one in used] == devices
    assert {"device": "0", "percent": 35, "used_mib": 1024, "total_mib": 40960} in used
    assert [job["gpu_use"] for job in jobs_view(service.record, False, 10)] == [used, []]


def test_use_that_is_unknown_is_noted_once(tmp_path, smi):
    smi(printing(LINES))
    service = two_gpus(tmp_path / "live")
    asyncio.run(service.launcher.look_at_gpus())
    smi("exit 9")
    for _ in range(3):
        asyncio.run(service.launcher.look_at_gpus())
        assert job_view(service.record, "runs")["gpu_use"] == []
    assert notes(service) == ["the use of GPUs is unknown: nvidia-smi ended with status 9"]
    smi(printing(LINES))
    asyncio.run(service.launcher.look_at_gpus())
    assert len(job_view(service.record, "runs")["gpu_use"]) == 2
    smi("exit 9")
    asyncio.run(service.launcher.look_at_gpus())
    assert len(notes(service)) == 2


def test_nothing_is_asked_without_nvidia_smi_or_without_gpus(tmp_path, smi, monkeypatch):
    asked = []

    def ask():
        asked.append(True)
        raise GpuUseError("it was asked")

    monkeypatch.setattr("copter.live.launcher.read_gpu_use", ask)
    service = two_gpus(tmp_path / "live")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PATH", "/nowhere")
        asyncio.run(service.launcher.watch_gpus())
    service.close()
    smi(printing(LINES))
    slots = make_service(tmp_path / "paced", cluster=CLUSTER.model_copy(update={"pace": PaceFile()}))
    asyncio.run(slots.launcher.watch_gpus())
    asyncio.run(slots.launcher.look_at_gpus())  # no job runs
    slots.close()
    assert not asked
