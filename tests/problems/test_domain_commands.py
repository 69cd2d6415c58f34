"""Commands of the domains: run folders, JSON objects, and wrong options, which one line names."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import networkx as nx
import pytest

from copter.cli.main import main
from copter.problems.shockwave import generate, write_jobs
from support.commands import invoke, words

FILES = {
    "nodes.csv": "sn,cpu_milli,memory_mib,gpu,model\nb,64000,262144,2,T4\na,32000,131072,1,P100\n",
    "tasks.csv": "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,4000,8192,1,460\np1,2000,4096,1,1000\n",
    "pods.csv": "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,1000,1024,0,0\n",
    "jobs.csv": "name,time,category,application\na,0,small,cifar10\nb,60,small,ncf\n",
    "empty.csv": "name,time,category,application\n",
    "loads.csv": "round,shard,load\n0,a,9\n0,b,2\n0,c,5\n0,d,7\n1,a,1\n2,d,2\n",
}
SHARDS = "load-balancing --shards 32 --servers 4"

WRONG = {
    "run cluster --json": [
        ("--policy nobody", "nobody"),
        ("--estimator crystal-ball", "crystal-ball"),
        ("--placement foo", "there are: auto, sia, shared, none"),
        ("--placement none --failures 24", "placement = none: must be another one"),
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
        ("--set shockwave.nope=1", "no setting 'nope'"),
        ("--set gavel.nope=1", "'gavel' is not a policy of --policy"),
        ("--jobs nowhere.json", "is not a file"),
        ("--jobs trace.json --n-jobs 5", "is for generated jobs only"),
        ("--jobs trace.json --gpus 1", "1: must be at least 2, the GPUs of the smallest job"),
        ("--jobs empty.csv", "empty.csv, file: cannot be read as JSON"),
    ],
    f"bench {SHARDS} --no-isolate": [
        ("--solvers pop-0", "no solver is called 'pop-0'"),
        ("--solvers heuristics", "did you mean heuristic?"),
        ("--solvers pop-8", "pop-8: must have at most 4 parts"),
        ("--solvers rebalancer", "no solver is called 'rebalancer'"),
        ("--memory 4", "shards: size = 32: must be at most 16"),
    ],
    "run load-balancing --out out": [
        ("--workload none.csv", "none.csv is not a file"),
        ("--shards 9 --servers 2 --memory 4.9", "shards: number = 9: must be at most 8, which fit"),
    ],
    "bench sia": [("--solvers heuristic", "no solver is called 'heuristic'")],
    "run placement --nodes nodes.csv": [
        ("--tasks pods.csv --policy fdg", "fdg"),
        ("--tasks pods.csv --seeds 0", "--seeds"),
        ("--tasks none.csv", "none.csv is not a file"),
        ("--tasks pods.csv", "tasks: must request GPUs, by which demand is measured"),
    ],
}


RUNS = [
    (
        "traffic --topology ring.graphml --rounds 3 --change failures",
        "max-flow: ring, 42 demands, copter",
        "rounds.csv links.csv",
        "total_flow time",
        "rounds solver figures",
    ),
    (
        "shockwave --jobs trace.json --gpus 8 --policy shockwave,gavel,srpt",
        "srpt",
        "rounds.csv jobs.csv allocations.csv",
        "jct ftf jobs used",
        "jobs gpus policies",
    ),
    (
        "load-balancing --workload loads.csv --servers 2",
        "moves, mean",
        "rounds.csv",
        "movements imbalance time",
        "rounds solver figures",
    ),
    (
        "placement --nodes nodes.csv --tasks tasks.csv --policy all --seeds 2 --half",
        "copter",
        "seeds.csv",
        "allocated",
        "policies",
    ),
    (
        "cluster --trace jobs.csv --policy srtf,tiresias",
        "tiresias",
        "rounds.csv jobs.csv allocations.csv",
        "jct ftf jobs used",
        "policies",
    ),
]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The files of the commands, in the working directory."""
    monkeypatch.delenv("COPTER_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    small = {"shards": 16, "servers": 4, "rounds": 2}
    monkeypatch.setattr("copter.problems.load_balancing.course._WARM_UP", small)
    ring = nx.cycle_graph(7)
    nx.set_node_attributes(ring, {node: node % 3 for node in ring}, "Longitude")
    nx.set_node_attributes(ring, {node: node // 3 for node in ring}, "Latitude")
    nx.write_graphml(ring, "ring.graphml")
    write_jobs("trace.json", generate(3, seed=1, gpu_mix={2: 1.0}))
    for name, text in FILES.items():
        Path(name).write_text(text)


@pytest.mark.parametrize(("command", "said", "names", "drawn", "keys"), RUNS, ids=lambda run: run.split()[0])
def test_a_run_fills_its_folder_or_prints_one_json_object(command, said, names, drawn, keys):
    assert said in words(invoke("run", *command.split(), "--out", "out"))
    found = {path.name: path.read_bytes() for path in Path("out").iterdir()}
    about = found.pop("README.txt").decode()
    assert {*names.split(), "summary.json", "config.json", "versions.json", "report.html"} == found.keys()
    assert all(name in about for name in found)
    page = ET.fromstring(found["report.html"].decode().removeprefix("<!doctype html>\n"))
    assert {*drawn.split()} <= {figure.get("id") for figure in page.iter("figure")}
    assert said in " ".join("".join(page.itertext()).split())
    before = sorted(Path().iterdir())
    assert {*keys.split()} <= json.loads(invoke("run", *command.split(), "--json").stdout).keys()
    assert sorted(Path().iterdir()) == before


@pytest.mark.parametrize(
    ("command", "options", "said"), [(command, *row) for command, rows in WRONG.items() for row in rows]
)
def test_a_wrong_word_is_named_and_nothing_is_played(monkeypatch, capsys, command, options, said):
    monkeypatch.setattr("sys.argv", ["copter", *command.split(), *options.split()])
    with pytest.raises(SystemExit) as ended:
        main()
    printed = capsys.readouterr()
    assert ended.value.code in (1, 2) and printed.out == "" and "Traceback" not in printed.err
    assert said in " ".join(printed.err.replace("│", " ").split())
    assert not Path("out").exists()
