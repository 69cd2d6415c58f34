"""The rules of the house: what may import what, no circles, and who reads the columns of a store.

What is known to break a rule is listed, and an entry that is no longer needed fails as well.
"""

import ast
import gc
import re
from pathlib import Path

import networkx as nx
import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "copter").rglob("*.py"))

KERNELS = ("kernel",)

#: Pools of columns and their arrays, the store's own files, and who else reads them.
POOLS = {
    ("costs", "cost"),
    ("uppers", "upper"),
    ("entries", "row"),
    ("pointers", "pointer"),
    ("coefficients", "value"),
    *(("overrides", name) for name in ("column", "value", "original")),
}
THE_STORE = ("copter/store/", "copter/durable/")
READ_COLUMNS = set()


def module_of(path):
    """copter.solvers.base of copter/solvers/base.py."""
    return ".".join(Path(path).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_of(file.relative_to(ROOT)) for file in FILES}


def imports(path, tree):
    """The modules that a module imports, within functions too, but not for type checkers alone."""
    home = module_of(path)
    waiting = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield from {inner if inner in MODULES else node.module} & MODULES - {home}
        elif isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            waiting += node.orelse
        else:
            waiting += ast.iter_child_nodes(node)


@pytest.fixture(scope="module")
def trees():
    """Syntax trees of all files, made without searches for garbage, which would take most of the time."""
    gc.disable()
    made = {file.relative_to(ROOT).as_posix(): ast.parse(file.read_text()) for file in FILES}
    gc.enable()
    return made


def is_kernel(function):
    for decorator in function.decorator_list:
        name = decorator.func if isinstance(decorator, ast.Call) else decorator
        if getattr(name, "id", getattr(name, "attr", "")) in KERNELS:
            return True
    return False


def test_kernels_have_no_powers(trees):
    """Machine code multiplies, Python calls ``pow``: the last bits differ (copter/compile/first_calls.py)."""
    found = [
        f"{file}:{node.lineno}"
        for file, tree in trees.items()
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef) and is_kernel(function)
        for node in ast.walk(function)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow)
    ]
    assert not found


def column_reads(tree):
    """Where columns of a store are read by others than tasks of its parts, which take a part first."""
    waiting = [(tree, False)]
    while waiting:
        scope, of_part = waiting.pop()
        for node in ast.iter_child_nodes(scope):
            inner = of_part
            if isinstance(node, ast.FunctionDef):
                first = node.args.args[:1]
                inner = is_kernel(node) or (len(first) == 1 and first[0].arg == "part")
            pool = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute)
            pool = pool and (node.value.attr, node.attr) in POOLS
            viewed = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "view_of"
            if (pool or viewed) and not of_part:
                yield node.lineno
            waiting.append((node, inner))


def test_only_the_store_and_tasks_of_its_parts_read_columns(trees):
    """Whoever looks at columns asks an executor for some, or says what each part has to do."""
    others = {path: tree for path, tree in trees.items() if not path.startswith(THE_STORE)}
    found = {path: sorted(lines) for path, tree in others.items() if (lines := set(column_reads(tree)))}
    assert set(found) == READ_COLUMNS, found


def test_no_circle_of_imports(trees):
    graph = nx.DiGraph()
    for path, tree in trees.items():
        graph.add_edges_from((module_of(path), other) for other in imports(path, tree))
    graph.remove_nodes_from(["copter"])  # its names are imported when they are first used
    circles = [sorted(circle) for circle in nx.strongly_connected_components(graph) if len(circle) > 1]
    assert not circles


def test_the_page_of_a_folder_names_each_of_its_files(trees):
    """A reader finds every file on the page of its folder, and no file that is not there."""
    for path, tree in trees.items():
        if not path.endswith("__init__.py"):
            continue
        folder, page = (ROOT / path).parent, ast.get_docstring(tree)
        files = {file.name for file in folder.glob("*.py")} - {"__init__.py", "__main__.py"}
        named = set(re.findall(r"`([a-z]\w*\.py)`", page))
        assert files <= named, (path, files - named)
        assert named <= {file.name for file in folder.rglob("*.py")}, (path, named - files)
