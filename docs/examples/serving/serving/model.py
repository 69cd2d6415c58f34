"""The domain: models with loads, each in one size on one kind of machine, or not at all."""

from copter import ChooseOneDomain

MEMORY = {"gpu": 320.0, "cpu": 256.0}
"""GB of each kind of machine."""
SIZES = {"small": (16.0, 0.2), "large": (40.0, 0.0)}
"""Memory in GB of each size of a model, and the share of requests that fail; without a size, all fail."""
SLOWER = {"gpu": 0.0, "cpu": 0.4}
"""Additional share of failed requests on each kind of machine."""
MODELS = 40
"""Number of models that the random events keep approximately."""


class Serving(ChooseOneDomain):
    """Domain that minimises the number of failed requests per second."""

    def __init__(self):
        super().__init__()
        self.came = 0
        self.options = ("off", *((machine, size) for machine in MEMORY for size in SIZES))
        self.costs = [1.0, *(SIZES[size][1] + SLOWER[machine] for machine, size in self.options[1:])]
        used = {}
        for machine, memory in MEMORY.items():
            self.program.add_resource(machine, upper=memory)
            columns = [k for k, option in enumerate(self.options) if option[0] == machine]
            used[machine] = (columns, [memory for memory, _ in SIZES.values()])
        self.columns = self.program.share_columns(used, len(self.options), columns=self.options)

    def apply(self, event):
        """Make one event."""
        match event:
            case ("arrive", model, load):
                self.program.add_request(
                    model, self.costs, self.columns, total=1.0, relation="==", scale=load, integral=True
                )
                self.came += 1
            case ("load", model, load):
                self.program.update_request(model, scale=load)
            case ("leave", model):
                self.program.remove_request(model)
            case ("memory", machine, memory):
                self.program.update_resources(machine, upper=memory)
            case _:
                raise ValueError(f"no event: {event!r}")

    def figures(self, answer):
        """Number of models that are served."""
        served = sum(option != "off" for option in answer.choice.values())
        return super().figures(answer) | {"served": served / max(len(answer.choice), 1)}

    def events(self, rng):
        """Loads that move, models that come and go, memory that fails and comes back."""
        there = self.program.request_ids
        for k in range(1 if there else MODELS):
            yield "arrive", f"model {self.came + k}", float(rng.uniform(1.0, 10.0))
        for model in there[1 :: int(rng.integers(2, 6))]:
            yield "load", model, float(rng.uniform(1.0, 10.0))
        if len(there) > MODELS:
            yield "leave", there[0]
        if rng.random() < 0.3:
            yield "memory", "gpu", float(rng.integers(100, 400))
