"""Public functions say in numpydoc's sections what they take, what they return and what they raise.

What users meet at the top (``copter.__all__``) has every section.  Elsewhere a function of one or two
arguments may say it in its summary instead.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from pathlib import Path

import copter

ROOT = Path(__file__).parents[1]
FILES = sorted(
    f for folder in ("copter", "bench", "problems", "shims", "solvers") for f in (ROOT / folder).rglob("*.py")
)
SAID_IN_THE_SUMMARY = 2
"""Arguments that a summary can name."""
STILL_LACKING = 13
"""Functions that name only some of more arguments, or none; lower it when one is mended."""


def sections(doc: str) -> dict[str, str]:
    """Text of each section of a docstring."""
    parts = re.split(r"^(\w+)\n-{3,}$", inspect.cleandoc(doc), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def named(section: str) -> set[str]:
    """Arguments that a Parameters section names."""
    heads = [line.split(" : ")[0] for line in section.splitlines() if line and not line[0].isspace()]
    return {name.strip().lstrip("*") for head in heads for name in head.split(",")}


def functions(tree: ast.AST, prefix: str):
    """(name, node) of public functions and methods, those of private classes left out."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from functions(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield prefix + node.name, node


def decorators(node: ast.FunctionDef) -> set[str]:
    found = (each.func if isinstance(each, ast.Call) else each for each in node.decorator_list)
    return {each.id if isinstance(each, ast.Name) else getattr(each, "attr", "") for each in found}


def lacking(node: ast.FunctionDef, *, strict: bool) -> set[str]:
    """Sections that a function needs and does not have, and arguments that it does not name."""
    said = sections(ast.get_docstring(node) or "")
    every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    names = {each.arg for each in every} - {"self", "cls"}
    wrong = set()
    if "Parameters" in said:
        wrong |= {f"argument {name}" for name in names - named(said["Parameters"])}
    elif names and (strict or len(names) > SAID_IN_THE_SUMMARY):
        wrong.add("Parameters")
    if strict and "property" not in decorators(node):
        gives = node.returns is not None and ast.unparse(node.returns) not in ("None", "Self")
        if gives and not said.keys() & {"Returns", "Yields"}:
            wrong.add("Returns")
        raised = (each.exc for each in ast.walk(node) if isinstance(each, ast.Raise))
        if "Raises" not in said and any(isinstance(each, ast.Call) for each in raised):
            wrong.add("Raises")
    return wrong


def met_by_users():
    """Every public function and method of what ``copter`` exports; one that overrides says what differs."""
    for name in copter.__all__:
        found = getattr(copter, name)
        if inspect.isfunction(found):
            yield name, found
        elif inspect.isclass(found):
            for inner, method in vars(found).items():
                method = inspect.unwrap(getattr(method, "__func__", method))
                inherited = any(inner in vars(base) for base in found.__mro__[1:])
                if inspect.isfunction(method) and not inner.startswith("_") and not inherited:
                    yield f"{name}.{inner}", method
        if name == "ContinualProgram":  # its bases are its parts
            for base in found.__mro__[1:-1]:
                yield from (
                    (f"{name}.{k}", f) for k, f in vars(base).items() if inspect.isfunction(f) and k[0] != "_"
                )


def test_what_users_meet_has_every_section():
    wrong = {}
    for name, function in met_by_users():
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        node = next(each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef))
        missing = lacking(node, strict=True)
        if missing:
            wrong[name] = sorted(missing)
    assert wrong == {}, chr(10).join(f"{n}: {m}" for n, m in wrong.items())


def test_fewer_and_fewer_functions_of_many_arguments_lack_their_parameters():
    kernels = {"kernel", "loose_kernel", "inlined_kernel", "overload", "property"}
    lack = [
        f"{file.relative_to(ROOT)}: {name}: {', '.join(sorted(missing))}"
        for file in FILES
        for name, node in functions(ast.parse(file.read_text(encoding="utf-8")), "")
        if not decorators(node) & kernels and (missing := lacking(node, strict=False))
    ]
    assert len(lack) <= STILL_LACKING, "\n".join(lack)
