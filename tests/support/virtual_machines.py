"""Virtual machines on nearly full hosts: a workload whose hard part is to place everybody at all.

Hosts of 48 to 96 cores with 6 GB each; machines of 1 to 32 cores with 2, 4 or 8 GB a core; 93% of all cores
that are in service are asked for.  The coarse kind has hosts of 64 cores, machines of 2, 4, 8, 16 and 32
cores, and so hardly any small ones to fill gaps with.  A machine is a request of one column a host that must
have one; what it costs is its cores at the host's price and, on any other host than its own, the move of its
memory.  Each round machines leave and others come; in one round a host fails, in a later one another is
drained.

    python tests/support virtual_machines --seed 0 --rounds 20
"""

from __future__ import annotations

import argparse
from time import perf_counter

import numpy as np

from copter import ChooseOneShim, ContinualProgram, make_solver

CORES, GB_A_CORE = np.array([48.0, 64.0, 96.0, 96.0]), 6.0
SIZES = np.array([1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0])
SHARES = np.array([0.04, 0.06, 0.08, 0.14, 0.14, 0.16, 0.12, 0.1, 0.08, 0.08])
A_CORE = np.array([2.0, 4.0, 8.0])
COARSE = np.array([2.0, 4.0, 8.0, 16.0, 32.0])
COARSE_SHARES = np.array([0.15, 0.25, 0.3, 0.18, 0.12])
MOVE = 0.1
"""Cost of moving a machine: this, and a share of its memory."""


class Hosts:
    """The program, and the machines where they are.

    Parameters
    ----------
    seed : int
    hosts : int
    load : float
        Of all cores in service.
    churn : float
        Share of the machines that leave in a round.
    coarse : bool
    """

    def __init__(self, seed, hosts=40, load=0.93, churn=0.05, coarse=False):
        self.rng, self.n, self.load, self.churn = np.random.default_rng(seed), hosts, load, churn
        self.machines, self.at, self.next = {}, {}, 0
        self.sizes, self.shares = (COARSE, COARSE_SHARES) if coarse else (SIZES, SHARES)
        self.cores = np.full(hosts, 64.0) if coarse else self.rng.choice(CORES, hosts)
        self.memory = GB_A_CORE * self.cores
        self.price = np.round(self.rng.uniform(0.4, 0.8, hosts), 2)
        self.open = np.ones(hosts, bool)
        self.program = ContinualProgram()
        for h in range(hosts):
            self.program.add_resource(("cpu", h), upper=self.cores[h])
            self.program.add_resource(("memory", h), upper=self.memory[h])
        self._fill()

    def _fill(self):
        """Machines come until the load is reached."""
        room = self.load * self.cores[self.open].sum() - sum(cpu for cpu, _ in self.machines.values())
        memory = 0.9 * self.memory[self.open].sum() - sum(gb for _, gb in self.machines.values())
        while room >= self.sizes[0]:
            drawn = float(self.rng.choice(self.sizes, p=self.shares))
            cpu = min(drawn, float(self.sizes[self.sizes <= room][-1]))
            gb = cpu * float(self.rng.choice(A_CORE, p=[0.3, 0.4, 0.3]))
            if gb > memory:
                gb = cpu * A_CORE[0]
            room, memory = room - cpu, memory - gb
            name = f"vm {self.next}"
            self.next += 1
            self.machines[name] = cpu, gb
            usage = {("cpu", h): self._only(h, cpu) for h in range(self.n)}
            usage |= {("memory", h): self._only(h, gb) for h in range(self.n)}
            self.program.add_request(
                name, self._costs(name), usage, total=1, relation="==", upper=self._upper(), integral=True
            )

    def _only(self, host, amount):
        return [host], [amount]

    def _upper(self):
        return np.where(self.open, 1.0, 0.0)

    def _costs(self, name):
        cpu, gb = self.machines[name]
        there, host = cpu * self.price, self.at.get(name)
        if host is None or not self.open[host]:
            return there
        costs = there + MOVE + gb / 100.0
        costs[host] = there[host]
        return costs

    def place(self, choice):
        """Take an allocation: the next round's costs are of moving away from it."""
        for name, host in choice.items():
            if host is not None and host >= 0:
                self.at[name] = int(host)
            else:
                self.at.pop(name, None)

    def turn(self, fails=None):
        """The next round: some leave, a host may go out of service, others come."""
        if fails is not None:
            self.open[fails] = False
        for name in list(self.machines):
            if self.rng.random() < self.churn:
                self._remove(name)
        names = list(self.machines)
        while sum(self.machines[name][0] for name in names) > self.load * self.cores[self.open].sum():
            self._remove(names.pop(int(self.rng.integers(len(names)))))
        for name in self.machines:
            self.program.update_request(name, costs=self._costs(name), upper=self._upper())
        self._fill()

    def _remove(self, name):
        self.program.remove_request(name)
        del self.machines[name]
        self.at.pop(name, None)

    def fits(self, choice):
        """Whether every machine has a host in service and no host is overdrawn."""
        if any(host is None or host < 0 or not self.open[host] for host in choice.values()):
            return False
        used = np.zeros((2, self.n))
        for name, host in choice.items():
            used[:, host] += self.machines[name][:2]
        return bool((used[0] <= self.cores).all() and (used[1] <= self.memory).all())

    def cost(self, choice):
        """Of an allocation of everybody."""
        return sum(float(self._costs(name)[host]) for name, host in choice.items())


def compare(seed, rounds, deadline, coarse):
    """Rounds through copter and its shim, and each program to the shim's gap by branch and bound."""
    hosts = Hosts(seed, coarse=coarse)
    solver, shim = make_solver("copter", tolerance=1e-4), ChooseOneShim(unplaced="allow")
    print(f"{len(hosts.machines)} machines, {hosts.program.n_variables} columns, {2 * hosts.n} rows")
    for step in range(rounds):
        begin = perf_counter()
        solution = solver.solve(hosts.program)
        answer = shim.round(hosts.program, solution)
        ours = perf_counter() - begin
        assert answer.unplaced or hosts.fits(answer.choice)
        share = max((answer.objective - solution.bound) / abs(answer.objective), 1e-9)
        baseline = make_solver("highs-milp", deadline=deadline, mip_gap=min(share, 1.0))
        begin = perf_counter()
        theirs = baseline.solve(hosts.program)
        wall = perf_counter() - begin
        print(
            f"round {step}: {len(answer.unplaced)} unplaced, cost {answer.objective:.2f}, ",
            f"{share:.2%} from the bound, {ours:.3f} s; highs-milp at that gap: {theirs.status}, ",
            f"{theirs.objective:.2f}, {wall:.2f} s, {wall / ours:.0f} times as long",
            sep="",
            flush=True,
        )
        hosts.place(answer.choice)
        hosts.turn(fails={6: 7, 12: 3}.get(step))


def compare_exact(seed, rounds, deadline, coarse):
    """Rounds through copter-exact, warm, and through branch and bound on everything, in the same time."""
    hosts, exact = Hosts(seed, coarse=coarse), make_solver("copter-exact", deadline=deadline)
    shim = ChooseOneShim(unplaced="allow")
    for step in range(rounds):
        begin = perf_counter()
        ours = exact.solve(hosts.program)
        middle = perf_counter()
        theirs = make_solver("highs-milp", deadline=deadline, mip_gap=0.0).solve(hosts.program)
        seconds = middle - begin, perf_counter() - middle
        costs = [found.objective if found.found else np.inf for found in (ours, theirs)]
        word = "as good" if costs[0] <= costs[1] * (1 + 1e-9) else f"worse by {costs[0] / costs[1] - 1:.2%}"
        print(f"round {step}: copter-exact {costs[0]:.2f}, highs-milp {costs[1]:.2f} ", end="")
        print(f"({seconds[0]:.1f} and {seconds[1]:.1f} s): {word}", flush=True)
        hosts.place(shim.round(hosts.program, ours if ours.found else theirs).choice)
        hosts.turn(fails={6: 7, 12: 3}.get(step))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--deadline", type=float, default=30.0)
    parser.add_argument("--coarse", action="store_true")
    parser.add_argument("--exact", action="store_true", help="copter-exact and HiGHS in the same time")
    given = parser.parse_args()
    play = compare_exact if given.exact else compare
    play(given.seed, given.rounds, given.deadline, given.coarse)
