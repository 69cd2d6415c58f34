"""Compare tokens and lines of code of each folder with size.toml; with ``write``, write them there.

A token or a line counts unless it is a comment, a docstring or blank. The product is all folders but tests.
"""

from __future__ import annotations

import ast
import sys
import tokenize
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUDGET = ROOT / "size.toml"
OWN = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
SKIPPED = {"COMMENT", "NL", "NEWLINE", "INDENT", "DEDENT", "ENCODING", "ENDMARKER"}


def counted(path: Path) -> tuple[int, int]:
    """Return the numbers of tokens and of lines of code of a file."""
    docs: set[int] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, OWN) and ast.get_docstring(node) is not None:
            docs.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    with path.open("rb") as file:
        tokens = [
            token
            for token in tokenize.tokenize(file.readline)
            if tokenize.tok_name[token.type] not in SKIPPED and token.start[0] not in docs
        ]
    lines = {line for token in tokens for line in range(token.start[0], token.end[0] + 1)}
    return len(tokens), len(lines)


def main() -> None:
    """Print what exceeds the budget, and exit with 1 if something does."""
    budget = tomllib.loads(BUDGET.read_text())
    found, counted_already = {}, set[Path]()
    for folder in sorted(budget, key=len, reverse=True):  # a folder within another one is not counted there
        own = set((ROOT / folder).rglob("*.py")) - counted_already
        sizes = [counted(path) for path in own]
        found[folder] = {"tokens": sum(one[0] for one in sizes), "lines": sum(one[1] for one in sizes)}
        counted_already |= own
    if "write" in sys.argv:
        head = BUDGET.read_text().partition("[")[0]
        units = {name: "".join(f"{unit} = {n}\n" for unit, n in found[name].items()) for name in budget}
        parts = (f"['{name}']\n{each}" for name, each in units.items())
        BUDGET.write_text(head + "\n".join(parts))
        return
    over = [
        f"{folder}: {found[folder][unit]:,} {unit}, at most {most:,} (size.toml)"
        for folder, limits in budget.items()
        for unit, most in limits.items()
        if found[folder][unit] > most
    ]
    sys.exit("\n".join(over) or 0)


if __name__ == "__main__":
    main()
