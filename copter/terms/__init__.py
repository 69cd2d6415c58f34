"""Convex terms of requests, and batches of terms for evaluation.

Read `convex.py` first, which has the base class and `LogTerm`. `compiled.py` compiles the functions of a
class. `phi.py` calls them from kernels. `batch.py` packs all terms of a program.

Programs with terms are treated differently in these places: ``proof/tangents`` prices the requests, and
``proof/measure`` and ``proof/certificate`` add their values. In ``solvers/proximal``, pricing passes keep all
columns of requests with terms (``columns``), other inner solvers step on them (``steps``), no prices come
from a sample and no steps are partial (``loop``), no request becomes inactive (``incremental``), and HiGHS
solves no set (``run``).
"""
