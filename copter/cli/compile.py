"""`copter compile`: compiles kernels on all cores, for example when a container image is built."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from copter.cli.console import progress, seconds, table

EXAMPLES = """\b
Examples:
  copter compile
  NUMBA_CACHE_DIR=/opt/kernels copter compile
"""


def compile_kernels() -> None:
    """Compile the kernels of ordinary rounds, and cache them for later processes.

    The kernels for large programs, copter-exact and domains are compiled when they are first used.
    """
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor, as_completed

    from copter.compile.cache import cache_folder
    from copter.parallel import available_threads
    from copter.solvers.proximal.ahead import PARTS, compile_part
    from copter.store.view import fill_costs

    any_kernel: Any = fill_costs
    folder = cache_folder(any_kernel.py_func)
    took: dict[str, float] = {}
    spawn = multiprocessing.get_context("spawn")
    with (
        progress() as bar,
        ProcessPoolExecutor(available_threads(), mp_context=spawn, max_tasks_per_child=1) as pool,
    ):
        task = bar.add_task("compiling", total=len(PARTS))
        waiting = {pool.submit(compile_part, name): name for name in PARTS}
        for done in as_completed(waiting):
            took[waiting[done]] = done.result()
            bar.advance(task)
    rows = [(name, seconds(took[name])) for name in PARTS]
    table("Kernels and their compilation times", ["part", "time"], rows)
    if folder is None:
        typer.echo("No cache folder is writable: set NUMBA_CACHE_DIR to a writable folder.", err=True)
        raise typer.Exit(1)
    typer.echo(f"Kept in {_home(folder)}.")


def _home(folder: str) -> str:
    """Return a description of the cache folders of all modules."""
    home = Path(folder).parent
    return f"{home.name} next to each source file" if home.name == "__pycache__" else str(home)
