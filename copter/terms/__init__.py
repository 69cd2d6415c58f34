"""Convex terms of requests, and batches of terms for evaluation.

Read `convex.py` first, which has the base class and `LogTerm`. `compiled.py` compiles the functions of a
class. `phi.py` calls them from kernels. `batch.py` packs all terms of a program.

Programs with terms are treated differently in these places: ``proof/tangents`` prices the requests with
terms, and ``proof/measure`` and ``proof/certificate`` add the values of the terms. In ``solvers/proximal``,
pricing passes keep all columns of these requests (``columns``), other inner solvers take the steps
(``steps``), no prices come from a sample and no steps are partial (``loop``), no request becomes inactive
(``incremental``), and HiGHS solves no working set (``run``).
"""
