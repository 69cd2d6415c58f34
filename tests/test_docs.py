"""What the docs' site takes from the source is there."""

import importlib
import json
import re
from pathlib import Path

import pytest

from copter.bench.report.page import make_report
from copter.bench.reproduction import reproductions
from copter.bench.result_files import load_suite
from copter.bench.statistics import verdicts
from copter.cli.suite import notes_of
from support.commands import invoke

ROOT = Path(__file__).parents[1]
ROLE = re.compile(r":(?:class|func|meth|mod|data|attr|exc):`~?((?:copter)?\.[\w.]+)`")
FILES = sorted((ROOT / "copter").rglob("*.py"))


def find(path):
    """The object of a dotted path, or raise what importing and looking it up raises."""
    parts = path.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for name in parts[count:]:
            found = getattr(found, name)
        return found
    raise ModuleNotFoundError(path)


def package_of(file):
    """The package that a path with a leading dot is relative to."""
    parts = file.relative_to(ROOT).parent.parts
    return ".".join(parts if parts[0] == "copter" else ("copter", *parts))


def roles():
    for file in FILES:
        for path in sorted(set(ROLE.findall(file.read_text()))):
            whole = package_of(file) + path if path.startswith(".") else path
            yield pytest.param(whole, id=f"{file.relative_to(ROOT)}:{path}")


@pytest.mark.parametrize("path", list(roles()))
def test_what_a_docstring_names_exists(path):
    try:
        find(path)
    except AttributeError:
        # An attribute that instances have is named by its class's docstring.
        home, _, name = path.rpartition(".")
        assert name in (find(home).__doc__ or "")


@pytest.fixture
def build(monkeypatch):
    """The generator of all pages with measured figures: `make benchmarks` runs it; nobody edits them."""
    monkeypatch.syspath_prepend(str(ROOT / "docs/site"))
    return importlib.import_module("build")


def test_the_table_of_the_readme_is_what_the_results_of_the_suite_say(build):
    suite = load_suite(build.RESULTS)
    assert (ROOT / "README.md").read_text() == build.readme(suite)
    assert (ROOT / "bench/results/benchmarks.md").read_text() == build.benchmarks_page(suite)


def test_the_readme_shows_lines_that_copter_loses(build):
    suite = load_suite(build.RESULTS)
    lost = {one.line for one in verdicts(suite) if not one.won}
    assert len(build.IN_README) <= 8
    assert len(lost & set(build.IN_README)) >= min(3, len(lost))


def test_the_page_of_the_shards_is_what_the_documents_say(build, tmp_path):
    import shards

    assert (ROOT / "bench/results/shards.md").read_text() == shards.page(ROOT)
    options = "--shards 32 --servers 4 --rounds 2 --no-isolate --solvers copter,heuristic".split()
    path = tmp_path / shards.FOLDER / "zipf-16384.json"
    path.parent.mkdir(parents=True)
    invoke("bench", "load-balancing", *options, "--json", path)
    text = shards.page(tmp_path)
    assert text.count("Not measured yet.") == len(shards.WORKLOADS) - 1
    assert "| `copter` |" in text and "| bound |" in text and " of 2 |" in text


@pytest.mark.long
def test_the_page_of_the_papers_is_what_the_documents_say(build):
    assert (ROOT / "bench/results/papers.md").read_text() == build.papers_page()


@pytest.mark.long
def test_the_page_of_the_suite_is_what_its_results_say(build):
    """Its pictures hang on the version of matplotlib; that they are there is what can be held here."""
    made = make_report(load_suite(build.RESULTS), notes_of(build.RESULTS), build.PAPERS)
    assert (ROOT / "bench/results/report.md").read_text() == build.report_page(made)
    there = {file.stem for file in (ROOT / "bench/results/full/pictures").glob("*.svg")}
    assert there == {picture.name for picture in made.pictures}


@pytest.mark.parametrize("file", sorted((ROOT / "bench/results/papers").glob("*.json")), ids=lambda f: f.stem)
def test_a_document_of_a_paper_is_of_the_reproduction_that_there_is(file):
    """Figures of another set-up than the code's are to be measured again, or to go."""
    document = json.loads(file.read_text())
    one = reproductions()[document["name"]]
    assert file.stem == one.name
    for name in ("title", "source", "differs", "needs_data", "deviations"):
        assert document[name] == getattr(one, name), name
    assert document["workloads"] == one.played(document["settings"]["seeds"])
    figures = {(figure["row"], figure["column"]): figure["paper"] for figure in document["figures"]}
    for place, value in one.printed.items():
        assert figures[place] == pytest.approx(value, rel=1e-3), place


def test_texts_of_the_tables_are_copied_to_a_document(build, tmp_path, monkeypatch):
    name = "sia-table-3.3-philly"
    document = json.loads((build.PAPERS / f"{name}.json").read_text())
    old = document | {
        "title": "Old",
        "differs": "Old.",
        "figures": [dict(one) for one in document["figures"]],
    }
    del old["workloads"]
    old["figures"][0]["paper"] = 7.0
    (tmp_path / f"{name}.json").write_text(json.dumps(old))
    monkeypatch.setattr(build, "PAPERS", tmp_path)
    build.renew(name)
    assert json.loads((tmp_path / f"{name}.json").read_text()) == document


def test_the_reference_of_the_site_has_a_page_for_what_is_public(monkeypatch):
    """The packages of users' names are there; this needs no generator of sites."""
    monkeypatch.syspath_prepend(str(ROOT / "docs/site"))
    api = importlib.import_module("api")
    made = list(api.pages())
    assert {"copter", "copter.errors", "copter.solvers.api", "copter.ray"} <= {one[0] for one in made}
    assert len({one[:2] for one in made}) == len(made) > 20
    monkeypatch.setitem(api.PAGES["copter"], "Rounding", "ChooseOneShim")
    with pytest.raises(ValueError, match="no page of copter has CountShim"):
        list(api.pages())


def test_the_pages_of_the_site_are_those_of_the_folder():
    """mkdocs reports a page that is in no menu; here without building the site."""
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    named = set(re.findall(r"^ +- (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    assert pages == named | {"index.md"}


def test_the_page_of_errors_lists_every_error_and_status():
    from copter import Status, errors

    page = (ROOT / "docs/reference/errors.md").read_text()
    listed = dict(re.findall(r"^\| `(\w+)` \| (`[^|]*`) \|", page, re.MULTILINE))
    every = {name: each for name, each in vars(errors).items() if isinstance(each, type)}
    own = {name for name, each in every.items() if issubclass(each, errors.CopterError)} - {"CopterError"}
    assert set(listed) == own
    for name, bases in listed.items():
        assert {base.__name__ for base in every[name].__bases__} - {"CopterError"} == set(
            re.findall(r"\w+", bases)
        )
    statuses = re.findall(r"^\| `([a-z_]+)` \|", page, re.MULTILINE)
    assert sorted(statuses) == sorted(str(status) for status in Status)


def test_the_glossary_defines_the_term_of_every_public_class():
    import copter

    page = (ROOT / "docs/reference/glossary.md").read_text()
    classes = {name for name in copter.__all__ if isinstance(getattr(copter, name), type)}
    assert len(classes) > 20 and set(re.findall(r"`([A-Z]\w+)`", page)) == classes
    functions = set(re.findall(r"`([a-z_]+)`", page)) & set(copter.__all__)
    assert functions == {"certify"}
    assert hasattr(copter.make_solver("copter"), "warm_up")
    assert hasattr(copter.ContinualProgram(), "primal_repair")


def test_contributing_says_where_things_happen():
    """In a row of the table, each function is in one of the row's files."""
    rows = re.findall(r"^\| (Wh\w+ .*?\?) \| (.*) \|$", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    assert len(rows) >= 10
    for question, place in rows:
        words = re.findall(r"`([^`]+)`", place)
        files = [ROOT / word for word in words if "/" in word]
        assert all(file.exists() for file in files), question
        text = "".join(file.read_text() for file in files if file.is_file())
        for name in words:
            if name.isidentifier() and name[0].islower():
                assert f"def {name}(" in text, (question, name)
