"""Fleets of instances: services get whole instances of pools, which have quotas and prices.

x[s, p] is the number of instances of pool p (a kind of instance in a zone, spot or on demand) that service s
gets, at c[p] dollars an hour.  It needs n[s, r] of resource r (cores, GB), of which an instance has a[p, r].
In a pool that it uses it has 2 instances or more, and not more than 2 or than half of its need:

    minimise sum_sp c[p] x[s, p]  subject to  sum_p a[p, r] x[s, p] >= n[s, r] for each service and resource,
             sum_s x[s, p] <= quota[p],  x[s, p] in {0, 2, 3, ..., most[s, p]}
"""

import argparse

import numpy as np

from copter import CountDomain, Rounds

KINDS = {"c": (2, 4, 0.085), "m": (2, 8, 0.1), "c large": (8, 16, 0.34), "r": (4, 32, 0.25)}
SPOT, LEAST, HALF = 0.35, 2, 0.5  # share of the price on demand; instances; share of a need
POOLS = [(kind, zone, way) for kind in KINDS for zone in "abc" for way in ("spot", "on demand")]
SIZES = np.array([KINDS[kind][:2] for kind, *_ in POOLS], float)


class Fleet(CountDomain):
    def __init__(self, services=12):
        super().__init__()
        self.services, self.came = services, 0
        self.price = {p: KINDS[p[0]][2] * (SPOT if p[2] == "spot" else 1.0) for p in POOLS}
        self.program.add_resources(POOLS, upper=4.0 * services)

    def apply(self, event):
        match event:
            case ("start", service, cores, memory):
                rows = [(service, "cores"), (service, "memory")]
                self.program.add_resources(rows, lower=[cores, memory], upper=np.inf)
                usage = dict(zip(rows, SIZES.T, strict=True)) | {p: ([k], [1]) for k, p in enumerate(POOLS)}
                most = np.maximum(LEAST, np.ceil(HALF * np.max([cores, memory] / SIZES, axis=1)))
                given = {"costs": [*self.price.values()], "upper": most, "columns": POOLS}
                self.program.add_request(service, usage=usage, integral=True, **given)
                self.minimum[service], self.came = LEAST, self.came + 1
            case ("stop", service):
                self.program.remove_request(service)
                self.program.remove_resources([(service, "cores"), (service, "memory")])
                del self.minimum[service]
            case ("pool", pool, dollars, quota) if pool in self.price and 0 < dollars < np.inf:
                self.program.update_resource(pool, upper=quota)
                self.price[pool] = dollars
                for service in self.program.request_ids:
                    self.program.update_request(service, costs=list(self.price.values()))
            case _:
                raise ValueError(f"no event: {event!r}")

    def events(self, rng):
        there = self.program.request_ids
        yield from (("stop", service) for service in there if rng.random() < 0.1)
        for k in range(max(self.services - len(there), int(rng.integers(2)))):
            yield "start", f"service {self.came + k}", *rng.integers([8, 16], [120, 600]).tolist()
        for pool in POOLS:
            if pool[2] == "spot" and rng.random() < 0.2:
                yield "pool", pool, self.price[pool] * rng.uniform(0.8, 1.25), float(rng.integers(4, 48))


DOMAIN = Fleet
if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=24)
    parser.add_argument("--picture", metavar="FILE.svg")
    given, rng, records = parser.parse_args(), np.random.default_rng(0), []
    played = [Rounds(Fleet(), solver, time_limit=2.0) for solver in ("copter", "highs-hot")]
    for _ in range(given.rounds):
        events = list(played[0].domain.events(rng))
        records.append([rounds.play(*events) for rounds in played])
    for rounds, own in zip(played, zip(*records, strict=True), strict=True):
        value, seconds = np.array([(r.answer.objective, r.seconds.total) for r in own]).T
        print(f"{rounds.solver.name:9} mean objective {value.mean():.4f}, median {np.median(seconds):.2f} s")
    if given.picture:
        import matplotlib.pyplot as plt

        plt.plot([(r.answer.objective, r.bound) for r, _ in records])
        plt.legend(["whole instances", "bound"]).axes.set(xlabel="round", ylabel="dollars an hour")
        plt.savefig(given.picture)
