"""Advertising budgets: campaigns spend the money of an hour on impressions of segments of users.

x[c, s] is the money that campaign c spends for segment s, an age group in a region.  A euro brings it a
profit of r[c, s] euros.  The segment has n[s] thousand impressions at p[s] euros each; b[c] is the budget:

    maximise    sum over c, s of r[c, s] x[c, s]
    subject to  sum over c of x[c, s] / p[s] <= n[s],  sum over s of x[c, s] <= b[c],  x >= 0
"""

import argparse

import numpy as np

from copter import FlowDomain, Rounds

SEGMENTS = [f"{age} {side}" for side in ("north", "south", "east", "west") for age in (18, 25, 35, 50, 65)]
PRICES = dict(zip(SEGMENTS, np.random.default_rng(1).lognormal(1.4, 0.4, len(SEGMENTS)), strict=True))


class Advertising(FlowDomain):
    def __init__(self, size=60):  # campaigns, about
        super().__init__(sense="max")
        self.size, self.came, self.hour = size, 0, 0
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
        yield from (("end", campaign) for campaign in there[: max(len(there) - self.size, 0)])
        for k in range(max(self.size - len(there), int(rng.integers(3)))):
            targets = rng.choice(SEGMENTS, int(rng.integers(3, 12)), replace=False).tolist()
            profits = dict(zip(targets, rng.lognormal(-0.7, 0.6, len(targets)).tolist(), strict=True))
            yield "start", f"campaign {self.came + k}", float(rng.lognormal(4.0, 0.7)), profits
        for campaign in there[self.size // 2 :: 7]:
            yield "budget", campaign, float(rng.lognormal(4.0, 0.7))


DOMAIN = Advertising
if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=72)
    parser.add_argument("--picture", metavar="FILE.svg")
    given, rng, records = parser.parse_args(), np.random.default_rng(0), []
    played = [Rounds(Advertising(1000), solver, time_limit=5.0) for solver in ("copter", "highs-hot")]
    played[0].warm_up()
    for _ in range(given.rounds):
        events = list(played[0].domain.events(rng))
        records.append([rounds.play(*events) for rounds in played])
    print("solver       mean objective, median and largest seconds of a round")
    for rounds, own in zip(played, zip(*records, strict=True), strict=True):
        value, seconds = np.array([(r.answer.objective, r.seconds.total) for r in own]).T
        print(f"{rounds.solver.name:12} {value.mean():14.2f}  {np.median(seconds):.4f}  {seconds.max():.4f}")
    if given.picture:
        import matplotlib.pyplot as plt

        prices = [[r.answer.binding.get(segment, 0.0) for r, _ in records] for segment in SEGMENTS]
        plt.imshow(prices, aspect="auto", interpolation="nearest")
        plt.yticks(range(len(SEGMENTS)), SEGMENTS, fontsize=7)
        plt.xlabel("hour")
        plt.colorbar(label="profit of 1000 more impressions, in euros")
        plt.savefig(given.picture)
