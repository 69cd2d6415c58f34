"""What works without any extra, in a process of its own: `make light` runs it where none is installed."""

import importlib
import sys

EXTRAS = ("cvxpy", "matplotlib", "networkx", "ortools", "prometheus_client", "rich", "topohub", "typer")
#: Of each domain that needs no extra, some of its names.
DOMAINS = {
    "load_balancing": ("LoadBalancer",),
    "shockwave": ("Shockwave", "solve_waterfilling"),
    "sia": ("SiaPolicy", "generate"),
}


def main(hide: bool) -> None:
    """Solve a program, a linear and an integer one, and ask for what is not there.

    Parameters
    ----------
    hide : bool
        Make the packages of the extras impossible to import, where they are installed.
    """
    sys.modules.update(dict.fromkeys(EXTRAS if hide else ()))

    import copter
    from copter.errors import MissingExtraError

    program = copter.ContinualProgram()
    program.add_resource("gpu", upper=8)
    program.add_request("job", costs=[-1.0, -1.8], usage={"gpu": [1, 2]}, total=1)
    for name in ("copter", "highs-hot", "highs-ipm"):
        assert abs(copter.make_solver(name).solve(program).objective + 1.8) < 1e-5, name
    assert copter.linprog([-1, -2], A_ub=[[1, 1], [1, 3]], b_ub=[4, 6]).status == 0
    assert copter.milp([-1.0], integrality=1, constraints=([[2.0]], -float("inf"), [7.0])).fun == -3

    for domain, names in DOMAINS.items():
        for name in names:
            getattr(importlib.import_module(f"copter.problems.{domain}"), name)

    for attempt in (glop, topologies, metrics, cvxpys_solver):
        try:
            attempt()
        except MissingExtraError as error:
            print(error)
        else:
            raise AssertionError(f"{attempt.__name__} works: an extra is installed")


def glop() -> None:
    from copter import make_solver

    make_solver("glop")


def topologies() -> None:
    from copter.problems.traffic import load_topology

    load_topology("topozoo/Abilene")


def metrics() -> None:
    from copter.metrics import Metrics

    Metrics()


def cvxpys_solver() -> None:
    import copter

    print(copter.COPTER)


if __name__ == "__main__":
    main(hide="--hide" in sys.argv[1:])
