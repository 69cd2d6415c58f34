"""Metrics: counted as solved, text that the reference parser reads, labels that are bounded."""

from dataclasses import replace

import numpy as np
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from copter import ContinualProgram, make_solver
from copter.metrics import Metrics
from copter.solution import Start


def samples(metrics):
    families = text_string_to_metric_families(metrics.text())
    return {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}


@pytest.fixture
def program():
    program = ContinualProgram()
    program.add_resource("cpu", 3.0)
    usage = program.share_columns({"cpu": 1.0}, 1)
    program.add_requests(range(5), -np.arange(1.0, 6.0), [1] * 5, usage, upper=1.0)
    return program


def test_rounds_are_counted_by_domain_status_and_start(program):
    metrics, solver = Metrics(), make_solver("copter")
    first = solver.solve(program)
    metrics.observe(first, domain="sia")
    program.update_resources("cpu", upper=2.0)
    second = solver.solve(program)
    metrics.observe(second, domain="sia")
    metrics.observe(first, domain="traffic", seconds=7.0)
    seen = samples(metrics)
    assert seen["copter_rounds_total", "sia", "optimal"] == 2
    assert seen["copter_solve_seconds_count", "sia"] == 2
    seconds = first.timings.solve + second.timings.solve
    assert seen["copter_solve_seconds_sum", "sia"] == pytest.approx(seconds)
    assert seen["copter_solve_seconds_sum", "traffic"] == 7.0
    assert seen["copter_cold_starts_total", "sia", "first_round"] == 1
    assert seen["copter_churn", "sia"] == second.churn
    assert seen["copter_highs_fallbacks_total", "sia"] == 0


def test_what_nobody_knows_is_in_the_last_bucket_and_under_the_label_other(program):
    metrics = Metrics()
    solution = make_solver("copter").solve(program)
    unknown = replace(solution.relative, gap=np.nan)
    for _ in range(3):
        odd = replace(solution, relative=unknown, start=Start(False, "odd"), details={"highs_fallbacks": 2.0})
        metrics.observe(odd)
    seen = samples(metrics)
    assert seen["copter_gap_bucket", "lp", "1.0"] == 0 and seen["copter_gap_bucket", "lp", "+Inf"] == 3
    assert seen["copter_cold_starts_total", "lp", "other"] == 3
    assert seen["copter_highs_fallbacks_total", "lp"] == 6


@pytest.mark.parametrize("name", ["copter", "copter-cold", "highs-hot", "glop", "pdlp"])
def test_the_reason_of_every_solver_that_begins_cold_has_a_label(program, name):
    solution = make_solver(name).solve(program)
    metrics = Metrics()
    metrics.observe(solution)
    label = "always_cold" if name == "glop" else "switched_off" if name == "copter-cold" else "first_round"
    assert samples(metrics)["copter_cold_starts_total", "lp", label] == 1


def test_a_registry_of_ones_own_is_used(program):
    registry = CollectorRegistry()
    Metrics(registry).observe(make_solver("copter").solve(program))
    assert registry.get_sample_value("copter_rounds_total", {"domain": "lp", "status": "optimal"}) == 1
