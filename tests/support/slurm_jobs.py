"""Jobs of a real Slurm that tell what they do, and schedulers of `copter schedule`."""

import subprocess
import sys
import time

SECONDS = 90.0
JOB = """\
#!{python}
# A job that counts GPU seconds until its work is done, and goes on after a stop where it was. It holds a lock
# of each of its GPUs; a GPU that another job holds is a clash.
import fcntl, os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
folder, work = {folder!r}, float(sys.argv[1])
array = os.environ.get("SLURM_ARRAY_JOB_ID")
key = f"{{array}}_{{os.environ['SLURM_ARRAY_TASK_ID']}}" if array else os.environ["SLURM_JOB_ID"]
gpus = [one for one in os.environ.get("SLURM_JOB_GPUS", "").split(",") if one]
node = os.environ["SLURMD_NODENAME"]

def say(*words):
    with open(f"{{folder}}/log", "a") as log:
        log.write(" ".join(map(str, (f"{{time.time():.3f}}", key, *words))) + "\\n")

held = []
for gpu in gpus:
    held.append(open(f"{{folder}}/gpu-{{node}}-{{gpu}}", "a"))
    try:
        fcntl.flock(held[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say("clash", node, gpu)
path = f"{{folder}}/done-{{key}}"
done = float(open(path).read()) if os.path.exists(path) else 0.0
say("start", node, len(gpus), os.environ.get("SLURM_NTASKS", 1), f"{{done:.2f}}")

def stop(*_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with open(path + ".part", "w") as file:
        file.write(str(done))
    os.replace(path + ".part", path)
    say("stop", f"{{done:.2f}}")
    sys.exit(0)

signal.signal(signal.SIGTERM, stop)
while done < work:
    time.sleep(0.1)
    done += 0.1 * max(len(gpus), 1)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
say("end")
"""


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def until(done, what=None, seconds=SECONDS):
    """Wait until something is the case; after some seconds, raise AssertionError with `what`."""
    deadline = time.monotonic() + seconds
    while not (found := done()):
        assert time.monotonic() < deadline, what() if callable(what) else what
        time.sleep(0.1)
    return found


class Jobs:
    """Jobs of a test: their numbers, their states in Slurm, and what they said."""

    def __init__(self, folder):
        self.folder, self.keys = folder, []
        self._script = folder / "job.py"
        self._script.write_text(JOB.format(python=sys.executable, folder=str(folder)))
        self._script.chmod(0o755)

    def submit(self, work, *options, comment="", hold=True, partition="gpu"):
        """Submit a job by sbatch; return its number."""
        said = run(
            *(
                "sbatch",
                "--parsable",
                "--mem=50",
                f"--partition={partition}",
                f"--output={self.folder}/out-%j",
                "--open-mode=append",
            ),
            *(["--hold"] if hold else []),
            *([f"--comment={comment}"] if comment else []),
            *options,
            str(self._script),
            str(work),
        )
        self.keys.append(said.strip())
        return self.keys[-1]

    def said(self, key=None):
        """Return what jobs, or one of them, said: lists of words that begin with the time."""
        path = self.folder / "log"
        lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
        return [words for words in lines if key in (None, words[1])]

    def printed(self, key):
        """Return the output of a job."""
        path = self.folder / f"out-{key}"
        return path.read_text() if path.exists() else ""

    def words(self, key):
        """Return the first words of what a job said, in their order."""
        return [words[2] for words in self.said(key)]

    def states(self):
        """Return Slurm's state of each job and task, also of those that have ended."""
        lines = run("squeue", "--states=all", "--array", "--noheader", "--format=%i %T").splitlines()
        return dict(line.split() for line in lines)


class Schedulers:
    """Processes of `copter schedule`, each with a lock of its own unless a lock is named."""

    def __init__(self, folder):
        self._folder, self._there = folder, []

    def start(self, *options, policy="sia", lock=None):
        lock = lock or self._folder / f"lock-{len(self._there)}"
        log = self._folder / f"schedule-{len(self._there)}.log"
        rounds = ["--round-seconds=2"] if policy == "sia" else []
        command = [sys.executable, "-m", "copter", "schedule", "--slurm", "--partition=gpu"]
        command += [f"--policy={policy}", f"--lock={lock}", "--every=0.3", "--soon-seconds=0.5"]
        with log.open("ab") as file:
            process = subprocess.Popen([*command, *rounds, *options], stdout=file, stderr=file)
        process.log = log
        self._there.append(process)
        return process

    def kill(self):
        for process in self._there:
            if process.poll() is None:
                process.kill()
            process.wait()
