"""Sequences of LPs as files that need no copter: an MPS file, and edits and a certified optimum a round.

Read `program.py` first: a linear program with named columns and rows that logs its edits. `family.py` has the
families, which installed packages list, and makes families of programs, recordings and domains. `general.py`,
`energy.py` and `cuts.py` generate families of general LPs. `export.py` certifies the optimum of each round
and writes the files. The page docs/reference/lp-sequences.md specifies them.
"""
