"""Fields of a job for the policy, read from its request to Slurm and its comment.

    sbatch --hold --gres=gpu:1 --comment='copter: gpus=1..8 kind=adaptive work=20000 batch_size=128' train.sh

The words after ``copter:`` are fields of :class:`copter.live.files.JobFile`, and ``gpus`` may be a range.  A
job without this comment is rigid: it starts with the GPUs that it requests.
"""

from __future__ import annotations

import re
from dataclasses import replace

from copter.live.files import JobFile, JobFileError, checked
from copter.problems.cluster.workload import JobSubmission
from copter.slurm.read import SlurmJob

_PREFIX = "copter:"
_FIELDS = (
    *("gpus", "kind", "work", "batch_size", "max_batch_size", "max_local_batch", "seconds", "priority"),
    "restart_seconds",
)
_COUNTS = frozenset(("batch_size", "max_batch_size", "max_local_batch", "priority"))
_RANGE = re.compile(r"(\d+)(?:\.\.(\d+))?", re.ASCII)
_WORK, _BATCH = 100_000.0, 128
"""Work and initial batch of a job that declares none."""
_DEFAULT_SECONDS = 3600.0


class Declared(JobFile):
    """A job as a policy sees it; `tenant` is its account in Slurm, or its user if it has no account."""

    tenant: str = ""

    def submission(self, name: str, time: float) -> JobSubmission:
        """Return the job as a submission for policies."""
        return replace(super().submission(name, time), tenant=self.tenant)


def is_flexible(job: SlurmJob) -> bool:
    """Return whether a job lets the policy choose its number of GPUs."""
    return job.comment.strip().startswith(_PREFIX)


def declared(job: SlurmJob, types: tuple[str, ...] = ()) -> Declared:
    """Return what a job with GPUs declares; raise JobFileError if its comment is invalid.

    `types`: the policy's names of the types of GPUs that can run the job; all if empty.
    """
    fields: dict[str, object] = {
        "command": ("sbatch",),
        "name": job.key,
        "tenant": job.account or job.user,
        "priority": min(max(-job.nice, -1000), 1000),
        "types": types,
    }
    if not is_flexible(job):
        limit = _DEFAULT_SECONDS if job.limit is None else job.limit
        return checked(fields | {"gpus": job.gpus, "seconds": limit}, Declared, f"job {job.key}")
    where = f"job {job.key}: comment"
    fields |= {"kind": "strong-scaling", "work": _WORK, "batch_size": _BATCH}
    fields["preemptible"] = job.requeues and not (job.held and job.hosts)
    fields |= {"min_gpus": 1, "max_gpus": None}
    for word in job.comment.strip().removeprefix(_PREFIX).split():
        name, equals, value = word.partition("=")
        if not equals or name not in _FIELDS:
            raise JobFileError(f"{where}: {word!r}: must be FIELD=VALUE, with one of {', '.join(_FIELDS)}")
        if name == "gpus":
            found = _RANGE.fullmatch(value)
            if found is None:
                raise JobFileError(f"{where}: gpus = {value!r}: must be a number or a range such as 1..8")
            fields |= {"min_gpus": int(found[1]), "max_gpus": int(found[2] or found[1])}
        elif name == "kind":
            fields[name] = value
        else:
            fields[name] = _value(value, f"{where}: {name}", whole=name in _COUNTS)
    if fields["kind"] == "rigid":
        raise JobFileError(f"{where}: kind: must be adaptive or strong-scaling; a rigid job has no comment")
    return checked(fields, Declared, where)


def _value(text: str, where: str, *, whole: bool) -> float:
    try:
        return int(text) if whole else float(text)
    except ValueError:
        raise JobFileError(f"{where} = {text!r}: must be a number") from None
