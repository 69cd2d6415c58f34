"""Figures of the thesis about networks: none is reproduced; the table next to this module has the claims."""
