"""A job for tests: linear regression that notes what each process did at each step.

    python training_job.py FOLDER [SECONDS]

A step takes so many seconds more.  Examples are the same in every process; FOLDER gets a line for each step
and process (``trace-RUN-RANK``) and the model at the end (``model.npy``).
"""

import hashlib
import json
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

from copter.live.training import Training
from copter.live.training.plan import ProcessPlace

EXAMPLES, FEATURES, RATE = 1000, 30, 0.01
INITIAL_BATCH = 24


def generate(examples, features, error, seed):
    """Examples y = w* x + e with standard normal x, and e of this standard deviation; x, y and w*."""
    rng = np.random.default_rng(seed)
    x, true = rng.standard_normal((examples, features)), rng.standard_normal(features)
    return x, x @ true + rng.normal(0.0, error, examples), true


def gradient(w, x, y):
    return x.T @ (x @ w - y) / len(x)


def main(folder, seconds=0.0):
    x, y, _ = generate(EXAMPLES, FEATURES, 1.0, seed=0)
    # Random: what the others begin with is the first one's.
    w = (
        np.random.default_rng().normal(size=FEATURES)
        if os.environ.get("COPTER_RANK", "0") != "0"
        else 0 * x[0]
    )
    training = Training({"w": w}, examples=EXAMPLES, initial_batch=INITIAL_BATCH, work=20, seed=3)
    place = ProcessPlace.here()
    run = 0 if place is None else place.plan.number
    with open(folder / f"trace-{run}-{training.rank}", "w", buffering=1) as trace:
        for step in training.steps():
            seen = []
            for indices in step.passes():
                seen.append(indices.tolist())
                step.add(gradient(w, x[indices], y[indices]))
            mean = step.gradient()
            w -= RATE * step.learning_rate_factor * mean
            line = {
                "step": step.number,
                "seen": seen,
                "factor": step.learning_rate_factor,
                "bits": hashlib.sha256(w.tobytes()).hexdigest(),
                "pid": os.getpid(),
                "at": time.time(),
            }
            time.sleep(seconds)
            trace.write(json.dumps(line) + "\n")
    if place is not None:  # told once more now, it would not fail
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    if training.rank == 0:
        np.save(folder / "model.npy", w)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(float, sys.argv[2:]))
