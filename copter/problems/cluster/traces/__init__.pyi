from copter.problems.cluster.registry import by_name as by_name
from copter.problems.cluster.registry import trace_names as trace_names
from copter.problems.cluster.traces.tuned import TunedJobs as TunedJobs
