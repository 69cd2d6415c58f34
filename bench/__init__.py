"""Benchmarks: courses of rounds that any solver is measured on, recorded once as deltas or played anew."""
