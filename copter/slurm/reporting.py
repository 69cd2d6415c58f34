"""Reports of a Slurm job to `copter schedule`: the job's speed and gradient noise, in a file.

    from copter.slurm.reporting import write_report

    write_report(progress=1200.0, running_seconds=84.0, local_batch=128, step_seconds=0.07, steps=40)

The first process of a job calls this function regularly, for example every 30 seconds, in the working
directory of the job.  This module needs only the standard library.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path


def report_name(key: str) -> str:
    """Return the name of the report file of a job, in its working directory."""
    return f"copter-report-{key}.json"


def write_report(
    *,
    progress: float,
    running_seconds: float,
    local_batch: int,
    step_seconds: float,
    steps: int = 1,
    processes: int | None = None,
    saved_progress: float = 0.0,
    squared_norm: float | None = None,
    variance: float | None = None,
    folder: str | Path = ".",
) -> Path:
    """Write a report of the present job, which replaces its last report.

    Parameters
    ----------
    progress : float
        Progress of the whole job, in steps at its initial batch size.
    running_seconds : float
        Seconds since the first step after the present start.
    local_batch, step_seconds, steps : int, float, int
        Examples on each GPU, mean seconds of a step, and number of steps since the last report.
    processes : int, optional
        Number of GPUs; default: the tasks of the job.
    saved_progress : float
        Progress at the last checkpoint.
    squared_norm, variance : float, optional
        Squared norm and variance of the gradient at the initial batch size, if measured.
    folder : path
        Working directory of the job.

    Returns
    -------
    Path
        The file.
    """
    array, job = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ["SLURM_JOB_ID"]
    key = job if array is None else f"{array}_{os.environ['SLURM_ARRAY_TASK_ID']}"
    count = int(os.environ.get("SLURM_NTASKS", "1")) if processes is None else processes
    report = {
        "progress": progress,
        "steps": steps,
        "running_seconds": running_seconds,
        "times": [{"local_batch": local_batch, "count": steps, "log_seconds": math.log(step_seconds)}],
        "squared_norm": squared_norm,
        "variance": variance,
        "batch_size": local_batch * count,
        "saved_progress": saved_progress,
    }
    path = Path(folder) / report_name(key)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(report, allow_nan=False))
    part.replace(path)
    return path
