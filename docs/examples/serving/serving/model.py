"""The domain: events become edits of a program, a round is a solve and a rounding."""

import math

from copter import ContinualProgram
from copter.shims.choose_one import ChooseOneShim

MEMORY = {"gpu": 80.0, "cpu": 64.0}
"""GB of each kind of machine, for ten models."""
SIZES = {"small": (16.0, 0.2), "large": (40.0, 0.0)}
"""GB that a model takes in each size, and what of its requests it fails; all of them if it is not served."""
SLOWER = {"gpu": 0.0, "cpu": 0.4}
"""What more it fails there."""


class Serving:
    """Models with loads, on machines with memory.

    Parameters
    ----------
    scale : float
        Machines, in units of those for ten models.
    """

    def __init__(self, scale):
        self.program = ContinualProgram()
        self.options = [None, *((machine, size) for machine in MEMORY for size in SIZES)]
        self.costs = [1.0, *(SIZES[size][1] + SLOWER[machine] for machine, size in self.options[1:])]
        used = {}
        for machine, memory in MEMORY.items():
            self.program.add_resource(machine, upper=memory * scale)
            columns = [k for k, option in enumerate(self.options) if option and option[0] == machine]
            used[machine] = (columns, [memory for memory, _ in SIZES.values()])
        self.columns = self.program.share_columns(used, len(self.options))
        self.shim = ChooseOneShim()
        self.placement = {}

    def arrive(self, model, load):
        """A model with so many requests a second is to be served."""
        self.program.add_request(
            model, self.costs, self.columns, total=1.0, relation="==", scale=load, integral=True
        )

    def set_load(self, model, load):
        """A model has another number of requests a second."""
        self.program.update_request(model, scale=load)

    def leave(self, model):
        """A model is not asked for any more."""
        self.program.remove_request(model)

    def place(self, solution):
        """Round an answer to one option a model; returns what a record of the round says of it."""
        if not solution.found:  # a missed round: everything stays
            return {"served": math.nan}
        rounded = self.shim.round(self.program, solution)
        # every model has the option of no machine, so each has a column
        self.placement = {model: self.options[column] for model, column in rounded.choice.items()}
        served = sum(option is not None for option in self.placement.values()) / len(self.placement)
        return {"integral_objective": rounded.objective, "integral_gap": rounded.gap, "served": served}
