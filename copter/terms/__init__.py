"""Convex terms of requests, and all of a program's packed for evaluation."""
