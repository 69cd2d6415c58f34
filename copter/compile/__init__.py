"""Compilation of kernels, and the cache of their machine code.

Read `kernels.py` first: the decorator `kernel` of every compiled function.  `array_record.py` are records
of arrays that kernels take as one argument.  `first_calls.py` runs a kernel in Python until it is worth
compiling, `beside.py` compiles in another process while a solve has a deadline, and `cache.py` names the
folders of machine code by all that it was made from.  `extremes.py` are minimum and maximum in loops that are
to be vectorized.  It imports the clock and the threads of copter, and no program, store or solver.
"""
