"""Where runs are: processes of this machine, actors of a Ray cluster, jobs of Slurm."""
