"""Stands of an airport: each aircraft gets one stand from arrival to departure, or waits on the apron.

x[f, s] is 1 if flight f gets stand s.  c[f, s] is the time that its passengers walk; the apron (s = "apron")
takes a bus, and any number of aircraft.  If f has a planned stand, all others cost m[f] more:

    minimise sum_fs c[f, s] x[f, s]  subject to  sum_s x[f, s] = 1,  x in {0, 1},
             sum of x[f, s] over the flights f that are there in slot t <= 1 for each stand s and slot t
"""

import argparse

import numpy as np

from copter import ChooseOneDomain, Rounds

AHEAD, CHANGE, TOW = 24, 2.0, 20.0  # slots; minutes that a change costs a passenger, and after arrival


class Stands(ChooseOneDomain):
    def __init__(self, stands=12):
        super().__init__()
        self.walk = {f"stand {k + 1}": 3.0 + 9.0 * k / stands for k in range(stands)}  # minutes
        self.now, self.flights = 0, {}
        self.program.add_resources([(s, t) for s in self.walk for t in range(AHEAD)], upper=1)

    def apply(self, event):
        match event:
            case ("flight", flight, passengers, first, last) if slots := range(max(first, self.now), last):
                names = [*list(self.walk)[: len(self.walk) // (3 if passengers > 200 else 1)], "apron"]
                usage = {(s, t): ([k], [1]) for k, s in enumerate(names[:-1]) for t in slots}
                own = {"costs": [passengers * self.walk.get(s, 20.0) for s in names], "usage": usage}
                put = self.program.update_request if flight in self.flights else self.program.add_request
                put(flight, **own, total=1, relation="==", integral=True, columns=names)
                self.flights[flight] = (passengers, first, last)
            case ("slot", now) if now == self.now + 1:
                self.program.remove_requests([f for f, own in self.flights.items() if own[2] <= now])
                self.program.remove_resources([(s, self.now) for s in self.walk])
                self.program.add_resources([(s, self.now + AHEAD) for s in self.walk], upper=1)
                self.flights, self.now = {f: own for f, own in self.flights.items() if own[2] > now}, now
            case _:
                raise ValueError(f"no event: {event!r}")

    def prepare(self):  # a flight that keeps its stand saves the time of a change
        plan = {f: s for f, s in self.last.choice.items() if f in self.flights} if self.last else {}
        prices = [p * (CHANGE if first > self.now else TOW) for p, first, _ in map(self.flights.get, plan)]
        self.program.price_moves(list(plan), list(plan.values()), prices)

    def events(self, rng):
        yield "slot", (now := self.now + 1)
        for flight, (passengers, first, last) in self.flights.items():
            late = min(int(rng.integers(1, 5)), now + AHEAD - last) if rng.random() < 0.1 else 0
            if late and last > now:
                yield "flight", flight, passengers, first + late * (first > now), last + late
        for k in range(rng.poisson(0.22 * len(self.walk))):
            passengers, first = int(rng.integers(60, 280)), now + int(rng.integers(8, 16))
            yield "flight", f"flight {now}.{k}", passengers, first, first + 3 + passengers // 60


DOMAIN = Stands
if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=96)
    parser.add_argument("--picture", metavar="FILE.svg")
    given, rng, records = parser.parse_args(), np.random.default_rng(0), []
    played = [Rounds(Stands(12), solver, time_limit=5.0) for solver in ("copter", "highs-hot")]
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

        plt.barh(["apron", *(domain := played[0].domain).walk], 0, left=domain.now)[0].axes.set(xlabel="slot")
        for flight, (_, first, last) in domain.flights.items():  # the last plan
            plt.barh(domain.last.choice[flight], last - first, left=first, edgecolor="white")
        plt.savefig(given.picture)
