"""Virtual machines on nearly full hosts: a workload whose hard part is to place everybody at all.

Hosts of 48 to 96 cores with 6 GB each; machines of 1 to 32 cores with 2, 4 or 8 GB a core; 93% of all cores
that are in service are asked for.  The coarse kind has hosts of 64 cores, machines of 2, 4, 8, 16 and 32
cores, and so hardly any small ones to fill gaps with.  A machine is a request of one column a host that must
have one; what it costs is its cores at the host's price and, on any other host than its own, the move of its
memory.  Each round machines leave and others come; in one round a host fails, in a later one another is
drained.
"""

from __future__ import annotations

import numpy as np

from copter import ContinualProgram

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
