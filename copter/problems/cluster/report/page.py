"""Sections of the page of a run of policies: completion times, fairness and load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from copter.bench.report.model import Claim, Picture
from copter.cli.plots import cumulative, over_time
from copter.problems.cluster.experiment import PolicyOutcome
from copter.problems.cluster.report.fairness import finish_time_fairness, first_waits


def sections(outcomes: Sequence[PolicyOutcome]) -> list[Claim]:
    """Return the sections about some outcomes; pictures over time show the first seed only."""
    by_policy: dict[str, list[PolicyOutcome]] = {}
    for outcome in outcomes:
        by_policy.setdefault(outcome.policy, []).append(outcome)
    first = {name: listed[0] for name, listed in by_policy.items()}
    return [
        Claim("completion", "Job completion times", pictures=(_completion(by_policy),)),
        Claim(
            "fairness",
            "Finish time fairness",
            "Completion time over the time on a fair share alone; above 1 is unfair.",
            (_fairness(by_policy),),
        ),
        Claim("load", "Jobs and GPUs over time", pictures=_load(first)),
    ]


def _completion(by_policy: Mapping[str, Sequence[PolicyOutcome]]) -> Picture:
    samples = {
        name: [job.jct / 3600.0 for one in listed for job in one.jobs if job.jct > 0]
        for name, listed in by_policy.items()
    }
    return cumulative("jct", samples, "job completion time (hours)", "Share of the jobs that complete within")


def _fairness(by_policy: Mapping[str, Sequence[PolicyOutcome]]) -> Picture:
    samples = {
        name: [
            float(ratio)
            for one in listed
            for ratio in finish_time_fairness(one.scenario, one.jobs, waits=first_waits(one.jobs, one.rounds))
            if np.isfinite(ratio)
        ]
        for name, listed in by_policy.items()
    }
    return cumulative("ftf", samples, "finish time fairness", "Share of the jobs with a ratio of at most")


def _load(first: Mapping[str, PolicyOutcome]) -> tuple[Picture, Picture]:
    hours = {name: [record.time / 3600.0 for record in one.rounds] for name, one in first.items()}
    jobs = {name: [record.jobs for record in one.rounds] for name, one in first.items()}
    gpus = {name: [sum(record.gpus.values()) for record in one.rounds] for name, one in first.items()}
    return (
        over_time("jobs", hours, jobs, "jobs in the cluster", "Jobs in the cluster"),
        over_time("used", hours, gpus, "GPUs in use", "GPUs in use"),
    )
