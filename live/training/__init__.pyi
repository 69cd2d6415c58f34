from copter.live.training.training import State as State
from copter.live.training.training import Step as Step
from copter.live.training.training import Training as Training
from copter.live.training.training import TrainingError as TrainingError
