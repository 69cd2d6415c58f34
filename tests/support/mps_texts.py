"""MPS files as text."""

from __future__ import annotations

MAXIMISE = """NAME knapsack
OBJSENSE
    MAX
ROWS
 N obj
 L a
COLUMNS
    M1 'MARKER' 'INTORG'
    x obj 5.0 a 3.0
    M2 'MARKER' 'INTEND'
    y obj 1.0 a 1.0
    M3 'MARKER' 'INTORG'
    z obj 2.0 a 2.0
    M4 'MARKER' 'INTEND'
RHS
    RHS a 8.5 obj -10
BOUNDS
 LO BND x 0.5
 UP BND x 2.5
 UP BND y 0.25
 UP BND z 4
ENDATA
"""

RANGES = """* rows of all kinds, with ranges
NAME ranges
ROWS
 N cost
 N other
 L low
 G high
 E same
 E wide
COLUMNS
 x cost 1 low 2
 x high 3.5 other 7
 y same -4 cost -1.25e-1
 y wide 1 low 1
 z wide -1
RHS
 RHS low 5 high 1
 RHS same -2
RANGES
 RNG low 3 high 4
 RNG wide -2.5
BOUNDS
 FR BND x
 MI BND y
 UP BND y 10
 FX BND z 0.5
ENDATA
"""

FIXED = """NAME          SPACES
ROWS
 N  THE COST
 L  ROW A
 G  ROW B
COLUMNS
    COL 1     THE COST           1.0   ROW A              1.0
    COL 1     ROW B              1.0
    COL 2     THE COST           2.0   ROW A             -1.5
RHS
    RHS       ROW A              4.0   ROW B              1.0
BOUNDS
 UP BND       COL 1              4.0
 MI BND       COL 2
 UP BND       COL 2              9.5
ENDATA
"""

LP_FILE = """\\ all that HiGHS reads too
Minimize
 obj: 2 x - 3 y + z + 4
Subject To
 a: x + y - 2 z <= 5
 b: x - z
 + 2.5 y
 >= 1e-3
 c: y = 2.5
Bounds
 x <= 4
 -1 <= z <= 10
 y free
General
 x
End
"""
