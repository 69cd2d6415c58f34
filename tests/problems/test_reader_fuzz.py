"""Readers of topologies, matrices, workloads, traces and profiles: any file is read, or an error names it."""

import json
import math

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copter.errors import CopterError
from copter.problems.cluster.workload import read_workload
from copter.problems.load_balancing.workload import read_loads
from copter.problems.reading import find, read_csv, read_json
from copter.problems.shockwave.traces import read_jobs
from copter.problems.sia.files import read_cluster, read_profiles
from copter.problems.traffic import load_topology, read_matrices
from copter.problems.traffic.topology import Topology
from support.amounts import examples

LINE = Topology.from_networkx(nx.path_graph(3), name="line")
GRAPHML = "\n".join(nx.generate_graphml(nx.path_graph(3)))
SAMPLES = {
    "net.json": json.dumps(
        {
            "directed": False,
            "multigraph": False,
            "nodes": [{"id": 0, "Longitude": 1.5, "Latitude": 2}, {"id": 1}, {"id": 2}],
            "links": [{"source": 0, "target": 1, "capacity": 5.0}, {"source": 1, "target": 2, "key": 0}],
        }
    ),
    "net.graphml": GRAPHML,
    "matrix.csv": "0,1,2\n3,0,4\n5,6,0\n",
    "loads.csv": "round,shard,load\n0,a,1.5\n0,b,2\n1,a,3\n",
    "work.csv": "name,time,category,application,kind,gpus\nj0,0.0,s,bert,rigid,2\nj1,60.5,s,bert,,\n",
    "jobs.json": json.dumps(
        [
            {
                "name": "a",
                "arrival_s": 0.0,
                "model": "m",
                "mode": "static",
                "scale_factor": 1,
                "num_epochs": 3,
                "samples_per_epoch": 10,
                "regimes_bs_nepochs_epochsec": [[32, 3, 60.0]],
            }
        ]
    ),
}
READERS = {
    "net.json": load_topology,
    "net.graphml": load_topology,
    "matrix.csv": lambda path: read_matrices(path, LINE),
    "loads.csv": read_loads,
    "work.csv": read_workload,
    "jobs.json": read_jobs,
}
TOKENS = [b"", b"-1", b"nan", b"1e999", b"\xff", b"\x00", b'"', b",", b"{}", b"[]", b"null", b"true"]
TOKENS += [b"9" * 400, b"\n", b"1_0", b" ", b"<node", b"/>", b"\xef\xbb\xbf", b"\r", b"0.5", b'"x"']

leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, 1, 2, -1, 2**70, 10**400, 0.5, -0.0, 1e308, math.inf, math.nan]),
    st.sampled_from(["", "a", "1", "static", "nan", "\ud800"]),
)
junk = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["id", "source", "target", "capacity", "x"]), inner, max_size=3),
    ),
    max_leaves=5,
)


def accept(read, path):
    """What is read is whatever it is; what is not must be an error of ours that says something."""
    try:
        read(path)
    except CopterError as error:
        assert str(error)


@pytest.mark.parametrize("name", SAMPLES)
def test_the_samples_themselves_are_read(name, tmp_path):
    (tmp_path / name).write_text(SAMPLES[name])
    assert READERS[name](tmp_path / name) is not None


@pytest.mark.parametrize("name", SAMPLES)
@given(data=st.data())
@settings(max_examples=examples(150), deadline=None)
def test_damaged_files(name, tmp_path_factory, data):
    text = SAMPLES[name].encode()
    for _ in range(data.draw(st.integers(1, 3))):
        begin = data.draw(st.integers(0, len(text)))
        end = min(len(text), begin + data.draw(st.integers(0, 8)))
        text = text[:begin] + data.draw(st.sampled_from(TOKENS)) + text[end:]
    path = tmp_path_factory.mktemp("fuzz") / name
    path.write_bytes(text)
    accept(READERS[name], path)


def replaced(data, document):
    """A document with one of its parts, at any depth, replaced by something else."""
    if isinstance(document, dict) and document and data.draw(st.booleans()):
        key = data.draw(st.sampled_from(sorted(document)))
        return document | {key: replaced(data, document[key])}
    if isinstance(document, list) and document and data.draw(st.booleans()):
        k = data.draw(st.integers(0, len(document) - 1))
        return [*document[:k], replaced(data, document[k]), *document[k + 1 :]]
    return data.draw(junk)


@pytest.mark.parametrize("name", ["net.json", "jobs.json"])
@given(data=st.data())
@settings(max_examples=examples(300), deadline=None)
def test_documents_with_other_parts(name, tmp_path_factory, data):
    path = tmp_path_factory.mktemp("fuzz") / name
    path.write_text(json.dumps(replaced(data, json.loads(SAMPLES[name]))))
    accept(READERS[name], path)


@given(constants=junk, cluster=junk)
@settings(max_examples=examples(60), deadline=None)
def test_profile_folders(tmp_path_factory, constants, cluster):
    folder = tmp_path_factory.mktemp("fuzz")
    for name in ("constants.json", "cluster.json", "profiles.json", "batch_inference.json"):
        (folder / name).write_text(json.dumps(constants))
    np.savez(folder / "a.npz", goodput=np.ones((2, 2)), num_gpus=np.array([1, 2]))
    accept(read_profiles, folder)
    accept(read_cluster, folder)


@pytest.mark.parametrize("number", [10**400, -(10**400)])
def test_whole_numbers_that_no_float_holds_are_named(number, tmp_path):
    job = json.loads(SAMPLES["jobs.json"])
    job[0]["arrival_s"] = number
    (tmp_path / "jobs.json").write_text(json.dumps(job))
    with pytest.raises(CopterError, match="arrival"):
        read_jobs(tmp_path / "jobs.json")
    (tmp_path / "work.csv").write_text(SAMPLES["work.csv"].replace(",2\n", f",{'9' * 5000}\n"))
    with pytest.raises(CopterError, match="gpus"):
        read_workload(tmp_path / "work.csv")


def test_files_are_found_from_the_folder_of_data_and_from_that_of_clusters(tmp_path):
    (tmp_path / "cluster" / "philly").mkdir(parents=True)
    (tmp_path / "wan").mkdir()
    for path in ("cluster/philly/jobs.csv", "wan/kdl.json"):
        (tmp_path / path).write_text("")
    for root in (tmp_path, tmp_path / "cluster"):
        assert find(root, "philly/jobs.csv") == tmp_path / "cluster/philly/jobs.csv"
        assert find(root, "nowhere", "wan/kdl.json") == tmp_path / "wan/kdl.json"
        assert find(root, "kdl.json") is None
    # nobody looks around a folder of another name
    assert find(tmp_path / "wan", "cluster/philly/jobs.csv") is None
    assert find(tmp_path / "wan" / "kdl.json", "elsewhere/kdl.json") == tmp_path / "wan/kdl.json"
    assert find(None, "wan/kdl.json") is None


def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path):
    mark = "\ufeff"
    (tmp_path / "rows.csv").write_text(mark + "name,size\na,1\n", encoding="utf-8")
    assert [row.text("name") for row in read_csv(tmp_path / "rows.csv", ("name", "size"))] == ["a"]
    (tmp_path / "one.json").write_text(mark + '{"a": 1}', encoding="utf-8")
    assert read_json(tmp_path / "one.json") == {"a": 1}
