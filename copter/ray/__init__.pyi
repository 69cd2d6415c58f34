from copter.ray.program import RayProgram as RayProgram
