"""`copter run cluster` as a user types it."""

import json
import re

from copter.problems.cluster.experiment import _PLACERS, Setup
from copter.problems.cluster.registry import make_policy
from support.commands import invoke
from support.commands import words as printed

SMALL = ["--cluster", "heterogeneous-64", "--trace", "philly", "--jobs", "16"]


def test_the_report_is_one_page_that_needs_nothing_else(tmp_path):
    invoke("run", "cluster", *SMALL, "--policy", "srtf,tiresias", "--out", str(tmp_path / "run"))
    page = (tmp_path / "run" / "report.html").read_text()
    assert "<svg" in page and "tiresias" in page
    assert not re.findall(r'(?:src|href)="(?!data:|#)', page)
    assert "report.html" in (tmp_path / "run" / "README.txt").read_text()


HEAD = "name,time,category,application,tuned_gpus\n"


def test_by_default_rigid_jobs_may_share_nodes_and_others_may_not(tmp_path):
    """Two jobs of 12 GPUs on three nodes of 8: they have room only if both are on one of the nodes."""
    file = tmp_path / "mine.csv"
    file.write_text(HEAD + "a,0,large,imagenet,12\nb,0,large,imagenet,12\n")
    together = {}
    for placement in ("auto", "sia", "shared", "none"):
        setup = Setup(cluster="elasticflow-24", trace=str(file), placement=placement, max_hours=0.5)
        first = next(iter(setup.simulator("gavel", 0).run()))
        together[placement] = (first.running, first.evicted)
    assert together == {"auto": (2, 0), "sia": (1, 1), "shared": (2, 0), "none": (2, 0)}
    auto = _PLACERS["auto"]
    assert [auto(make_policy(name))._sharing for name in ("sia", "pollux", "gavel")] == [False, False, True]


def test_jobs_that_do_not_fit_are_counted_for_each_policy(tmp_path):
    file = tmp_path / "mine.csv"
    file.write_text(HEAD + "a,0,small,cifar10,2\nb,0,large,imagenet,32\n")
    words = ["--cluster", "elasticflow-8", "--trace", str(file), "--policy", "sia,srpt", "--seeds", "2"]
    policies = json.loads(invoke("run", "cluster", *words, "--json").stdout)["policies"]
    assert {name: one["rejected"] for name, one in policies.items()} == {"sia": 0, "srpt": 1}
    said = printed(invoke("run", "cluster", *words, "--out", str(tmp_path / "run")))
    assert "jobs that do not fit on the cluster: srpt 1)" in said
