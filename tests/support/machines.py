"""A small domain for tests of rounds: models that are served on machines, each in one way or not at all."""

from __future__ import annotations

from typing import Any

import numpy as np

from copter import ChooseOneDomain


class Machines(ChooseOneDomain):
    """Models arrive, leave and get loads; machines have memory."""

    def __init__(self) -> None:
        super().__init__()
        self.came = 0
        for machine, memory in (("gpu", 80.0), ("cpu", 64.0)):
            self.program.add_resource(machine, upper=memory)

    def apply(self, event: Any) -> None:
        """Make one event."""
        match event:
            case ("arrive", name, (small, large, cpu)):
                usage = {"gpu": ([1, 2], [16, 40]), "cpu": ([3], [16])}
                self.program.add_request(
                    name, [1.0, small, large, cpu], usage, total=1, relation="==", integral=True
                )
                self.came += 1
            case ("leave", name):
                self.program.remove_request(name)
            case ("load", name, load):
                self.program.update_request(name, scale=load)
            case ("memory", machine, memory):
                self.program.update_resources(machine, upper=memory)
            case _:
                raise ValueError(f"no event: {event!r}")

    def events(self, rng: np.random.Generator) -> Any:
        """Draw the events of a round."""
        yield "arrive", f"model {self.came}", tuple(rng.uniform(0, 1, 3).tolist())
        there = self.program.request_ids
        if there and rng.random() < 0.5:
            yield "load", there[0], float(rng.uniform(0.5, 2.0))
        if there and rng.random() < 0.4:
            yield "leave", there[int(rng.integers(len(there)))]
        if rng.random() < 0.2:
            yield "memory", "gpu", float(rng.integers(10, 100))
