"""The public surface is reviewed: docs/api.txt has every name with its arguments and first sentence.

After a change that is meant: ``python tests/test_surface.py``, and read the difference.
"""

import difflib
import enum
import importlib
import inspect
import re
from pathlib import Path

LISTED = Path(__file__).parents[1] / "docs/api.txt"
PACKAGES = ("copter", "copter.errors", "copter.solvers.api", "copter.ray")
HEAD = """# API as text

Every public name of these packages, with its arguments and the first sentence of its documentation. Written
by `python tests/test_surface.py`, and checked by the tests. The site has the whole documentation.
"""


def lines():
    """The lines of the page."""
    yield from HEAD.splitlines()
    for package in PACKAGES:
        yield from ("", f"## {package}", "")
        module = importlib.import_module(package)
        own = (name for name, each in vars(module).items() if getattr(each, "__module__", "") == package)
        for name in getattr(module, "__all__", None) or sorted(own):
            yield from described(name, getattr(module, name))


def described(name, value):
    if inspect.isclass(value):
        made_of = "" if issubclass(value, enum.Enum) else arguments(value)
        yield f"- class `{name}{made_of}`{summary(value)}"
        ours = [each for each in value.__mro__ if each.__module__.startswith("copter")]
        for member in sorted({member for each in ours for member in vars(each)}):
            if not member.startswith("_"):
                yield described_member(member, inspect.getattr_static(value, member))
    elif callable(value):
        yield f"- `{name}{arguments(value)}`{summary(value)}"
    else:
        yield f"- `{name}`: {type(value).__name__}"


def described_member(name, value):
    function = getattr(value, "__func__", value)
    if inspect.isroutine(function):
        return f"    - `{name}{arguments(function)}`{summary(function)}"
    return f"    - `{name}`{summary(value) if isinstance(value, property) else ''}"


def summary(value):
    """The first paragraph of a documentation, after a colon; roles and literals are code."""
    first = " ".join((inspect.getdoc(value) or "").partition("\n\n")[0].split())
    text = re.sub(r":[a-z]+:`~?([^`]+)`", r"`\1`", first).replace("``", "`")
    return f": {text}" if text else ""


def arguments(value):
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):  # one of Python's own
        return "(...)"
    shown = [each.replace(annotation=each.empty) for each in signature.parameters.values()]
    return str(signature.replace(parameters=shown, return_annotation=signature.empty))


def test_nothing_public_changes_unseen():
    listed, found = LISTED.read_text().splitlines(), list(lines())
    difference = difflib.unified_diff(listed, found, "listed", "found", lineterm="", n=0)
    assert listed == found, "\n".join(difference)


if __name__ == "__main__":
    LISTED.write_text("\n".join(lines()) + "\n")
