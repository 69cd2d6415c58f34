"""Rounds: tasks that wait are placed together, those that run stay or move within a budget."""
