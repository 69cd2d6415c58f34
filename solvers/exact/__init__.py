"""Proven integer optima: the relaxation's prices fix nearly all columns, branch and bound does the rest."""
