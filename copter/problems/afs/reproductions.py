"""The figures of the AFS paper: none is reproduced, and the table next to this module has its claims."""
