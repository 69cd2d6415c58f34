"""Advertising budgets: campaigns spend the money of an hour on impressions of segments of users.

x[c, s] is the money that campaign c spends for segment s, an age group in a region.  A euro brings it a profit of
r[c, s] euros.  The segment has n[s] thousand impressions in the hour, at p[s] euros each, and b[c] is the budget:

    maximise    sum over c, s of r[c, s] x[c, s]
    subject to  sum over c of x[c, s] / p[s] <= n[s],  sum over s of x[c, s] <= b[c],  x >= 0
"""

import argparse
from statistics import mean, median

import numpy as np

from copter import ContinualProgram, FlowDomain, Rounds

SEGMENTS = [f"{age} {side}" for side in ("north", "south", "east", "west") for age in (18, 25, 35, 50, 65)]
PRICES = dict(zip(SEGMENTS, np.random.default_rng(1).lognormal(1.4, 0.4, len(SEGMENTS)), strict=True))


class Advertising(FlowDomain):
    """Campaigns start, end and get other budgets; a round is an hour. There are about `size` campaigns."""

    def __init__(self, size=60):
        super().__init__()
        self.size, self.came, self.hour = size, 0, 0
        self.program = ContinualProgram(sense="max")
        self.program.add_resources(SEGMENTS, upper=0.0)

    def apply(self, event):
        match event:
            case ("supply", thousands):
                self.program.update_resources(SEGMENTS, upper=thousands)
                self.hour += 1
            case ("start", campaign, budget, profits):  # a column for each segment that the campaign targets
                usage = {segment: ([k], [1 / PRICES[segment]]) for k, segment in enumerate(profits)}
                values, names = list(profits.values()), list(profits)
                self.program.add_request(campaign, values, usage, total=budget, columns=names)
                self.came += 1
            case ("budget", campaign, budget):
                self.program.update_request(campaign, total=budget)
            case ("end", campaign):
                self.program.remove_request(campaign)
            case _:
                raise ValueError(f"no event: {event!r}")

    def events(self, rng):
        day = 1 + 0.7 * np.sin((self.hour - 10) * np.pi / 12)  # most impressions are at 16 o'clock
        yield "supply", 0.7 * self.size * day * rng.lognormal(0.0, 0.2, len(SEGMENTS))
        there = self.program.request_ids
        for k in range(max(self.size - len(there), int(rng.integers(3)))):
            targets = rng.choice(SEGMENTS, int(rng.integers(3, 12)), replace=False).tolist()
            profits = dict(zip(targets, rng.lognormal(-0.7, 0.6, len(targets)).tolist(), strict=True))
            yield "start", f"campaign {self.came + k}", float(rng.lognormal(4.0, 0.7)), profits
        for campaign in there[: max(len(there) - self.size, 0)]:
            yield "end", campaign
        for campaign in there[self.size // 2 :: 7]:
            yield "budget", campaign, float(rng.lognormal(4.0, 0.7))


DOMAIN = Advertising


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=72)
    parser.add_argument("--picture", metavar="FILE.svg")
    given, rng = parser.parse_args(), np.random.default_rng(0)
    played = {name: Rounds(Advertising(1000), name, deadline=1.0) for name in ("copter", "highs-hot")}
    records = {name: [] for name in played}
    for rounds in played.values():
        rounds.rehearse()
    for _ in range(given.rounds):
        events = list(played["copter"].domain.events(rng))
        for name, rounds in played.items():
            records[name].append(rounds.play(*events))
    print(f"{given.rounds:4} rounds  mean objective  median seconds  largest gap")
    for name, own in records.items():
        objective, seconds = mean(r.answer.objective for r in own), median(r.seconds.total for r in own)
        print(f"{name:11}  {objective:14.2f}  {seconds:14.4f}  {max(r.gap for r in own):11.1e}")
    if given.picture:
        draw(given.picture, [record.answer.binding for record in records["copter"]])


def draw(file, prices):  # what a thousand more impressions of each segment bring, by hour
    import matplotlib.pyplot as plt

    plt.rcParams["svg.hashsalt"] = "copter"  # the same file every time
    fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
    shown = [[own.get(segment, 0.0) for own in prices] for segment in SEGMENTS]
    image = ax.imshow(shown, aspect="auto", interpolation="nearest")
    ax.set_yticks(range(len(SEGMENTS)), SEGMENTS, fontsize="small")
    ax.set(xlabel="hour", title="profit of a thousand more impressions, in euros")
    fig.colorbar(image)
    fig.savefig(file, metadata={"Date": None})


if __name__ == "__main__":
    main()
