"""Figures of the thesis about shards: none is reproduced; the table next to this module has the claims."""
