"""Pages of the API reference: what each page is for, and the public names on it."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from functools import reduce
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXPORT = re.compile(r"^from (copter\S+) import (.+)$", re.MULTILINE)
PROGRAM = "ContinualProgram"
OWN_ONLY = ("Journal", "RayProgram")
"""Classes with the methods of :class:`copter.ContinualProgram`, whose pages do not repeat these."""

PAGES: dict[str, dict[str, str]] = {
    "copter": {
        "Programs": f"{PROGRAM} SharedColumns ConvexTerm LogTerm",
        "Requests of a program": f"""
            {PROGRAM}.add_request {PROGRAM}.add_requests {PROGRAM}.update_request {PROGRAM}.update_requests
            {PROGRAM}.remove_request {PROGRAM}.remove_requests {PROGRAM}.requests {PROGRAM}.request_ids""",
        "Resources of a program": f"""
            {PROGRAM}.add_resource {PROGRAM}.add_resources {PROGRAM}.update_resource
            {PROGRAM}.update_resources {PROGRAM}.remove_resource {PROGRAM}.remove_resources
            {PROGRAM}.resources {PROGRAM}.resource_ids""",
        "Columns and tables of a program": f"""
            {PROGRAM}.add_columns {PROGRAM}.update_columns {PROGRAM}.remove_columns {PROGRAM}.share_columns
            {PROGRAM}.shared_columns {PROGRAM}.column_names {PROGRAM}.add_table {PROGRAM}.update_table""",
        "Solvers": "make_solver ProximalPoint certify Certificate",
        "Solutions": "Solution Allocation Status FarkasRay",
        "Rounds and domains": "Rounds Domain ChooseOneDomain CountDomain FlowDomain",
        "Records of rounds": "RoundRecord Move",
        "Rounding": "ChooseOneShim CountShim FlowShim UtilisationShim",
        "Journals and metrics": "Journal Metrics",
        "Linear and integer models": "Model ModelSolution from_arrays as_program",
        "Arrays and files of models": "LinearProgram read_model write_mps",
        "scipy, cvxpy and MathOpt": "linprog milp from_cvxpy COPTER from_mathopt to_mathopt",
    },
    "copter.errors": {},
    "copter.solvers.api": {
        "Protocols of solvers": "Solver ClockedSolver WarmStartable Shim Feature SOLVERS make_solver",
        "Parts of an answer": "make_solution ColdStart Timings Residuals SparseX",
    },
    "copter.ray": {},
    "copter.live.client": {},
    "copter.live.training": {},
    "copter.problems.cluster": {
        "Clusters and jobs": "Cluster Configuration Configurations GpuType configurations Job Profile",
        "Policies": "Policy PolicyError Allocation ClusterState Placement make_policy policy_names",
        "Simulations": "Simulator JobSubmission Kind Scenario read_workload write_workload",
    },
    "copter.problems.sia": {
        "Policy": "SiaPolicy SiaJob SiaRound SiaError InfeasibleRoundError Sia",
        "Clusters": "NodeChange read_cluster builtin_cluster",
        "Profiles": "CountProfile ReplicaProfile TableProfile read_profiles builtin_profiles",
        "Workloads and replays": "generate read_scenario JobRecord record_rounds",
    },
    "copter.problems.load_balancing": {
        "Balancers": "LoadBalancer GroupBalancer",
        "Results of rounds": "BalancingRound LoadBalancingError imbalance",
        "Baselines and loads": """
            Exact Parts ShardPop greedy solve_exact LoadTable read_loads write_loads zipf_loads TOLERANCE""",
    },
    "copter.problems.traffic": {
        "Traffic engineering": "TrafficEngineering TrafficRound TrafficState Check",
        "Max-min fairness": "MaxMinFlows FairRound",
        "Networks and paths": """
            Topology TopologyError load_topology DEFAULT_CAPACITY PathSet PathError edge_disjoint_paths
            k_shortest_paths""",
        "Traffic matrices and events": """
            TrafficEvent drift failures POISSON_FLAT MatrixError bimodal check_matrix gravity make_matrix
            poisson read_matrices""",
        "Baselines": "Allocated lp_top pop shortest_path",
    },
    "copter.problems.shockwave": {
        "Planner": """
            Planner Settings Solve make_relaxation plan_problem MarketJob RoundState Shockwave Window
            build_window""",
        "Relaxation and forecasts": """
            RelaxationProgram Relaxation dual_bound solve_waterfilling Pattern pattern_of
            snapshot""",
        "Workloads and replays": """
            generate Mode Regime RegimeJob read_jobs write_jobs RegimeProfile scenario_of JobResult
            MarketMetrics PublishedResult read_published ReplayResult replay""",
    },
    "copter.problems.placement": {
        "Placement in rounds": "PlacementRounds Round Place PlacementError Apart Together",
        "Online policies": """
            PlacementPolicy make_policy policy_names Reserving ReservationPlanner Fgd PlayedTasks play
            arrivals""",
        "Servers and tasks": "Servers read_servers TaskKind Tasks read_tasks",
    },
}
"""Public packages and modules, and their pages by what a reader wants to do; an empty one has one page."""


def source_of(package: str) -> Path:
    """Return the stub of a package, which has its public names, or its module if it has no stub."""
    path = ROOT / package.replace(".", "/")
    stub = path / "__init__.pyi"
    return stub if stub.exists() else path.with_suffix(".py")


def pages() -> Iterator[tuple[str, str, str]]:
    """Yield package, title and text of each page; raise ValueError if a public name is on no page."""
    shown: set[str] = set()
    for package, titles in PAGES.items():
        homes = {
            name.partition(" as ")[0]: home
            for home, names in EXPORT.findall(source_of(package).read_text())
            for name in names.split(", ")
        }
        elsewhere = {name for name, home in homes.items() if f"{home}.{name}" in shown}
        own = [name for name, home in homes.items() if name not in elsewhere and home != "copter.errors"]
        if not (homes and titles) and package != "copter.ray":
            yield package, package, f"::: {package}\n"
            continue
        groups = {title: names.split() for title, names in titles.items()} or {package: own}
        listed = {name for names in groups.values() for name in names}
        if missing := set(own) - listed:
            raise ValueError(f"docs/site/api.py: no page of {package} has {', '.join(sorted(missing))}")
        for title, names in groups.items():
            new = [name for name in names if f"{homes[name.partition('.')[0]]}.{name}" not in shown]
            yield package, title, _page(package, title, new, homes, listed)
        shown |= {f"{homes[name]}.{name}" for name in own}


def _page(package: str, title: str, names: list[str], homes: dict[str, str], listed: set[str]) -> str:
    """Return a page: a table of its names, and their documentation."""
    table, text = "", ""
    for name in names:
        first = name.partition(".")[0]
        identifier = f"{homes[first]}.{name}"
        link = f"<autoref identifier='{identifier}' optional>`{name.rpartition('.')[2]}`</autoref>"
        table += f"| {link} | {_summary(identifier)} |\n"
        split = any(other.startswith(f"{name}.") for other in listed)
        text += f"::: {identifier}\n    options:\n      heading_level: 2\n      show_root_full_path: false\n"
        if split:
            rest = sorted(_members(identifier) - {other.partition(".")[2] for other in listed})
            text += f"      members: [{', '.join(rest)}]\n"
        if name in OWN_ONLY:
            text += "      inherited_members: false\n"
        text += "\n"
    methods = names[0].startswith(f"{PROGRAM}.")
    of = f"Methods of `{package}.{PROGRAM}`." if methods else f"Names in `{package}`."
    return f"# {title}\n\n{of}\n\n| name | what it is |\n| --- | --- |\n{table}\n{text}"


def _object(identifier: str) -> object:
    """Return the object at a path of modules, classes and members."""
    parts = identifier.split(".")
    for k in range(len(parts), 0, -1):
        try:
            module = importlib.import_module(".".join(parts[:k]))
        except ModuleNotFoundError:
            continue
        return reduce(getattr, parts[k:], module)
    raise ValueError(f"{identifier}: there is no such object")


def _summary(identifier: str) -> str:
    """Return the first sentence of an object's documentation."""
    found = _object(identifier)
    documented = inspect.isroutine(found) or isinstance(found, type | property)
    text = (inspect.getdoc(found) or "") if documented else ""
    first = " ".join(text.partition("\n\n")[0].split())
    return re.sub(r":\w+:`~?([\w.]+)`", r"`\1`", first).replace("|", "\\|")


def _members(identifier: str) -> set[str]:
    """Return the public members of a class."""
    return {name for name in vars(_object(identifier)) if not name.startswith("_")}
