"""Change one operator, constant or condition of the code at a time, and count which changes a test notices.

    python tests/mutants.py --count 40                       # forty changes in each folder
    python tests/mutants.py --count 10 --folder shims --seed 3

Each change is made in a copy of the checkout, where the tests of its folder then run until the first failure.
A change that no test notices is printed with its line: it asks for a test, or for a reason.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
INACTIVE = (
    "tests/solvers/test_inactive.py tests/solvers/test_lazy.py tests/solvers/test_frozen.py tests/rounds"
)
TARGETS = {
    "store": (
        "copter/store",
        "edit_log store local slabs kernels allocation subproblem",
        "tests/store tests/program tests/rounds",
    ),
    "inactive": (
        "copter/solvers/proximal",
        "inactive inactive_index incremental inactive_faults state",
        f"{INACTIVE} tests/durable",
    ),
    "proof": ("copter/proof", "rest margins certificate measure pricing", f"tests/proof {INACTIVE}"),
    "shims": (
        "copter/shims",
        "choose_one flow",
        "tests/shims tests/problems/load_balancing tests/problems/traffic",
    ),
    "journal": (
        "copter/durable",
        "journal edits program_file values snapshot soundness log",
        "tests/durable",
    ),
}
"""Folder of the code, its modules, and the tests that run, by the name of a target."""
OPERATORS = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.And: "or", ast.Or: "and",
    ast.BitAnd: "|", ast.BitOr: "&", ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
SIGNS = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.And: "and", ast.Or: "or",
    ast.BitAnd: "&", ast.BitOr: "|", ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip


_PYTEST = """
import os, sys
sys.meta_path[:] = [one for one in sys.meta_path if "editable" not in str(getattr(one, "__module__", ""))]
import copter.shims, pytest
if not copter.shims.__file__.startswith(os.getcwd()):
    sys.exit(f"not the copy: {copter.shims.__file__}")
sys.exit(pytest.main(sys.argv[1:]))
"""
"""Runs pytest on the code of the current folder, whatever is installed."""


class Change(NamedTuple):
    """One text in place of another, by line and column of a file."""

    file: str
    line: int
    begin: int
    end: int
    text: str

    def applied(self, source: str) -> str:
        """Return the source with the change."""
        lines = source.splitlines(keepends=True)
        line = lines[self.line - 1].encode()
        lines[self.line - 1] = (line[: self.begin] + self.text.encode() + line[self.end :]).decode()
        return "".join(lines)


def changes_of(file: str) -> list[Change]:
    """Return all changes of a file, one for each operator, number and condition that lies in one line."""
    source = (ROOT / file).read_text()
    lines, found = source.splitlines(), []

    def between(left: ast.expr, right: ast.expr, kind: type) -> None:
        if kind in OPERATORS and left.end_lineno == right.lineno and right.lineno is not None:
            text = lines[right.lineno - 1].encode()[left.end_col_offset : right.col_offset].decode()
            sign = SIGNS[kind]
            if text.count(sign) == 1:
                begin = left.end_col_offset + text.index(sign)
                found.append(Change(file, right.lineno, begin, begin + len(sign), OPERATORS[kind]))

    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            for left, op, right in zip(
                [node.left, *node.comparators], node.ops, node.comparators, strict=False
            ):
                between(left, right, type(op))
        elif isinstance(node, ast.BinOp):
            between(node.left, node.right, type(node.op))
        elif isinstance(node, ast.BoolOp):
            for left, right in zip(node.values, node.values[1:], strict=False):
                between(left, right, type(node.op))
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float, bool):
            text = repr(not node.value) if isinstance(node.value, bool) else repr(node.value + 1)
            if node.lineno == node.end_lineno and node.end_col_offset is not None:
                found.append(Change(file, node.lineno, node.col_offset, node.end_col_offset, text))
        elif isinstance(node, ast.If | ast.While | ast.IfExp) and node.test.lineno == node.test.end_lineno:
            test = node.test
            old = lines[test.lineno - 1].encode()[test.col_offset : test.end_col_offset].decode()
            change = Change(file, test.lineno, test.col_offset, test.end_col_offset or 0, f"(not ({old}))")
            found.append(change)
    annotations = {  # of types, which no test can tell apart
        number
        for node in ast.walk(ast.parse(source))
        for part in (getattr(node, "annotation", None), getattr(node, "returns", None))
        if part is not None
        for number in range(part.lineno, (part.end_lineno or part.lineno) + 1)
    }
    return [change for change in found if change.line not in annotations]


def noticed(copy: Path, change: Change, tests: list[str], limit: float) -> bool:
    """Whether a test fails once a change is made; one that takes longer than the limit has failed."""
    path, source = copy / change.file, (ROOT / change.file).read_text()
    path.write_text(change.applied(source))
    command = [sys.executable, "-c", _PYTEST, "-x", "-q", "-n", "0", "-p", "no:cacheprovider", *tests]
    environment = os.environ | {"PYTHONPATH": str(copy)}
    try:
        done = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, timeout=limit, text=True
        )
    except subprocess.TimeoutExpired:
        return True
    finally:
        path.write_text(source)
    if done.returncode < 0:  # a signal: the process did not survive the change
        return True
    last = done.stdout.rstrip().rsplit("\n", 1)[-1]
    assert " in " in last and "s" in last, done.stdout[-2000:] + done.stderr[-2000:]  # pytest has run
    return done.returncode != 0


def main() -> None:
    """Play the changes and print which were not noticed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=40, help="changes in each folder")
    parser.add_argument("--folder", choices=list(TARGETS), action="append", help="only this one")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=900.0, help="seconds of the tests of one change")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "copter"
        ignored = shutil.ignore_patterns(".venv", ".git", "build", "runs", ".mypy_cache")
        shutil.copytree(ROOT, copy, ignore=ignored)
        for name in given.folder or TARGETS:
            folder, modules, tests = TARGETS[name]
            every = [change for module in modules.split() for change in changes_of(f"{folder}/{module}.py")]
            some = random.Random(given.seed).sample(every, min(given.count, len(every)))
            killed = 0
            for number, change in enumerate(some, 1):
                began = time.perf_counter()
                found = noticed(copy, change, tests.split(), given.limit)
                killed += found
                line = (ROOT / change.file).read_text().splitlines()[change.line - 1].strip()
                word = "noticed" if found else "NOT NOTICED"
                print(
                    f"{name} {killed}/{number} of {len(every)}: {word} {time.perf_counter() - began:.0f} s "
                    f"{change.file}:{change.line} {change.text!r} in: {line}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
