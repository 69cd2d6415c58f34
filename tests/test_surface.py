"""The public surface is reviewed: every name, method and argument is listed in public_surface.txt.

After a change that is meant: ``python tests/test_surface.py``, and read the difference.
"""

import difflib
import enum
import importlib
import inspect
from pathlib import Path

LISTED = Path(__file__).with_name("public_surface.txt")
PACKAGES = ("copter", "copter.errors", "copter.solvers.api", "copter.ray")


def lines():
    """A line a name, method or attribute."""
    for package in PACKAGES:
        module = importlib.import_module(package)
        own = (name for name, each in vars(module).items() if getattr(each, "__module__", "") == package)
        for name in getattr(module, "__all__", None) or sorted(own):
            yield from described(f"{package}.{name}", getattr(module, name))


def described(name, value):
    if inspect.isclass(value):
        bases = [base.__name__ for base in value.__bases__ if base is not object]
        made_of = "" if issubclass(value, enum.Enum) else arguments(value)
        yield f"class {name}({', '.join(bases)}){made_of}"
        ours = [each for each in value.__mro__ if each.__module__.startswith("copter")]
        for member in sorted({member for each in ours for member in vars(each)}):
            if not member.startswith("_"):
                yield from described_member(f"{name}.{member}", inspect.getattr_static(value, member))
    elif callable(value):
        yield f"{name}{arguments(value)}"
    else:
        yield f"{name}: {type(value).__name__}"


def described_member(name, value):
    function = getattr(value, "__func__", value)
    if inspect.isroutine(function):
        yield f"  {name}{arguments(function)}"
    else:
        yield f"  {name}"


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
