"""The folder of `copter run cluster`: rounds, jobs and allocations of every policy, and report.html."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from copter.cli.console import table
from copter.cli.run import CommandRun
from copter.cli.runfolder import RowFile, RunFolder
from copter.problems.cluster.experiment import PolicyOutcome, averages
from copter.problems.cluster.report.page import table_columns, table_rows, write_page
from copter.problems.cluster.results import ClusterRecord, JobRecord, Segment, columns

if TYPE_CHECKING:
    from copter.problems.cluster.cli import ClusterRunOptions

_WHO = {"policy": "name of the policy", "seed": "seed of the sample of the trace"}
_ROUND = _WHO | columns(ClusterRecord)


class ClusterRun(CommandRun):
    """Simulations of several policies, with their run folder, if any."""

    meaning = "metrics of each policy: mean, _std, and the interval of the mean, _low to _high"

    def __init__(self, options: ClusterRunOptions, path: Path | None) -> None:
        title = f"{options.trace} on {options.cluster}, {options.seeds} seeds: {', '.join(options.policies)}"
        super().__init__(options, path, title)
        self.outcomes: list[PolicyOutcome] = []
        self._files: dict[str, RowFile] = {}
        if self._folder is not None:
            for name, meanings, row in (
                ("rounds.csv", _ROUND, "round"),
                ("jobs.csv", _WHO | columns(JobRecord), "job"),
                ("allocations.csv", _WHO | columns(Segment), "interval in which a job held the same GPUs"),
            ):
                self._files[name] = self._folder.rows(name, meanings, f"a row per policy, seed and {row}:")

    def take(self, outcome: PolicyOutcome) -> None:
        """Record the outcome of a policy with a seed."""
        self.outcomes.append(outcome)
        if self._folder is None:
            return
        who = {"policy": outcome.policy, "seed": outcome.seed}
        for record in outcome.rounds:
            self._files["rounds.csv"].write(who | _round(record))
        for job in outcome.jobs:
            self._files["jobs.csv"].write(who | asdict(job))
        for segment in outcome.segments:
            place = " ".join(f"{node}:{gpus}" for node, gpus in segment.place or ())
            self._files["allocations.csv"].write(who | asdict(segment) | {"place": place})

    def figures(self) -> dict[str, Any]:
        """Return the metrics of the run."""
        first = self.outcomes[0]
        policies = averages(self.outcomes)
        for name, one in policies.items():
            mine = [len(outcome.rejected) for outcome in self.outcomes if outcome.policy == name]
            one["rejected"] = sum(mine) / len(mine)
        return {
            "gpus": first.scenario.cluster.gpus,
            "jobs": len(first.scenario.jobs),
            "policies": policies,
        }

    def write(self, folder: RunFolder) -> None:
        """Write the report."""
        write_page(folder.path / "report.html", self.title, self.outcomes, self.summary["policies"])
        folder.note("report.html", "pictures and tables of this run in one page without other files")

    def print_summary(self) -> None:
        """Print the table of policies."""
        jobs, gpus, policies = (self.summary[name] for name in ("jobs", "gpus", "policies"))
        rejected = [f"{name} {one['rejected']:g}" for name, one in policies.items() if one["rejected"]]
        note = f"; jobs that do not fit on the cluster: {', '.join(rejected)}" if rejected else ""
        table(
            f"{self.title} ({jobs} jobs, {gpus} GPUs{note})",
            table_columns(),
            table_rows(policies),
        )


def _round(record: ClusterRecord) -> dict[str, Any]:
    row = {name: getattr(record, name) for name in _ROUND if name not in _WHO}
    return row | {"gpus": sum(record.gpus.values()), "there": sum(record.there.values())}
