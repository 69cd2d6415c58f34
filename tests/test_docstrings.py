"""Docstrings are true: what a section Parameters names is an argument, and what users meet says what it does.

That public names have docstrings at all is checked by ruff.
"""

from __future__ import annotations

import ast
import doctest
import enum
import inspect
import re
from pathlib import Path

import pytest

import copter

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "copter").rglob("*.py"))


def named(doc: str) -> set[str]:
    """Arguments that a Parameters section names."""
    parts = re.split(r"^(\w+)\n-{3,}$", inspect.cleandoc(doc), flags=re.M)
    section = dict(zip(parts[1::2], parts[2::2], strict=True)).get("Parameters", "")
    heads = [line.split(" : ")[0] for line in section.splitlines() if line and not line[0].isspace()]
    return {name.strip().lstrip("*") for head in heads for name in head.split(",")}


def arguments(node: ast.FunctionDef) -> set[str]:
    rest = (node.args.vararg, node.args.kwarg)
    every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, *filter(None, rest)]
    return {each.arg for each in every}


def test_a_parameters_section_names_arguments_that_there_are():
    wrong = [
        f"{file.relative_to(ROOT)}:{node.lineno}: {node.name}: {', '.join(sorted(unknown))}"
        for file in FILES
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
        and (unknown := named(ast.get_docstring(node) or "") - arguments(node))
    ]
    assert not wrong, "\n".join(wrong)


def test_what_users_meet_says_what_it_does():
    silent = []
    for name in copter.__all__:
        found = getattr(copter, name)
        if inspect.isfunction(found) or inspect.isclass(found):
            inner = inspect.getmembers(found, inspect.isfunction) if inspect.isclass(found) else []
            ours = [(f"{name}.{k}", f) for k, f in inner if k[0] != "_" and f.__module__.startswith("copter")]
            silent += [path for path, each in ((name, found), *ours) if not inspect.getdoc(each)]
    assert not silent


WITHOUT_AN_EXAMPLE = {"Ray"}
"""Public names that users only read."""
OPTIONAL = {"COPTER", "from_cvxpy"}
"""Names that are exported without a star; the type of the first one has the example."""


@pytest.mark.parametrize("name", sorted({*copter.__all__, *OPTIONAL}))
def test_the_example_of_a_public_name_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = getattr(copter, name)
    found = type(found) if name == "COPTER" else found
    if isinstance(found, enum.EnumMeta):
        return
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner()
    (test,) = finder.find(found, name, globs={})
    if name not in WITHOUT_AN_EXAMPLE:
        assert test.examples, f"{name} has no example"
    runner.run(test)
    assert not runner.failures
