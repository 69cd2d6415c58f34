"""Wrong options and files of the domains' commands: one line says what to do, and nothing is played."""

import networkx as nx
import pytest

from copter.cli.main import main
from copter.problems.shockwave import generate, write_jobs

NODES = "sn,cpu_milli,memory_mib,gpu,model\na,32000,131072,1,P100\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n"
WORKLOAD = "name,time,category,application\na,0,small,cifar10,\n"
SHARDS = "load-balancing --shards 32 --servers 4"

WRONG = {
    "run cluster --json": [
        ("--policy nobody", "nobody"),
        ("--estimator crystal-ball", "crystal-ball"),
        ("--placement foo", "there are: auto, sia, shared, none"),
        ("--placement none --interference 0.5", "placement = none: must be another one"),
        ("--set sia", "POLICY.SETTING=VALUE"),
        ("--set sia.nope=1", "policy 'sia': no setting 'nope': there are: p, lam"),
        ("--set sia.scale_up_limit=true", "must be float or none"),
        ("--set sia.round_seconds=0", "must be positive"),
        ("--policy tiresias --set tiresias.limits=3", "must be"),
        ("--policy gavel --set gavle.x=1", "'gavle' is not a policy of --policy: did you mean gavel?"),
        ("--set trace.nope=1", "no setting 'nope'"),
        ("--trace gavel", "must be the folder of real traces"),
        ("--trace empty.csv", "empty.csv, file: must have at least one job"),
        ("--trace jobs.csv --set trace.hours=3", "do not apply to a workload file"),
    ],
    "bench cluster --json -": [
        ("--sweep estimator --values oracle,foo", "unknown estimator 'foo'"),
        ("--sweep jobs --values 8,0", "jobs = 0: must be positive"),
        ("--sweep nonsense", "'nonsense': must be one of jobs"),
        ("--sweep sia.p --values abc", "p = 'abc': must be float"),
        ("--sweep placement --values sia,none --failures 24", "placement = none: must be another one"),
    ],
    "run traffic": [
        ("--topology nowhere.graphml", "nowhere.graphml: does not exist"),
        ("--topology ring.graphml --matrix fog", "'fog': must be one of gravity"),
        ("--topology ring.graphml --demands 0", "'0': must be all or a positive number"),
        ("--topology ring.graphml --objective max-fun", "there are: max-flow, min-mlu, max-min"),
        ("--topology ring.graphml --objective max-min --solver pop-2", "must be a solver of linear programs"),
        ("--topology ring.graphml --change source,all", "no change is called 'all'"),
        ("--topology ring.graphml --change sequence", "several matrices"),
        ("--topology ring.graphml --capacity -1", "must be greater than 0"),
        ("--topology ring.graphml --solver lptop", "did you mean"),
    ],
    "run shockwave": [
        ("--policy shockwve", "did you mean shockwave"),
        ("--policy ,", "must be at least one policy"),
        ("--solver cvxpy", "no solver is called 'cvxpy'"),
        ("--mode lasy", "did you mean lazy"),
        ("--noise 1.5", "--noise"),
        ("--jobs nowhere.json", "is not a file"),
        ("--power -1", "not negative"),
        ("--jobs trace.json --n-jobs 5", "is for generated jobs only"),
        ("--jobs trace.json --gpus 1", "1: must be at least 2, the GPUs of the smallest job"),
        ("--jobs empty.csv", "empty.csv, file: cannot be read as JSON"),
    ],
    f"bench {SHARDS} --no-isolate": [
        ("--solvers pop-0", "no solver is called 'pop-0'"),
        ("--solvers heuristics", "did you mean heuristic?"),
        ("--solvers pop-8", "pop-8: must have at most 4 parts"),
        ("--solvers rebalancer", "no environment of rebalancer; docs/how-to/suite.md"),
        ("--memory 4", "shards: size = 32: must be at most 16"),
    ],
    "run load-balancing --out out": [
        ("--workload none.csv", "none.csv is not a file"),
        ("--shards 9 --servers 2 --memory 4.9", "shards = 9: must fit on the servers"),
    ],
    "bench sia": [("--solvers heuristic", "no solver is called 'heuristic'")],
    "run placement --nodes nodes.csv": [
        ("--tasks pods.csv --policy fdg", "fdg"),
        ("--tasks pods.csv --seeds 0", "--seeds"),
        ("--tasks none.csv", "none.csv is not a file"),
        ("--tasks pods.csv", "tasks: must request GPUs, by which demand is measured"),
    ],
}


@pytest.mark.parametrize(
    ("command", "options", "said"), [(command, *row) for command, rows in WRONG.items() for row in rows]
)
def test_a_wrong_word_is_named_and_nothing_is_played(tmp_path, monkeypatch, capsys, command, options, said):
    monkeypatch.delenv("COPTER_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    nx.write_graphml(nx.cycle_graph(7), tmp_path / "ring.graphml")
    write_jobs(tmp_path / "trace.json", generate(3, seed=1, gpu_mix={2: 1.0}))
    texts = {"nodes.csv": NODES, "pods.csv": PODS + "p0,1000,1024,0,0\n", "jobs.csv": WORKLOAD}
    texts["empty.csv"] = "name,time,category,application\n"
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr("sys.argv", ["copter", *command.split(), *options.split()])
    with pytest.raises(SystemExit) as ended:
        main()
    printed = capsys.readouterr()
    assert ended.value.code in (1, 2) and printed.out == "" and "Traceback" not in printed.err
    assert said in " ".join(printed.err.replace("│", " ").split())
    assert not (tmp_path / "out").exists()
