"""Convex terms of requests, and all of a program's packed for evaluation.

Read `convex.py` first: the base class, and `LogTerm`.  `compiled.py` compiles the functions of a class,
`phi.py` calls them from kernels, `batch.py` packs the terms of a program.
"""
