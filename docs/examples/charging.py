"""Electric cars charge while they are parked, and feeders limit the power of their cars.

Every 15 minutes, a slot, cars arrive, meters report, and the slots until all cars have left are planned.
With x[c, t] kWh for car c in slot t, maximise the sum of (value[c] - price[t]) x[c, t] subject to
x[c, t] <= power[c], sum_t x[c, t] <= wanted[c], and, for the cars of feeder f, sum_c x[c, t] <= room[f, t].
"""

import argparse

import numpy as np

from copter import ContinualProgram, FlowDomain, Rounds

DAY = np.cos(2 * np.pi * (np.arange(96) / 4 - 7) / 24)  # by slot, from noon on, with a peak at 19:00


class Charging(FlowDomain):
    def __init__(self, cars=30):
        super().__init__()
        self.program, self.cars, self.now = ContinualProgram(sense="max"), cars, 0
        self.room = 0.7 * cars * (0.5 - 0.2 * DAY)  # kWh of the site in a slot: other load takes the rest
        for feeder, share in [*((f"feeder {k}", 0.18) for k in range(8)), ("site", 1.0)]:
            self.program.add_resources([(feeder, t) for t in range(96)], upper=share * self.room)

    def apply(self, event):
        match event:
            case ("arrive", car, feeder, wanted, power, value, stay):
                slots = [t % 96 for t in range(self.now, self.now + int(stay))]
                usage = {(f, t): ([k], [1.0]) for k, t in enumerate(slots) for f in (feeder, "site")}
                values = value - (0.27 + 0.12 * DAY[slots])  # EUR/kWh
                self.program.add_request(car, values, usage, total=wanted, upper=power, columns=slots)
            case ("slot", charged):  # a slot is over: kWh that each car got
                cars = self.program.requests[:]
                if len(charged) != len(cars.ids) or not (charged >= 0).all():
                    raise ValueError(f"charged = {charged}: must be an amount for each car")
                left, ids = cars.totals - charged, np.array(cars.ids)
                stay = (left > 0.01) & (cars.sizes > 1)
                self.program.remove_requests(ids[~stay].tolist())
                self.program.update_requests(ids[stay].tolist(), totals=left[stay])
                self.program.remove_columns(ids[stay].tolist(), [self.now % 96] * stay.sum())
                self.now += 1
            case _:
                raise ValueError(f"no event: {event!r}")

    def events(self, rng):
        now = self.now + (self.last is not None)
        if self.last is not None:
            x, cars = self.last.x, self.program.request_ids
            yield "slot", np.array([x.get(car, {}).get(self.now % 96, 0.0) for car in cars])
        for k in range(rng.poisson(self.cars / 60 * (1 + DAY[now % 96]))):
            car, feeder, stay = f"car {now}.{k}", f"feeder {rng.integers(8)}", int(rng.integers(9, 48))
            power, value = float(rng.choice([3.7, 11, 22])) / 4, float(rng.uniform(0.42, 0.7))
            yield "arrive", car, feeder, float(rng.uniform(5, 40)), power, value, stay


DOMAIN = Charging
if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=96)
    parser.add_argument("--picture", metavar="FILE.svg")
    given, rng, records = parser.parse_args(), np.random.default_rng(0), []
    played = [Rounds(Charging(600), solver, time_limit=5.0) for solver in ("copter", "highs-hot")]
    played[0].warm_up()
    for _ in range(given.rounds):
        events = list(played[0].domain.events(rng))
        records.append([rounds.play(*events) for rounds in played])
    print("solver    mean objective, median and largest seconds of a round")
    for rounds, own in zip(played, zip(*records, strict=True), strict=True):
        value, seconds = np.array([(r.answer.objective, r.seconds.total) for r in own]).T
        print(f"{rounds.solver.name:9} {value.mean():14.2f}  {np.median(seconds):.4f}  {seconds.max():.4f}")
    if given.picture:
        import matplotlib.pyplot as plt

        kwh = [sum(x.get(k, 0) for x in r.answer.x.values()) for k, (r, _) in enumerate(records[:96])]
        plt.stairs(4 * np.array(kwh), 12 + np.arange(len(kwh) + 1) / 4, fill=True, label="charging")
        plt.plot(12 + np.arange(96) / 4, 4 * played[0].domain.room, "k", label="limit less other load")
        plt.legend().axes.set(xlabel="hour", ylabel="kW")
        plt.savefig(given.picture)
