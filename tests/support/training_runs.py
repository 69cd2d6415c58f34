"""Runs of jobs for tests: agents that start real processes, and a service that answers their reports."""

import http.server
import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np

from copter.live.backends import agent
from copter.live.backends.base import Run, ended
from copter.live.training.checkpoints import Checkpoints
from copter.live.training.loader import Loader
from copter.live.training.plan import Batch, TrainingPlan
from support import training_job
from support.training_job import generate

PATIENCE = 60.0
"""For what has to happen at all; nothing is said about when."""
INITIAL = training_job.INITIAL_BATCH
PLAIN = Batch(INITIAL, 0, 1.0)


class Service:
    """Takes reports, and answers what it is told to.

    `answer(reports)` is a status and the orders; `reports` are those answered with 200.
    """

    def __init__(self, answer=None):
        self.posts, self.reports, self.tokens, self.gets, self.headers = [], [], set(), [], {}
        self.answer = answer or (lambda reports: (200, orders()))
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                report = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                service.tokens.add(self.headers["Authorization"])
                service.posts.append(report)
                status, words = service.answer(service.posts)
                if status == 200:
                    service.reports.append(report)
                content = json.dumps(words).encode()
                self.send_response(status)
                for name, value in {"Content-Length": str(len(content)), **service.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            def do_GET(self):
                service.gets.append(self.headers["Authorization"])
                self.send_error(404)

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/runs/1"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


def orders(lease_seconds=600.0, stop=False, batch=None):
    return {"lease_seconds": lease_seconds, "stop": stop, "batch": batch}


def until(condition):
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.01)
    return found


class Job:
    """A job of tests in a folder, run by run."""

    def __init__(self, folder: Path, url="http://127.0.0.1:9/nobody", command=None):
        self.folder, self.url, self.number, self.agents = folder, url, 0, []
        self.command = command or (sys.executable, training_job.__file__, str(folder))

    def start(self, gpus, batch=PLAIN, work=20.0, agents=None, **plan):
        """Begin the next run, on so many GPUs of each node; of some nodes only, if their agents are named."""
        self.number += 1
        plan = {"report_seconds": 0.05} | plan
        checkpoints = str(self.folder / "checkpoints")
        training = TrainingPlan(self.url, "a token", checkpoints, self.number, work, INITIAL, batch, **plan)
        self.run = Run(
            job="job",
            number=self.number,
            command=self.command,
            directory=str(self.folder),
            folder=self.folder / f"run-{self.number}",
            type="slot",
            hosts=tuple(f"node-{i}" for i in range(len(gpus))),
            gpus=tuple(gpus),
            environment={"OPENBLAS_NUM_THREADS": "1"},
            training=asdict(training),
        )
        self.run.write()
        command = [sys.executable, "-I", "-S", agent.__file__, str(self.run.folder)]
        self.agents = [subprocess.Popen([*command, str(node)]) for node in agents or range(len(gpus))]
        return self

    def wait(self):
        """Exit codes of the agents."""
        return [each.wait(PATIENCE) for each in self.agents]

    def terminate(self):
        for each in self.agents:
            each.terminate()
        return self

    def end(self):
        for each in self.agents:
            each.kill()
            each.wait()

    def outcome(self, node=0):
        return ended(self.run.folder, node)

    def log(self, node=0):
        path = self.run.folder / f"log-{node}.txt"
        return path.read_text() if path.exists() else ""

    def trace(self, rank=0, number=None):
        """What a process noted of each step."""
        try:
            text = (self.folder / f"trace-{number or self.number}-{rank}").read_text()
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def after(self, steps, ranks=1):
        """Wait until all processes have done so many steps."""
        until(lambda: all(len(self.trace(rank)) >= steps for rank in range(ranks)))
        return self

    def checkpoint(self):
        return Checkpoints(self.folder / "checkpoints", 0).latest(lambda words: None)


def replay(steps, seed=3):
    """Play the job in one process, with the same sums in the same order: the twin.

    `steps` has, for each step, what each rank noted; what each has seen is compared with the plain order of
    the examples.  Returns the model after all, and the gradients of each step.
    """
    x, y, _ = generate(training_job.EXAMPLES, training_job.FEATURES, 1.0, seed=0)
    w, loader, gathered = np.zeros(training_job.FEATURES), Loader(training_job.EXAMPLES, seed), []
    for number, ranks in enumerate(steps):
        assert {one["step"] for one in ranks} == {number}
        seen = np.array([one["seen"] for one in ranks])  # rank, pass, example
        batch = loader.take(seen.size)
        assert np.array_equal(seen.transpose(1, 0, 2).ravel(), batch), f"step {number}"
        gradients = [[training_job.gradient(w, x[part], y[part]) for part in rank] for rank in seen]
        gathered.append(([each for rank in gradients for each in rank], seen.shape[2]))
        sums = [sum(rank[1:], rank[0]) for rank in gradients]
        mean = sum(sums[1:], sums[0]) / (len(ranks) * seen.shape[1])
        (factor,) = {one["factor"] for one in ranks}
        w -= training_job.RATE * factor * mean
        assert len({one["bits"] for one in ranks}) == 1
    return w, gathered


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def kill(pid, number):
    os.kill(pid, number)
