"""Policies that place one task as it comes, and move none."""
