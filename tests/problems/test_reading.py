"""Where files of real traces are looked for, and how they begin."""

from copter.problems.reading import find, read_csv, read_json


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
