"""Dry runs of submissions: the refusals of a submission, true sentences, and no change."""

import pytest

from copter.live.admission import RefusedError
from support.live_cases import RIGID, begin, named, step, would_start


def said(service, **changes):
    job = service.admission.dry_run(named(RIGID, "new", **changes))
    return " ".join(would_start(service, job))


def test_what_is_free_is_said_and_nothing_changes(service):
    before = list(service.record.journal.events())
    text = said(service, gpus=2)
    assert "It needs 2 GPUs of one type; not given to any job: 4 a100, 8 t4. Enough GPUs are free now" in text
    assert "Before it there are 0 queued jobs" in text
    assert list(service.record.journal.events()) == before and not service.record.pending()
    service.admission.submit(named(RIGID, "new", gpus=2))  # the name is still new


def test_a_job_that_would_wait(service):
    for number in range(3):
        service.admission.submit(named(RIGID, f"big-{number}", gpus=4))
    step(service)
    begin(service, RIGID, "queued", gpus=4)
    given = service.record.state.given()
    assert sum(given.values()) == 12
    text = said(service, gpus=1, after=["big-0", "queued"])
    assert "not given to any job: 0 a100, 0 t4. Not enough GPUs of one type are free" in text
    assert "It would start after these jobs have completed: big-0, queued." in text
    assert "Before it there are 1 queued jobs" in text


@pytest.mark.parametrize(
    ("changes", "status"),
    [({"gpus": 99}, 422), ({"types": ["h100"]}, 422), ({"after": ["nobody"]}, 422), ({}, 409)],
)
def test_a_dry_run_is_refused_as_the_submission(service, changes, status):
    begin(service, RIGID, "there", gpus=1)
    file = named(RIGID, "new" if changes else "there", **changes)
    with pytest.raises(RefusedError) as dry:
        service.admission.dry_run(file)
    with pytest.raises(RefusedError) as real:
        service.admission.submit(file)
    assert str(dry.value) == str(real.value) and dry.value.status == real.value.status == status


def test_on_the_command_line(tmp_path, service, command):
    file = tmp_path / "job.toml"
    file.write_text('command = ["true"]\nname = "new"\ngpus = 2\n')
    code, shown = command(service, "submit", file, "--dry-run")
    assert code == 0 and "It needs 2 GPUs of one type" in shown
    assert not service.record.state.jobs
    assert command(service, "submit", file, "--dry-run", "--array", "2")[0] == 2
