from copter.live.training.training import LearnedState as LearnedState
from copter.live.training.training import Training as Training
from copter.live.training.training import TrainingError as TrainingError
from copter.live.training.training import TrainingStep as TrainingStep
