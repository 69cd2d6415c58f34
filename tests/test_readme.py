"""README and docs are true: Python blocks run and print what stands below them, commands and links exist."""

import contextlib
import io
import re
import shlex
from itertools import zip_longest
from pathlib import Path

import pytest
import typer

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
FIRST = {"README.md", "quick-start.md"}
"""Pages whose blocks run in `make test`; others compile more kernels: `make test-long`."""
ON_RAY = re.compile(r"^from copter\.ray import", re.MULTILINE)
"""Import of a class that starts a Ray, or joins the one that runs."""


def blocks():
    """Each Python block with the text block that follows it at once, if one does: its output."""
    for page in PAGES:
        text = page.read_text()
        found = list(BLOCK.finditer(text))
        for one, after in zip_longest(found, found[1:]):
            if one[1] != "python":
                continue
            follows = after is not None and after[1] == "text" and not text[one.end() : after.start()].strip()
            name = f"{page.name}:{text[: one.start()].count(chr(10)) + 1}"
            marks = [] if page.name in FIRST else [pytest.mark.long]
            if ON_RAY.search(one[2]):
                marks = [pytest.mark.cluster]
            yield pytest.param(one[2], after[2] if follows else None, id=name, marks=marks)


@pytest.mark.parametrize(("code", "output"), list(blocks()))
def test_a_python_block_runs_and_prints_what_the_page_says(code, output, tmp_path, monkeypatch, request):
    if request.node.get_closest_marker("cluster"):
        request.getfixturevalue("local_ray")
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "<block>", "exec"), {"__name__": "__main__"})
    assert output is None or printed.getvalue() == output


INLINE = re.compile(r"`([^`\n]+)`")
CUT = re.compile(r"\s(?:[A-Z]{2,}|\.\.\.|\[)")
"""Where a command in a sentence names an argument instead of giving one: `copter run PAGE`."""


def commands(page):
    """The command lines of a page: those of its shell blocks, and `copter ...` in its sentences."""
    text = page.read_text()
    for language, body in BLOCK.findall(text):
        if language == "sh":
            joined = re.sub(r"\\\n\s*", " ", body)
            yield from (line.partition("#")[0].strip() for line in joined.splitlines())
    for inline in INLINE.findall(BLOCK.sub("", text)):
        if inline.startswith("copter "):
            yield CUT.split(inline.replace("'", ""))[0].strip()


def every_option(command):
    """The options of a command and of all commands below it."""
    yield from (name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts))
    for name in command.list_commands(None) if hasattr(command, "list_commands") else ():
        yield from every_option(command.get_command(None, name))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_exist_with_their_options(page):
    from copter.cli.main import app

    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for line in commands(page):
        tool, *words = shlex.split(line) or [""]
        if tool == "make":
            assert set(words) <= targets, line
        if tool != "copter" or words[1:2] == ["serving"]:  # of the example package
            continue
        command = typer.main.get_command(app)
        while hasattr(command, "get_command") and words and not words[0].startswith("-"):
            command = command.get_command(None, words.pop(0))
        assert command is not None, line
        options = {
            name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)
        }
        words = words[: words.index("--")] if "--" in words else words
        assert {word.partition("=")[0] for word in words if word.startswith("--")} <= options, line


OTHERS = {
    "--help",
    "--node-name",
    "--picture",
    "--coarse",
    "--begin",
    "--comment",
    "--gres",
    "--hold",
    "--nice",
    "--ntasks",
    "--constraint",
    "--exclude",
    "--gpus-per-node",
    "--gpus-per-task",
}
"""Options in sentences that every command has, or that are of Ray, Slurm, the gallery or an example."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_options_in_sentences_are_those_of_some_command(page):
    from copter.cli.main import app

    options = {*every_option(typer.main.get_command(app)), *OTHERS}
    text = BLOCK.sub("", page.read_text())
    named = {
        word for inline in INLINE.findall(text) for word in re.findall(r"(?<![\w-])--[a-z][\w-]*", inline)
    }
    assert named <= options, named - options


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for link in LINK.findall(page.read_text()):
        path, _, heading = link.partition("#")
        if path.startswith("http"):
            continue
        target = page.parent / path if path else page
        assert target.exists(), link
        if heading:
            titles = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)
            anchors = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
            assert heading in anchors, link


def test_the_example_of_the_readme_is_short():
    found = BLOCK.findall((ROOT / "README.md").read_text())
    code = next(body for language, body in found if language == "python")
    assert sum(bool(line) for line in code.splitlines()) <= 20
