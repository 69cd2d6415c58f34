"""Jobs of the hostile hour: honest ones that leave traces of their work, and malicious ones of eight kinds.

    python -S hostile_jobs.py honest STEPS DEVICES TRACE
    python -S hostile_jobs.py KIND SEED DEVICES TRACE

DEVICES is a folder.  A job locks the file of each of its GPUs there.  The children of a malicious job inherit
the locks, so a GPU that is given away while one of them lives is found by the next job.  TRACE is the path of
the job's traces without their endings: ``.steps`` and ``.done`` of an honest job, ``.evil`` of a malicious
one with a line for each thing that it did, ``.conflict`` of a job that found a GPU in use.

Only the standard library is imported, so that a job starts in 50 ms.
"""

import contextlib
import fcntl
import http.client
import json
import os
import random
import resource
import signal
import socket
import sys
import time
import urllib.parse
from pathlib import Path

STEP_SECONDS = 0.25
_STOPPED = 75
REPORT = {"progress": 0.0, "steps": 0, "running_seconds": 0.0, "batch_size": 16, "saved_progress": 0.0}
"""The smallest report that the service accepts."""


def add_line(path, text):
    """Append a line to a file by one write, so that it is there as a whole or not at all."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(handle, f"{text}\n".encode())
    os.close(handle)


def lock_devices(folder, trace):
    """Lock the GPUs of this run until its last process ends."""
    for device in os.environ["CUDA_VISIBLE_DEVICES"].split(","):
        handle = os.open(os.path.join(folder, device), os.O_RDWR | os.O_CREAT, 0o600)
        os.set_inheritable(handle, True)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            add_line(f"{trace}.conflict", f"GPU {device} was in use at {time.time():.3f}")


def read_run():
    """Return this run, as the service wrote it."""
    return json.loads(Path(os.environ["COPTER_RUN_FILE"]).read_text())


def post_report(plan, body):
    """Send a report; return the status of the answer."""
    where = urllib.parse.urlsplit(plan["url"])
    connection = http.client.HTTPConnection(where.hostname, where.port, timeout=5.0)
    try:
        headers = {"Authorization": f"Bearer {plan['token']}", "Content-Type": "application/json"}
        connection.request("POST", where.path, body, headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


# ---- honest jobs ----------------------------------------------------------------------------------


def honest(steps, trace):
    """Do each step once, whatever the number of runs that this takes; stop between two steps."""
    stopped = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
    run = read_run()
    path = Path(f"{trace}.steps")
    first = len(path.read_text().splitlines()) if path.exists() else 0
    began = time.monotonic()
    for step in range(first, steps):
        time.sleep(STEP_SECONDS)
        add_line(path, f"{step} {run['number']} {time.time():.3f}")
        if run["training"] and not step % 4:
            done = {"progress": float(step + 1), "saved_progress": float(step + 1), "steps": step + 1}
            seconds = {"running_seconds": time.monotonic() - began}
            with contextlib.suppress(OSError, http.client.HTTPException):  # a service that is down
                status = post_report(run["training"], json.dumps(REPORT | done | seconds))
                if status not in (200, 410, 503):
                    add_line(f"{trace}.conflict", f"an honest report was refused with {status}")
        if stopped and step + 1 < steps:
            sys.exit(_STOPPED)
    add_line(f"{trace}.done", f"{run['number']} {time.time():.3f}")


# ---- malicious jobs -------------------------------------------------------------------------------


def files(rng, note):
    """Replace every file that the service reads by something else, the files of the end last."""
    folder = Path(os.environ["COPTER_RUN_FILE"]).parent
    outside = folder.parents[3] / "token"  # of the service
    ways = {
        "not-utf8": lambda path: path.write_bytes(b"\xff\xfe" * 100),
        "deep": lambda path: path.write_text("[" * 50_000),
        "huge": lambda path: os.truncate(os.open(path, os.O_CREAT | os.O_RDWR), 2**40),
        "fifo": os.mkfifo,
        "zeros": lambda path: path.symlink_to("/dev/zero"),
        "terminal": lambda path: path.symlink_to("/dev/tty"),
        "token": lambda path: path.symlink_to(outside),
        "loop": lambda path: path.symlink_to(path),
        "folder": lambda path: (path / "a" / "b").mkdir(parents=True),
        "socket": lambda path: socket.socket(socket.AF_UNIX).bind(str(path)),
        "number": lambda path: path.write_text("1" * 5000),
        "types": lambda path: path.write_text('{"pid": [], "code": 1e999, "reason": {}, "boot": null}'),
        "none": lambda path: None,
    }

    def spoil(name):
        way = rng.choice(sorted(ways))
        path = folder / name
        if path.is_file() or path.is_symlink():
            path.unlink()
        os.chdir(folder)  # the path of a socket must be short
        ways[way](Path(name) if way == "socket" else path)
        note(f"{name} {way}")

    for name in ("log-0.txt", "agent-0.txt", "run.json"):
        spoil(name)
        time.sleep(0.3)
    last = rng.choice(["begun", "ended", "both", "runs"])
    if last == "runs":
        next_run = folder.with_name(str(int(folder.name) + 1))
        next_run.symlink_to(folder)
        folder.rename(folder.with_name("away"))
        folder.symlink_to(folder.with_name("away"))
        note("runs link")
        return
    for name in ("begun-0.json", "ended-0.json"):
        if last in ("both", name.partition("-")[0]):
            spoil(name)
    time.sleep(600.0)


def forks(rng, note):
    """Leave processes in sessions of their own, which ignore SIGTERM, and fork again and again."""

    def child():
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGURG, signal.SIGUSR2):
            signal.signal(number, signal.SIG_IGN)
        for _ in range(rng.randrange(3)):
            if os.fork():
                os._exit(0)
        note(f"{os.getpid()}")
        end = time.monotonic() + 600.0
        while time.monotonic() < end:
            time.sleep(0.05)
            if rng.random() < 0.2 and os.fork():
                os._exit(0)

    for _ in range(8):
        if not os.fork():
            child()
    time.sleep(rng.choice([1.0, 600.0]))  # the run ends by itself, or is cancelled


def hops(rng, note):
    """Fork without a pause, each process in a session of its own and after the end of its parent."""
    end = time.monotonic() + 60.0  # if nothing else ends it
    for _ in range(8):
        if os.fork():
            continue
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGURG, signal.SIGUSR2):
            signal.signal(number, signal.SIG_IGN)
        count = 0
        while time.monotonic() < end:
            if os.fork():
                os._exit(0)
            os.setsid()
            if not count % 100:
                note(f"{os.getpid()} {count}")
            count += 1
        os._exit(0)
    note("the first process ends")


def signals(rng, note):
    """Send signals to the own group, to the agent and to its group; at last one that ends the agent."""
    agent = os.getppid()
    harmless = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGURG, signal.SIGUSR1, signal.SIGCONT)
    for number in harmless:
        signal.signal(number, signal.SIG_IGN)
    if not os.fork():
        os.setsid()  # a process that outlives the agent
        time.sleep(600.0)
    for number in rng.choices((signal.SIGTERM, signal.SIGINT, signal.SIGURG, signal.SIGCONT), k=20):
        os.kill(agent, number)
        os.killpg(os.getpgid(agent), number)
        os.killpg(0, number)
        time.sleep(0.02)
    last = rng.choice([signal.SIGKILL, signal.SIGSTOP, signal.SIGUSR2, signal.SIGHUP, signal.SIGALRM])
    note(signal.Signals(last).name)
    os.kill(agent, last)
    time.sleep(600.0)


def logs(rng, note):
    """Write without end, text and bytes that are none."""
    line = rng.choice([b"x" * 65536, b"\xff\n" * 32768, b"\x1b[2J" * 16384])
    written = 0
    while True:
        os.write(1, line)
        written += len(line)
        if not written % (32 * len(line)):
            note(f"{written}")
            time.sleep(0.03)


def memory(rng, note):
    """Use memory that is not given back, up to a limit that the machine survives."""
    resource.setrlimit(resource.RLIMIT_AS, (400_000_000, 400_000_000))
    held = []
    try:
        while True:
            held.append(b"x" * 10_000_000)
            time.sleep(0.01)
    except MemoryError:
        note(f"{len(held)}0 MB")
    if rng.random() < 0.5:
        sys.exit(1)
    time.sleep(600.0)


def reports(rng, note):
    """Report garbage, numbers at the ends of what is allowed, and far too often."""
    plan = read_run()["training"]
    times = [
        {"local_batch": rng.randrange(1, 2**31), "count": 2**31, "log_seconds": rng.uniform(-50.0, 50.0)}
        for _ in range(64)
    ]
    bodies = [
        b"\xff" * 1000,
        b"[" * 100_000,
        b'{"progress": NaN}',
        json.dumps(REPORT | {"progress": 1e308, "steps": -1}),
        b"1" * 100_000,
        b"{" + b" " * 200_000 + b"}",
        json.dumps(REPORT | {"progress": 1e15, "saved_progress": 1e15, "running_seconds": 1e15}),
        json.dumps(REPORT | {"squared_norm": -1e300, "variance": 1e300, "times": times}),
        json.dumps(REPORT | {"squared_norm": 1e300, "variance": 0.0, "figure": 1e300, "steps": 2**53}),
        json.dumps(REPORT | {"squared_norm": 1e-300, "variance": 1e300, "batch_size": 2**31}),
    ]

    def endless():
        where = urllib.parse.urlsplit(plan["url"])
        with socket.create_connection((where.hostname, where.port), 5.0) as one:
            head = f"POST {where.path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {plan['token']}\r\n"
            one.sendall(f"{head}transfer-encoding: chunked\r\n\r\n".encode())
            while True:
                one.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")

    sent = 0
    while True:
        with contextlib.suppress(OSError, http.client.HTTPException):
            if sent % 50 == 20:
                endless()
            body = bodies[sent % 10] if sent < 20 else rng.choice(bodies[6:])
            status = post_report(plan, body)
            if sent < 10 or not sent % 100:
                note(f"{sent} {status}")
        sent += 1


def connections(rng, note):
    """Open hundreds of connections to the service, without or with half of a request."""
    where = urllib.parse.urlsplit(sys.argv[5])
    heads = [b"", b"GET / HT", b"POST /v1/jobs HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nab"]
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    while True:
        held = []
        with contextlib.suppress(OSError):
            for _ in range(rng.randrange(300, 900)):
                held.append(socket.create_connection((where.hostname, where.port), 2.0))
                held[-1].sendall(rng.choice(heads))
        note(f"{len(held)}")
        time.sleep(rng.uniform(0.0, 1.0))
        for one in held:
            one.close()


KINDS = {one.__name__: one for one in (files, forks, signals, logs, memory, reports, connections, hops)}
NEED_CGROUPS = frozenset(("hops",))
"""Kinds for runs with cgroups: a search in /proc takes seconds to find processes that live for an instant."""


def main():
    kind, number, devices, trace = sys.argv[1:5]
    lock_devices(devices, trace)
    if kind == "honest":
        honest(int(number), trace)
        return
    seed = f"{number} {read_run()['number']}"
    KINDS[kind](random.Random(seed), lambda text: add_line(f"{trace}.evil", text))


if __name__ == "__main__":
    main()
