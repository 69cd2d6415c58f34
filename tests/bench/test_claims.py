"""Claims of papers: the rule that judges them, and the tables that list them."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from claims import VERDICTS, judge, measured_value, read_printed, verdict

from copter.bench.reproduction import PaperClaim, Reproduction, not_reproduced, reproductions

PAPERS = Path(__file__).parents[2] / "bench/results/papers"
DOCUMENTS = {path.stem: json.loads(path.read_text()) for path in PAPERS.glob("*.json")}
KNOWN = reproductions()
CLAIMS = [(name, claim) for name, one in KNOWN.items() for claim in one.claims]


def claim(printed, better="more", **fields):
    return PaperClaim("a claim", printed, "Table 0", "ours", "JCT", better=better, **fields)


@pytest.mark.parametrize(
    ("printed", "better", "measured", "expected"),
    [
        # numbers: 15% of the printed value
        ("10h", "less", 11.5, "met"),
        ("10h", "less", 11.6, "missed"),
        ("10h", "less", 8.5, "met"),
        ("10h", "less", 8.4, "beaten"),
        ("-14%", "less", 0.69, "missed"),
        ("22%", "near", 30.6, "missed"),
        ("5.2", "near", 4.85, "met"),
        ("about 25%", "more", 7.6, "missed"),
        # ratios: the gain
        ("1.12x", "more", 1.04, "missed"),
        ("1.12x", "more", 1.11, "met"),
        ("0.75x", "less", 0.67, "beaten"),
        ("0.75x", "less", 0.78, "met"),
        ("up to 1.4x", "near", 1.96, "missed"),
        # ranges
        ("50-65%", "more", 25.2, "missed"),
        ("50-65%", "more", 43.0, "met"),
        ("50-65%", "more", 66.0, "met"),
        ("50-65%", "more", 76.0, "beaten"),
        ("2-3x", "less", 1.9, "met"),
        ("2-3x", "less", 1.8, "beaten"),
        ("2-3x", "near", 3.2, "met"),
        ("2-3x", "near", 3.4, "missed"),
        # bounds: no tolerance
        ("< 90%", "more", 93.9, "missed"),
        ("≥ 99.99%", "more", 99.956, "missed"),
        ("≥ 99.99%", "more", 99.99, "met"),
        ("≤ 10%", "less", 10.0, "met"),
        ("> 1x", "more", 1.0, "missed"),
    ],
)
def test_the_rule(printed, better, measured, expected):
    assert verdict(claim(printed, better), measured) == expected


def test_of_a_share_the_distance_from_the_whole_is_compared():
    assert verdict(claim("90%", "near"), 79.2) == "met"
    assert verdict(claim("90%", "near", share=True), 79.2) == "missed"
    assert verdict(claim("91%", share=True), 90.3) == "met"
    assert verdict(claim("91%", share=True), 94.0) == "beaten"


@pytest.mark.parametrize("text", ["linear", "", "3 to 4x", "12%x", "twice", "> a", "0.7 × 2"])
def test_a_value_that_is_no_number_is_refused(text):
    with pytest.raises(ValueError, match="must be a number, a range or a bound"):
        read_printed(text)


def test_the_measured_value_may_compare_two_figures():
    rows = [("ours", "JCT", 1.5), ("theirs", "JCT", 2.0), ("ours", "p90", 0.5), ("theirs", "p90", None)]
    figures = [{"row": row, "column": column, "unit": "h", "ours": value} for row, column, value in rows]
    assert measured_value(claim("1"), figures) == (1.5, "h")
    assert measured_value(claim("1", below="theirs"), figures) == (25.0, "%")
    assert measured_value(claim("1", above="theirs"), figures) == (-25.0, "%")
    assert measured_value(claim("1", over="theirs"), figures) == (0.75, "x")
    assert measured_value(claim("1", over="ours", other_column="p90"), figures) == (3.0, "x")
    for missing in (claim("1", over="theirs", other_column="p90"), replace(claim("1"), row="nobody")):
        value, unit = measured_value(missing, figures)
        assert math.isnan(value) and unit == ""


def test_what_cannot_be_compared_has_no_other_verdict():
    claims = (
        claim("2h", "less"),
        claim("2h", "less", unlike="Other jobs."),
        claim("1h", "less", why="Reason."),
        claim("2h", "less", why="Not needed."),
        replace(claim("2h"), row="", unlike="Nothing is measured."),
        claim("1h", "less", unlike="Other jobs."),
    )
    one = Reproduction("table", "A table", "Table 0", "As printed.", lambda effort: [], claims=claims)
    figures = [{"row": "ours", "column": "JCT", "unit": "h", "ours": 1.5}]
    document = {"differs": "As printed.", "figures": figures}
    judged = list(judge({"table": one}, {"table": document}))
    assert [(each.verdict, each.measured, each.reason) for each in judged] == [
        ("beaten", "1.50 h", ""),
        ("not comparable", "1.50 h", "Other jobs."),
        ("missed", "1.50 h", "Reason."),
        ("beaten", "1.50 h", ""),
        ("not comparable", "", "Nothing is measured."),
        ("missed", "1.50 h", "Other jobs."),
    ]
    assert {each.verdict for each in judge({"table": one}, {})} == {"not comparable"}
    stale = [each.verdict for each in judge({"table": one}, {"table": document | {"differs": "Smaller."}})]
    assert stale == ["missed" if each.verdict == "missed" else "not comparable" for each in judged]


@pytest.mark.parametrize(
    ("theirs", "words", "expected"),
    [
        (3.0, {"printed": "50%", "below": "theirs"}, "not comparable"),  # printed 2.5: a fifth worse
        (2.8, {"printed": "45%", "below": "theirs"}, "met"),
        (2.0, {"printed": "25%", "below": "theirs"}, "met"),  # a better baseline than the printed one
        (3.0, {"printed": "2x", "row": "theirs", "over": "ours"}, "not comparable"),
        (2.8, {"printed": "2x", "row": "theirs", "over": "ours"}, "met"),
        (3.0, {"printed": "0.6x", "better": "less", "over": "theirs"}, "not comparable"),
        (3.0, {"printed": "0.6x", "read": "< 1x", "over": "theirs"}, "not comparable"),
        (3.0, {"printed": "100%", "row": "theirs", "above": "ours"}, "not comparable"),
        (2.8, {"printed": "85%", "row": "theirs", "above": "ours"}, "met"),
        (3.0, {"printed": "2.5h", "better": "near", "row": "theirs"}, "missed"),
    ],
)
def test_a_baseline_that_is_weaker_than_printed_meets_nothing(theirs, words, expected):
    one = replace(claim("1"), **words)
    table = Reproduction("table", "A table", "Table 0", "As printed.", lambda effort: [], claims=(one,))
    figures = [
        {"row": row, "column": "JCT", "unit": "h", "ours": ours, "paper": paper}
        for row, ours, paper in (("ours", 1.5, None), ("theirs", theirs, 2.5))
    ]
    (judged,) = judge({"table": table}, {"table": {"differs": "As printed.", "figures": figures}})
    assert judged.verdict == expected
    assert (judged.verdict == "not comparable") == ("the printed one" in judged.reason)


@pytest.mark.parametrize(("name", "one"), CLAIMS, ids=[f"{name}: {one.says}" for name, one in CLAIMS])
def test_claims_can_be_judged(name, one):
    """Values are numbers in the unit of the figures that they are compared with."""
    printed = read_printed(one.read or one.printed)
    assert one.better in ("more", "less", "near") and one.says and one.place
    assert bool(one.row) == bool(one.column) and (one.row or one.unlike)
    assert sum(map(bool, (one.below, one.above, one.over))) <= 1
    if not printed.bound and not one.unlike:
        assert printed.low <= printed.high
        assert printed.unit != "x" or 1.0 not in (printed.low, printed.high), "no gain to compare"
    document = DOCUMENTS.get(name, {})
    if one.row and document.get("differs") == KNOWN[name].differs:
        value, unit = measured_value(one, document["figures"])
        as_ratio = unit == "" and printed.unit == "x"  # a worst FTF is a ratio that has no unit
        assert math.isfinite(value) and (unit == printed.unit or as_ratio)


def test_every_paper_has_claims_of_every_chapter():
    judged = list(judge(KNOWN, DOCUMENTS, not_reproduced()))
    assert len(judged) > 250 and {each.verdict for each in judged} <= set(VERDICTS)
    assert {each.name.partition("-")[0] for each in judged} == {"sia", "thesis", "shockwave", "pollux", "afs"}
    for each in judge({}, {}, not_reproduced()):
        assert each.verdict == "not reproduced" and each.claim.place and not each.measured
        read_printed(each.claim.read or each.claim.printed)
    explained = ("missed", "not comparable", "not reproduced")
    assert all(bool(each.reason) == (each.verdict in explained) for each in judged)
