"""Tasks that tests send to other processes: functions of a module that those can import."""

import os
import signal
import time

import numpy as np

from copter.errors import InputError


def roll(seed, count=5, tell=None):
    """Numbers that depend on the seed alone; earlier ones take longer, so that they end out of order."""
    time.sleep(max(0.0, 0.2 - 0.05 * seed))
    rng = np.random.default_rng(seed)
    numbers = []
    for k in range(count):
        numbers.append(float(rng.normal()))
        if tell is not None:
            tell((seed, k))
    return numbers


def fail(kind):
    """End in one of the ways in which a task can."""
    if kind == "error":
        raise InputError("jobs.csv", "line 3", "no number")
    if kind == "strange":
        raise _Strange("left", "right")
    if kind == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    return kind


def reproduce(effort, label, gpus):
    """What a reproduction plays: it says so, and draws from its seeds."""
    effort.say(f"{label}: {effort.seeds} samples from {effort.seed} on")
    return [gpus * np.random.default_rng(effort.seed + k).random() for k in range(effort.seeds)]


def process():
    """Which process this is."""
    return os.getpid()


def total(shared, k):
    """A sum over an array that all tasks share."""
    return float(shared[:k].sum())


def hang(path):
    """Say that it runs, and go on for ever."""
    path.write_text(str(os.getpid()))
    while True:
        time.sleep(0.05)


class _Strange(Exception):
    def __init__(self, left, right):
        super().__init__(left)
        self.right = right


class Counter:
    """Keeps how often it was called."""

    def __init__(self, start):
        self.count = start

    def add(self, amount):
        self.count += amount
        return self.count
