"""The `copter` command. Nothing here imports numpy or a solver before a command runs."""
