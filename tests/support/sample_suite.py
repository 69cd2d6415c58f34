"""A folder of results as `copter bench all` leaves it, from figures that are made up."""

import math

import numpy as np

from copter.bench.result_files import (
    LineResult,
    SolverResult,
    SuiteResult,
    save_line,
    save_solver,
    save_suite,
)

MACHINE = {
    "system": "Linux",
    "architecture": "x86_64",
    "processor": "Some <fast> processor & more",
    "cores": 2,
    "memory_gb": 24.0,
    "versions": {"python": "3.11.7", "copter-opt": "0.1.0"},
}


def record(seconds, number, *, certified=True, gap=1e-6, **fields):
    """A round that took so long."""
    return {
        "round": number,
        "n_variables": 1000,
        "edit_seconds": 0.25 * seconds,
        "solve_seconds": 0.5 * seconds,
        "rounding_seconds": 0.25 * seconds,
        "seconds": seconds,
        "status": "optimal",
        "missed": False,
        "gap": gap,
        "checked_gap": gap,
        "certified": certified,
        "disagrees": False,
        **fields,
    }


def solver(name, seconds, *, rng=None, rounds=7, noise=0.1, certified=True, **fields):
    """A solver that took about so long in each round, the first ten times that."""
    rng = np.random.default_rng(len(name)) if rng is None else rng
    each = seconds * np.exp(noise * rng.standard_normal(rounds))
    each[0] *= 10.0
    gaps = 1e-6 * rng.random(rounds)
    records = [
        record(float(t), k, certified=certified, gap=float(g))
        for k, (t, g) in enumerate(zip(each, gaps, strict=True))
    ]
    given = {
        "label": name,
        "threads": 2,
        "status": "measured",
        "peak_memory_mb": 100.0,
        "seconds": 1.0,
    } | fields
    return SolverResult(solver=name, records=records, **given)


def not_run(name, reason, status="not run"):
    return SolverResult(solver=name, label=name, threads=2, status=status, reason=reason)


def line(name, family, solvers, *, title=None, order=None, **x):
    return LineResult(
        name=name,
        family=family,
        title=title or f"{family.capitalize()} {name}",
        command=f"copter bench all --profile quick --only {name} --threads 2 --out runs/{name}",
        tolerance=1e-4,
        threads=2,
        rounds=7,
        left_out=1,
        limit=60.0,
        x=x,
        checker="Residuals and gap recomputed from the program",
        order=tuple(order or [one.solver for one in solvers]),
        solvers={one.solver: one for one in solvers},
    )


def suite(lines, **fields):
    given = {
        "profile": "quick",
        "version": "0.1.0",
        "machine": MACHINE,
        "settings": {"threads": 2},
        "begun": "2026-11-22T10:00:00+00:00",
        "seconds": 123.4,
    } | fields
    return SuiteResult(
        order=tuple(one.name for one in lines), lines={one.name: one for one in lines}, **given
    )


def sample():
    """Lines of several families: copter wins most, loses `sia-64`, and is not certified on `lp-hard`."""
    lines = []
    for gpus, columns, ours, theirs in (
        (64, 740, 2e-3, 1.4e-3),
        (256, 3138, 2e-3, 3e-3),
        (1024, 32089, 3e-3, 3e-2),
    ):
        missed = not_run("highs-ipm", "no answer to round 0 within 60 s", "missed")
        lines.append(
            line(
                f"sia-{gpus}",
                "sia",
                [
                    solver("copter", ours),
                    solver("copter-cold", 5 * ours),
                    solver("highs-hot", theirs),
                    missed if gpus == 1024 else solver("highs-ipm", 20 * theirs, certified=gpus == 64),
                    solver("scs", 100 * ours, certified=False, compile_seconds=0.7),
                ],
                title=f"Sia, {gpus:,} GPUs",
                columns=float(columns),
            )
        )
    lines.append(
        line(
            "shards-256",
            "shards",
            [
                solver("copter", 5e-3),
                solver("highs-hot", 3e-2),
                not_run("glop", "no module of OR-Tools"),
                solver("pop-8", 1.0, certified=False),
            ],
            title="256 shards | 64 servers",
        )
    )
    hard = [
        solver("copter", 0.2, certified=False),
        solver("highs-simplex", 0.4),
        not_run("pdlp", "ValueError: <x>", "failed"),
    ]
    lines.append(line("lp-hard", "lp", hard, columns=5e4))
    lines.append(
        line(
            "lp-alone",
            "lp",
            [solver("copter", 0.2), not_run("highs-simplex", "missed at lp-hard")],
            columns=9e4,
        )
    )
    for k in range(3, 7):
        parts = [
            solver("copter", 1e-4 * 2**k, peak_memory_mb=10.0**k / 100),
            solver("highs-hot", 1e-3 * 4**k),
        ]
        lines.append(line(f"columns-1e{k}", "columns", parts, columns=10.0**k))
    for percent in (0.1, 1.0, 30.0):
        parts = [solver("copter", 1e-3 * percent), solver("copter-cold", 0.1)]
        lines.append(line(f"churn-{percent:g}", "churn", parts, churn=percent / 100.0))
    return suite(lines)


def save(folder, result):
    """Write a suite as its folder."""
    save_suite(folder, result)
    for one in result.lines.values():
        save_line(folder, one)
        for each in one.solvers.values():
            save_solver(folder, one.name, each)
    return folder


def lost(result):
    return [name for name, one in result.lines.items() if name in ("sia-64", "lp-hard")]


NAN = math.nan
