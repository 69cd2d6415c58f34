"""Requests to language models are routed to replicas: better service classes first, with small latencies.

Stream s is what a region asks of a model in a service class; x[s, k], in thousand tokens a second, goes to
replica k, which serves several models.  Every second loads change, and replicas fail or come back.
Maximise the sum of weight[class of s] (1 - latency[s, k] / limit[class of s]) x[s, k] subject to
sum_k x[s, k] <= load[s] for each stream and sum_s x[s, k] <= capacity[k] for each replica.
"""

import argparse

import numpy as np

from copter import ContinualProgram, FlowDomain, Rounds

CLASSES = {"premium": (100.0, 0.5), "standard": (10.0, 1.0), "best effort": (1.0, 2.0)}  # weight; limit in s


class Inference(FlowDomain):
    def __init__(self, models=3, replicas=6, regions=3):
        super().__init__()
        rng, self.program, self.now = np.random.default_rng(1), ContinualProgram(sense="max"), 0
        tokens, places = rng.choice([20.0, 40.0, 80.0], replicas), rng.uniform(0.0, 0.15, (regions, 2))
        self.capacity = {f"replica {k}": float(tokens[k]) for k in range(replicas)}
        home = rng.integers(regions, size=replicas)  # region of each replica
        self.program.add_resources([*self.capacity], upper=tokens)
        for model in range(models):
            hosts = rng.choice(replicas, replicas // 2, replace=False)
            usage = {f"replica {host}": ([k], [1.0]) for k, host in enumerate(hosts)}
            columns = self.program.share_columns(usage, len(hosts), columns=[*usage])
            for region in range(regions):
                latency = 0.05 + np.abs(places[home[hosts]] - places[region]).sum(axis=1)
                for name, (weight, limit) in CLASSES.items():
                    values = weight * (1 - latency / limit)
                    self.program.add_request((name, region, model), values, columns, total=0.0)

    def apply(self, event):
        match event:
            case ("loads", loads) if len(loads) == len(self.program) and (loads >= 0).all():
                self.program.update_requests(self.program.request_ids, totals=loads)
                self.now += 1
            case ("capacity", replica, tokens) if tokens >= 0:
                self.program.update_resources([replica], upper=tokens)
            case _:
                raise ValueError(f"unknown or invalid event: {event!r}")

    def events(self, rng):
        streams, size = self.program.request_ids, sum(self.capacity.values()) / len(self.program)
        surge = self.now // 20 % 3 if self.now % 20 >= 10 else None  # a region that asks for more
        means = np.array([4.0 * size if stream[1] == surge else size for stream in streams])
        yield "loads", means * rng.gamma(20.0, 1 / 20, len(streams))
        replica = str(rng.choice([*self.capacity]))
        yield "capacity", replica, self.capacity[replica] * float(rng.random() < 0.8)


DOMAIN = Inference
if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--picture", metavar="FILE.svg")
    given, rng, records = parser.parse_args(), np.random.default_rng(0), []
    played = [Rounds(Inference(30, 24, 8), solver, time_limit=1.0) for solver in ("copter", "highs-hot")]
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

        tokens = [{s: sum(x.values()) for s, x in record.answer.x.items()} for record, _ in records]
        served = [[sum(t[s] for s in t if s[0] == name) for t in tokens] for name in CLASSES]
        plt.stackplot(range(len(records)), served, labels=CLASSES)
        plt.legend().axes.set(xlabel="round", ylabel="thousand tokens a second")
        plt.savefig(given.picture)
