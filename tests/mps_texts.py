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
