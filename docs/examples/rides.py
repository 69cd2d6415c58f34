"""Rides are given to drivers every ten seconds, so that passengers wait for few minutes.

Drivers come, move and go, passengers ask for rides, and the eight drivers nearest to a ride may serve it.
With x[r, d] = 1 if driver d serves ride r, minimise sum minutes[r, d] x[r, d] + patience[r] x[r, wait]
subject to sum_d x[r, d] + x[r, wait] = 1 for each ride, sum_r x[r, d] <= 1 for each driver, x in {0, 1}.
"""

import argparse

import numpy as np

from copter import ChooseOneDomain, Rounds


class Rides(ChooseOneDomain):
    def __init__(self, rate=3):
        super().__init__()
        self.rate, self.now, self.drivers, self.rides = rate, 0, {}, {}  # rides a round, seconds, places

    def apply(self, event):
        match event:
            case ("drivers", now, places) if now > self.now and np.isfinite([*places.values()]).all():
                self.program.add_resources([d for d in places if d not in self.drivers], upper=1)
                self.drivers, self.now = self.drivers | places, now  # some come, others move
            case ("ride", ride, x, y) if np.isfinite([x, y]).all():
                self.program.add_request(ride, [5.0], {}, total=1, relation="==", columns=["wait"])
                self.rides[ride] = (x, y), self.now
            case ("gone", rides, drivers) if len({*drivers} & {*self.drivers}) == len(drivers):
                self.program.remove_requests(rides)
                self.program.remove_resources(drivers)
                self.rides = {ride: own for ride, own in self.rides.items() if ride not in rides}
                self.drivers = {driver: at for driver, at in self.drivers.items() if driver not in drivers}
            case _:
                raise ValueError(f"unknown or invalid event: {event!r}")

    def prepare(self):  # the columns of every ride: its nearest drivers, and to wait
        ids, at, rows = [*self.drivers], np.array([*self.drivers.values()]).reshape(-1, 2), []
        for ride, (place, since) in self.rides.items():
            minutes = 3.0 * np.abs(at - place).sum(axis=1)  # along streets, at 20 km/h
            rows += [(ride, ids[k], ids[k], 1.0, minutes[k]) for k in np.argsort(minutes)[:8]]
            rows.append((ride, "wait", None, 0.0, 5.0 + (self.now - since) / 30))
        form = [("request", "O"), ("column", "O"), ("resource", "O"), ("use", float), ("cost", float)]
        self.program.update_table(np.array(rows, form))

    def events(self, rng):
        now, last = self.now + 10, {} if self.last is None else self.last.choice
        pairs = {ride: last[ride] for ride in self.rides if last.get(ride) in self.drivers}
        moved = {d: (x + rng.normal(0, 0.05), y) for d, (x, y) in self.drivers.items() if rng.random() < 0.3}
        free = rng.normal(6, 2, (rng.poisson(1.05 * self.rate), 2)).tolist()
        yield "drivers", now, moved | {f"driver {now}.{k}": place for k, place in enumerate(free)}
        yield "gone", [*pairs], [d for d in self.drivers if d in pairs.values() or rng.random() < 0.01]
        for k in range(rng.poisson(self.rate)):
            yield "ride", f"ride {now}.{k}", *rng.normal(6, 2, 2).tolist()


DOMAIN = Rides
if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--picture", metavar="FILE.svg")
    given, rng, records = parser.parse_args(), np.random.default_rng(0), []
    played = [Rounds(Rides(80), solver, time_limit=1.0) for solver in ("copter", "highs-hot")]
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

        drivers, rides, choice = played[0].domain.drivers, played[0].domain.rides, played[0].answer.choice
        plt.plot(*np.array([(rides[r][0], drivers[d]) for r, d in choice.items() if d != "wait"]).T, "C0")
        plt.plot(*np.array([*drivers.values()]).T, "C7.", label="driver")
        plt.plot(*np.array([place for place, _ in rides.values()]).T, "C1.", label="ride")
        plt.legend().axes.set(xlabel="km", ylabel="km")
        plt.savefig(given.picture)
