"""Convex terms of requests, and batches of terms for evaluation.

Read `convex.py` first, which has the base class and `LogTerm`. `compiled.py` compiles the functions of a
class. `phi.py` calls them from kernels. `batch.py` packs all terms of a program.
"""
