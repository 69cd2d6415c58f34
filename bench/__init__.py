"""Benchmarks: rounds recorded once as deltas and replayed through any solver."""
