"""Rounds to run and to measure: loads move, models come and go."""

from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np

from copter.bench.course import Course, Figure, Play, solve_round
from serving.model import Serving


@dataclass(frozen=True)
class ServingCourse(Course):
    """So many models in each of so many rounds, drawn from a seed."""

    models: int
    rounds: int
    seed: int = 0

    figures = (Figure("served", "served", "mean", ".1%"),)

    def small(self):
        """The same with few models, to compile what there is to compile."""
        return replace(self, models=min(self.models, 100), rounds=3)

    def play(self, settings):
        """Begin the rounds with a solver."""
        solver, serving = settings.make(), Serving(self.models / 10)
        return Play(self._rounds(solver, serving), solver.stopping(), serving.program)

    def _rounds(self, solver, serving):
        rng, there = np.random.default_rng(self.seed), list(range(self.models))
        for number in range(self.rounds):
            begin = perf_counter()
            if number == 0:
                for model in there:
                    serving.arrive(model, rng.uniform(1.0, 10.0))
            else:
                serving.leave(there.pop(0))
                there.append(there[-1] + 1)
                serving.arrive(there[-1], rng.uniform(1.0, 10.0))
                for model in rng.choice(there, len(there) // 5, replace=False).tolist():
                    serving.set_load(model, rng.uniform(1.0, 10.0))
            yield solve_round(number, serving.program, solver, perf_counter() - begin, serving.place)
