"""The job's side: what a training script imports."""
