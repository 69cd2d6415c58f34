"""Compilation of kernels, and the cache of their machine code.

Read `kernels.py` first, which has the decorator `kernel` of every compiled function.

- `array_record.py` has records of arrays that kernels take as one argument.
- `first_calls.py` runs a kernel in Python until compiling it pays off.
- `beside.py` compiles in another process while a solve has a deadline.
- `cache.py` names the folders of machine code by a hash of everything that the code depends on.
- `extremes.py` has minimum and maximum for vectorised loops.

The package imports the clock and the threads of copter, but no programs, stores or solvers.
"""
