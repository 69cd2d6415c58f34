from copter.problems.pollux.fitness import POWER_MEAN as POWER_MEAN
from copter.problems.pollux.fitness import WEIGHTED_MEAN as WEIGHTED_MEAN
from copter.problems.pollux.fitness import Fitness as Fitness
from copter.problems.pollux.genetic import AllocationProblem as AllocationProblem
from copter.problems.pollux.genetic import evolve as evolve
from copter.problems.pollux.policy import Pollux as Pollux
