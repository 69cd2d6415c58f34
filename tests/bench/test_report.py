"""The report of a suite: every figure again from the JSON, nothing missing, hidden or fetched."""

import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest
import standings

from copter.bench.report import papers
from copter.bench.report.page import make_report, write_report
from copter.bench.report.sections import first_screen
from copter.bench.result_files import load_suite
from copter.errors import FileError
from support.commands import invoke
from support.sample_suite import sample, save, solver

UNITS = {"µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "MB": 1.0, "GB": 1e3, "×": 1.0, "": 1.0}
ROUNDED = 0.0051
"""Three digits: half of the last one, relative."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder of results with its report."""
    path = save(tmp_path_factory.mktemp("suite"), sample())
    write_report(make_report(load_suite(path), {"sia-64": "Small & simple."}), path)
    return path


@pytest.fixture(scope="module")
def page(folder):
    """The page as elements."""
    text = (folder / "report.html").read_text()
    return ET.fromstring(text.removeprefix("<!doctype html>\n"))


def value(text):
    """A figure as it is written, with its unit."""
    found = re.fullmatch(r"(?:≥ )?(-?[\d.,]+(?:e-?\d+)?) ?(\D*)", text)
    assert found, text
    return float(found[1].replace(",", "")) * UNITS[found[2]]


def says(element):
    return " ".join("".join(element.itertext()).split())


def documents(folder):
    """Line, solver and document of each, read by nothing of ours."""
    for name in json.loads((folder / "suite.json").read_text())["order"]:
        line = json.loads((folder / "lines" / name / "line.json").read_text())
        for each in line["order"]:
            yield line, each, json.loads((folder / "lines" / name / f"{each}.json").read_text())


def times(line, document):
    seconds = document["records"].get("seconds", [])
    return np.array(seconds[line["left_out"] :] or seconds)


def rows_of(page, line):
    """Rows of a line's table by solver."""
    section = next(one for one in page.iter("section") if one.get("id") == line["family"])
    found, head = {}, ""
    for row in section.find(".//tbody"):
        cells = [says(cell) for cell in row]
        head = cells[0] or head
        if head == line["title"]:
            found[cells[1]] = cells
    return found


def test_every_figure_is_that_of_the_json(folder, page):
    seen = 0
    for line, name, document in documents(folder):
        row = rows_of(page, line)[name]
        if document["status"] != "measured":
            assert document["status"] in row[8] and document["reason"] in row[8]
            assert set(row[2:8]) == {"–"}
            continue
        seconds = times(line, document)
        assert value(row[2]) == pytest.approx(np.median(seconds), rel=ROUNDED)
        assert value(row[3]) == pytest.approx(np.percentile(seconds, 99), rel=ROUNDED)
        gaps = document["records"]["checked_gap"][line["left_out"] :]
        assert value(row[5]) == pytest.approx(max(gaps), rel=0.051)
        assert value(row[6]) == pytest.approx(document["peak_memory_mb"], rel=ROUNDED)
        certified = all(document["records"]["certified"])
        assert row[8].startswith("certified" if certified else "not certified in 7 of 7")
        seen += 1
    assert seen == 34


def test_ratios_are_those_of_the_same_rounds(folder, page):
    ours = {}
    for line, name, document in documents(folder):
        row = rows_of(page, line)[name]
        if name == "copter":
            ours[line["name"]] = times(line, document)
            assert row[4] == "–"
        elif document["status"] == "measured":
            each = times(line, document) / ours[line["name"]]
            middle, low, high = map(value, re.fullmatch(r"(.*) \((.*) to (.*)\)", row[4]).groups())
            expected = np.median(each), each.min(), each.max()
            assert (middle, low, high) == pytest.approx(expected, rel=ROUNDED)


def fastest(folder):
    """The fastest certified solver of each line, copter's variants aside, and copter's median."""
    found = {}
    for line, name, document in documents(folder):
        one = found.setdefault(line["name"], {"title": line["title"], "others": {}, "copter": np.inf})
        if document["status"] == "measured" and all(document["records"]["certified"]):
            median = np.median(times(line, document))
            if name == "copter":
                one["copter"] = median
            elif not name.startswith("copter"):
                one["others"][name] = median
    return found


def test_the_first_screen_names_every_line_that_copter_loses(folder, page):
    found = fastest(folder)
    lost = {
        name
        for name, one in found.items()
        if not np.isfinite(one["copter"]) or min(one["others"].values(), default=np.inf) < one["copter"]
    }
    assert lost == {"sia-64", "lp-hard"}
    header = page.find(".//header")
    items = [says(item) for item in header.iter("li")]
    assert {re.search(r"\((.*?)\)", item)[1] for item in items} == lost
    assert f"On {len(found) - len(lost)} of {len(found)} lines" in says(header)
    slower = next(item for item in items if "sia-64" in item)
    assert found["sia-64"]["title"] in slower and "highs-hot" in slower and "Small & simple." in slower
    medians = re.search(r"medians (.*) and (.*)\)", slower).groups()
    expected = found["sia-64"]["copter"], found["sia-64"]["others"]["highs-hot"]
    assert tuple(map(value, medians)) == pytest.approx(expected, rel=ROUNDED)
    assert value(re.search(r"takes (.*?×)", slower)[1]) > 1.0
    assert "no certified answer" in next(item for item in items if "lp-hard" in item)


def test_the_page_stands_alone(folder, page):
    text = (folder / "report.html").read_text()
    assert not re.search(
        r"https?:|//|@import|<(link|script|img|iframe|object)\b", text.partition("<body>")[0]
    )
    assert not re.search(r"<(link|script|img|iframe|object)\b|\bsrc=|url\((?!#)", text)
    ids = [one.get("id") for one in page.iter() if one.get("id") is not None]
    assert len(ids) == len(set(ids))
    targets = [one.get("href") for one in page.iter() if one.get("href") is not None]
    targets += [f"#{name}" for name in re.findall(r"url\(#(\w+)\)", text)]
    assert targets and all(target[0] == "#" and target[1:] in ids for target in targets)


def test_markdown_says_the_same(folder, page):
    text = (folder / "report.md").read_text()
    rows = [
        [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in text.splitlines()
        if line.startswith("| ") and "---" not in line
    ]
    for table in page.iter("table"):
        for row in [table.find("thead")[0], *table.find("tbody")]:
            cells = [
                says(cell).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") for cell in row
            ]
            assert cells in rows
    linked = re.findall(r"!\[.*?\]\((.*?)\)", text)
    assert len(linked) == len(list(page.iter("svg"))) == len(list((folder / "pictures").iterdir()))
    for name in linked:
        ET.parse(folder / name)
    for line, _, _ in documents(folder):
        assert line["command"] in text


def test_a_claim_that_the_checker_refuses_is_in_the_first_screen(folder):
    suite = load_suite(folder)
    line = suite.lines["sia-64"]
    liar = solver("highs-hot", 1e-5, certified=False)
    liar = replace(liar, records=[record | {"disagrees": True} for record in liar.records])
    lines = suite.lines | {"sia-64": replace(line, solvers=line.solvers | {"highs-hot": liar})}
    first = first_screen(replace(suite, lines=lines), {})
    assert "highs-hot on sia-64 (7 of 7 rounds)" in " ".join(first.remarks)
    assert "sia-64" not in {one.line for one in first.lost}, "a wrong answer wins nothing"


PAPER = {
    "name": "thesis-table-0",
    "title": "A table",
    "source": "thesis, Table 0",
    "differs": "Everything.",
    "settings": {"seeds": 2, "seed": 0, "quick": False, "data": True},
    "figures": [
        {"row": "COpter", "column": "p99", "unit": "s", "ours": 0.5, "paper": 6.5, "std": None},
        {"row": "LP*", "column": "p99", "unit": "s", "ours": 4.0, "paper": None, "std": 0.25},
    ],
}


def test_printed_values_and_published_results_are_counted_separately(tmp_path):
    """A repeated workload counts once."""
    name = "sia-table-3.3-philly"
    figures = [
        {"row": "Philly Sia", "column": "makespan", "unit": "h", "ours": 14.2, "paper": 14.2, "std": None},
        {"row": "Philly Sia", "column": "worst FTF", "unit": "", "ours": 2.0, "paper": 1.0, "std": None},
    ]
    document = PAPER | {"name": name, "figures": figures, "wall_seconds": 1.0}
    document["settings"] = document["settings"] | {"seeds": 10}
    (tmp_path / "a.json").write_text(json.dumps(document))
    (one,), _ = standings.standings(tmp_path)
    assert (one.printed.figures, one.printed.near, one.published.figures, one.published.far) == (1, 1, 1, 0)
    assert one.workloads == 4


def test_a_broken_document_of_a_paper_is_named(tmp_path):
    (tmp_path / "thesis-table-0.json").write_text("{}")
    with pytest.raises(FileError, match="thesis-table-0"):
        papers.claims(tmp_path)


def test_the_command_writes_the_report(folder, tmp_path):
    (folder / "notes.json").write_text(json.dumps({"sia-64": "Noted."}))
    invoke("bench", "report", folder, "--out", tmp_path / "out")
    assert "Noted." in (tmp_path / "out" / "report.html").read_text()
    assert (tmp_path / "out" / "report.md").exists()
    (folder / "notes.json").write_text("[1]")
    result = invoke("bench", "report", folder, "--out", tmp_path / "out", code=1)
    assert isinstance(result.exception, FileError)
