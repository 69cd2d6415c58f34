"""Reports of flexible jobs: files in the jobs' working directories, whose content is not trusted."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from copter.errors import CopterError
from copter.live.files import checked
from copter.live.report import ReportBody
from copter.live.training.plan import TrainingReport
from copter.live.untrusted import read_record
from copter.slurm.read import SlurmJob
from copter.slurm.reporting import report_name

_log = logging.getLogger("copter.slurm")


class Reports:
    """Reports that have not been read before."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, int]] = {}

    def next(self, job: SlurmJob) -> TrainingReport | None:
        """Return the report of a job's present run; None if there is no new report, or if it is invalid."""
        try:
            path = Path(os.path.realpath(job.folder)) / report_name(job.key)
            found = path.lstat()
            version = found.st_ino, found.st_mtime_ns
            if self._seen.get(job.key) == version or found.st_mtime < job.began:  # known or of an earlier run
                return None
            self._seen[job.key] = version
            fields = read_record(path)
            return None if fields is None else checked(fields, ReportBody, f"job {job.key}: report").report()
        except FileNotFoundError:
            return None
        except (CopterError, OSError) as error:
            _log.warning("the report of job %s is not used: %s", job.key, error)
            return None
