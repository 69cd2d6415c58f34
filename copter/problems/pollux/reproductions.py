"""The figures of the Pollux paper: none is reproduced, and the table next to this module has its claims."""
