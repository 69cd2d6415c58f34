"""The page on production: systemd accepts the unit, and a backup of a running service can be restored."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from copter.cli.main import app
from support.live_cases import RIGID, begin, make_service, named, step

ROOT = Path(__file__).parents[2]
NAME = "copter.service"
UNIT = (ROOT / "docs/examples" / NAME).read_text()
PAGE = (ROOT / "docs/how-to/live-production.md").read_text()
ANALYZE = shutil.which("systemd-analyze")


@pytest.mark.skipif(ANALYZE is None, reason="no systemd")
def test_systemd_accepts_the_unit(tmp_path):
    unit = tmp_path / NAME
    text = UNIT.replace("/opt/copter/bin/copter", sys.executable).replace("User=copter", "User=root")
    unit.write_text(text)
    done = subprocess.run([ANALYZE, "verify", unit], capture_output=True, text=True, timeout=60)
    said = [line for line in done.stderr.splitlines() if NAME in line]
    assert not said and done.returncode == 0, done.stderr
    unit.write_text(text.replace("OOMPolicy=continue", "OOMPolicy=nothing"))
    wrong = subprocess.run([ANALYZE, "verify", unit], capture_output=True, text=True, timeout=60)
    assert "OOM policy" in wrong.stderr, "the check would have found a wrong value"


def test_the_command_of_the_unit_has_options_that_exist():
    (command,) = re.findall(r"^ExecStart=(.*)$", UNIT, re.MULTILINE)
    program, name, *arguments = shlex.split(command)
    assert (Path(program).name, name) == ("copter", "serve")
    known = CliRunner().invoke(app, ["serve", "--help"], env={"COLUMNS": "200"}).output
    options = [each for each in arguments if each.startswith("--")]
    assert len(options) >= 3 and all(option in known for option in options)


def test_the_dashboard_shows_all_metrics_and_no_others(tmp_path):
    """Names of metrics and of the values of labels are those of a service; only counters have a rate."""
    dashboard = json.loads((ROOT / "docs/examples/grafana.json").read_text())
    service = make_service(tmp_path / "live")
    begin(service, RIGID, "first", gpus=1)
    text = service.record.metrics.text(service.record, silent=False)
    service.close()
    families = list(text_string_to_metric_families(text))
    samples = {sample.name: family for family in families for sample in family.samples}
    shown = set()
    for panel in dashboard["panels"]:
        assert panel["title"] and panel["description"].endswith(".")
        for target in panel["targets"]:
            for name, how in re.findall(r"(copter_live_\w+)\{[^}]*\}(\[\w+\])?", target["expr"]):
                family = max(
                    (each for each in families if name.startswith(each.name)), key=lambda each: len(each.name)
                )
                shown.add(family.name)
                assert bool(how) == (family.type in ("counter", "histogram")), name
                assert name in samples or family.type == "counter", name
            for label, value in re.findall(r'(\w+)="(\w+)"', target["expr"]):
                there = {one.labels.get(label) for family in families for one in family.samples}
                assert value in there, target["expr"]
    assert shown == {each.name for each in families if not each.name.endswith("_created")}
    places = [panel["gridPos"] for panel in dashboard["panels"]]
    cells = [
        (x, y)
        for at in places
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(cells) == len(set(cells)) and max(x for x, _ in cells) == 23
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def test_a_backup_of_a_running_service_has_what_it_acknowledged(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names = {}
    exec(code, names)
    service = make_service(tmp_path / "live")
    for number in range(3):
        service.admission.submit(named(RIGID, f"job-{number}", gpus=1))
    step(service)
    names["back_up"](tmp_path / "live", tmp_path / "copy")
    token, running = service.token, {name: job.status for name, job in service.record.state.jobs.items()}
    service.close()
    restored = make_service(tmp_path / "copy", service.backend, service.record.clock)
    assert restored.token == token
    assert {name: job.status for name, job in restored.record.state.jobs.items()} == running
    assert set(running.values()) == {"running"} and len(running) == 3
