"""Readers of real traces and measurements, and generators of traces that are like them."""
