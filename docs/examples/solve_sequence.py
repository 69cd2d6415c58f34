"""Solve a sequence of LPs with HiGHS: `python solve_sequence.py FOLDER`. It needs highspy, and no copter.

FOLDER has sequence.json, round0.mps and rounds.jsonl, as docs/reference/lp-sequences.md specifies them. The
model and its basis are kept between rounds. The exit status is 1 if an objective differs from the certified
optimum by more than 1e-6, relative to the larger of 1 and the optimum.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import highspy
import numpy as np

INF = highspy.kHighsInf


class Model:
    """A HiGHS model, and the positions of its columns and rows by name."""

    def __init__(self, path, options):
        self.highs = highspy.Highs()
        for name, value in {"output_flag": False, **options}.items():
            self.highs.setOptionValue(name, value)
        if self.highs.readModel(str(path)) == highspy.HighsStatus.kError:
            sys.exit(f"{path}: HiGHS cannot read the file")
        lp = self.highs.getLp()
        self.columns = {name: at for at, name in enumerate(lp.col_names_)}
        self.rows = {name: at for at, name in enumerate(lp.row_names_)}

    def edit(self, edits):
        """Apply the edits of a round, in the order of the format."""
        self.columns = self.delete(self.highs.deleteCols, self.columns, edits["remove_columns"])
        self.rows = self.delete(self.highs.deleteRows, self.rows, edits["remove_rows"])
        at, costs = positions(self.columns, edits["costs"]), list(edits["costs"].values())
        self.highs.changeColsCost(len(at), at, np.array(costs, float))
        at, (lower, upper) = positions(self.columns, edits["bounds"]), limits(edits["bounds"].values())
        self.highs.changeColsBounds(len(at), at, lower, upper)
        at, (lower, upper) = positions(self.rows, edits["sides"]), limits(edits["sides"].values())
        self.highs.changeRowsBounds(len(at), at, lower, upper)
        new = edits["add_rows"]
        lower, upper = limits(new.values())
        self.highs.addRows(len(new), lower, upper, *compressed(self.columns, [{}] * len(new)))
        self.rows |= {name: at for at, name in enumerate(new, len(self.rows))}
        new = edits["add_columns"]
        lower, upper = limits(column["bounds"] for column in new.values())
        costs = np.array([column["cost"] for column in new.values()], float)
        self.highs.addCols(
            len(new), costs, lower, upper, *compressed(self.rows, [one["entries"] for one in new.values()])
        )
        self.columns |= {name: at for at, name in enumerate(new, len(self.columns))}

    def delete(self, call, known, names):
        """Delete columns or rows, and return the new positions of the others."""
        call(len(names), np.sort(positions(known, names)))
        gone = set(names)
        return {name: at for at, name in enumerate(name for name in known if name not in gone)}


def positions(known, names):
    return np.array([known[name] for name in names], np.int32)


def limits(pairs):
    pairs = [(-INF if low is None else low, INF if high is None else high) for low, high in pairs]
    return np.array(pairs, float).reshape(-1, 2).T.copy()


def compressed(known, entries):
    starts = np.cumsum([0, *map(len, entries)])[:-1].astype(np.int32)
    values = np.array([value for own in entries for value in own.values()], float)
    return values.size, starts, positions(known, (name for own in entries for name in own)), values


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("folder", type=Path, help="folder of the sequence")
parser.add_argument("--solver", choices=("auto", "dual", "primal", "ipm"), default="auto")
parser.add_argument("--cold", action="store_true", help="clear basis and solution before each round")
options = parser.parse_args()
strategy = {"dual": {"simplex_strategy": 1}, "primal": {"simplex_strategy": 4}, "ipm": {"solver": "ipm"}}
model = Model(options.folder / "round0.mps", strategy.get(options.solver, {}))
worst = 0.0
first = json.loads((options.folder / "sequence.json").read_text())
for edits in [first, *map(json.loads, (options.folder / "rounds.jsonl").open())]:
    begin = time.perf_counter()
    if "round" in edits:
        model.edit(edits)
    if options.cold:
        model.highs.clearSolver()
    model.highs.run()
    seconds, status = time.perf_counter() - begin, model.highs.getModelStatus()
    found, optimum = model.highs.getObjectiveValue(), edits["optimum"]["objective"]
    difference = abs(found - optimum) / max(1.0, abs(optimum))
    if status != highspy.HighsModelStatus.kOptimal:
        difference = INF
    worst = max(worst, difference)
    print(f"{edits.get('round', 0):4} {seconds:9.4f} s {found:22.12g} {difference:9.1e}")
print(f"largest difference {worst:.1e}")
sys.exit(worst > 1e-6)
