"""Virtual machines on hosts: each runs on one host that has the cores and the memory for it, or waits.

x[v, h] is 1 if machine v runs on host h, or if it waits (h = "waiting"), for c[v, h] cents an hour.  If v has
a host, all others cost m[v] more, because its memory is copied there:
    minimise sum_vh c[v, h] x[v, h]  subject to  sum_h x[v, h] = 1,  sum_v cores[v] x[v, h] <= cores[h],
                                                 sum_v memory[v] x[v, h] <= memory[h],  x in {0, 1}
"""

import argparse

import numpy as np

from copter import ChooseOneDomain, Rounds

FLAVORS = {"small": (1, 2), "general": (2, 8), "compute": (8, 16), "memory": (4, 32), "large": (16, 64)}
HOSTS, COPY = ((32, 128, 3.0), (64, 384, 1.0)), 0.2  # cores, GB, cents for a core; cents for a copied GB


class Machines(ChooseOneDomain):
    def __init__(self, hosts=8):
        super().__init__()
        self.hosts = {f"host {k}": HOSTS[k % 2] for k in range(hosts)}
        self.up, self.flavor, self.came = dict.fromkeys(self.hosts, True), {}, 0
        for h, own in self.hosts.items():
            self.program.add_resources([(h, "cores"), (h, "memory")], upper=own[:2])

    def apply(self, event):
        match event:
            case ("start", vm, flavor, waits):
                needs, names = FLAVORS[flavor], [*self.hosts, "waiting"]
                use = {(h, "cores"): ([k], [needs[0]]) for k, h in enumerate(self.hosts)}
                use |= {(h, "memory"): ([k], [needs[1]]) for k, h in enumerate(self.hosts)}
                costs = [needs[0] * cents for *_, cents in self.hosts.values()] + [waits]
                self.program.add_request(vm, costs, use, total=1, relation="==", integral=True, columns=names)
                self.flavor[vm], self.came = flavor, self.came + 1
            case ("stop", vm):
                self.program.remove_request(vm)
                del self.flavor[vm]
            case ("up", h, up):
                upper = self.hosts[h][:2] if up else 0
                self.program.update_resources([(h, "cores"), (h, "memory")], upper=upper)
                self.up[h] = up
            case _:
                raise ValueError(f"no event: {event!r}")

    def prepare(self):  # a machine that stays where it is now saves the copy
        moved = {m.who: m.target for m in self.last.moves if m.who in self.flavor} if self.last else {}
        prices = [COPY * FLAVORS[self.flavor[vm]][1] * (h != "waiting") for vm, h in moved.items()]
        self.program.price_moves(list(moved), list(moved.values()), prices)

    def events(self, rng):
        there, n, shares = self.program.request_ids, len(self.hosts), [0.3, 0.3, 0.15, 0.15, 0.1]
        yield from (("stop", vm) for vm in there[:: int(rng.integers(8, 20))])
        drawn = rng.choice(list(FLAVORS), rng.poisson(0.8 * n) if there else 7 * n, p=shares).tolist()
        for k, flavor in enumerate(drawn, self.came):
            yield "start", f"machine {k}", flavor, FLAVORS[flavor][0] * float(rng.uniform(5, 20))
        yield from (("up", h, not up) for h, up in self.up.items() if rng.random() < (0.02 if up else 0.3))


DOMAIN = Machines
if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--picture", metavar="FILE.svg")
    given, rng, records = parser.parse_args(), np.random.default_rng(0), []
    played = [Rounds(Machines(20), s, time_limit=1.0) for s in ("copter", "copter-exact", "highs-hot")]
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

        plt.plot([[record.answer.objective for record in own] for own in records])
        plt.legend([r.solver.name for r in played]).axes.set(xlabel="round", ylabel="objective (cents)")
        plt.savefig(given.picture)
