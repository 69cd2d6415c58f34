"""A Slurm in memory: the commands that copter calls, with the effects that the real one has."""

from collections import Counter

from copter.slurm.commands import SlurmError
from copter.slurm.read import SlurmNode, Snapshot, jobs_in
from support.slurm_answers import job_fields


class ModelOfSlurm:
    """Jobs with a priority, nodes with GPUs; `pass_time` starts what can be started, and lets jobs run.

    `kill_after` is the number of commands after which the caller is killed; None for no kill.  `before` is
    called before each command, for example to let another scheduler act in between.
    """

    def __init__(self, nodes):
        self.nodes, self.jobs, self.time = nodes, {}, 1000.0
        self.others, self.down, self.stuck = {}, set(), set()
        self.full, self.kill_after, self.most_used = False, None, Counter()
        self.before = lambda: None

    def submit(self, request, comment="", work=1e9):
        """Submit a held job; return its number."""
        key = str(len(self.jobs) + 1)
        self.jobs[key] = {
            **{"key": key, "state": "PENDING", "held": True, "comment": comment, "admin_comment": ""},
            **{"tres_per_node": request, "pinned": "", "tasks": 1, "restart_cnt": 0, "hosts": {}},
            **{"work": work, "starts": 0, "began": 0.0, "submitted": self.time, "nodes": 1},
        }
        return key

    def end(self, key):
        self.jobs[key] |= {"state": "COMPLETED", "hosts": {}}

    def open(self):
        return [key for key, job in self.jobs.items() if job["state"] != "COMPLETED"]

    def running(self):
        return {key: job["hosts"] for key, job in self.jobs.items() if job["state"] == "RUNNING"}

    def marks(self):
        return {key: job["admin_comment"] for key, job in self.jobs.items()}

    def seen(self):
        """Return what `squeue` and `scontrol` would show."""
        fields = [
            job_fields(
                job_id=int(key),
                job_state=job["state"],
                priority=0 if job["held"] else 9,
                state_reason="JobHeldUser" if job["held"] else "Resources",
                comment=job["comment"],
                admin_comment=job["admin_comment"],
                tres_per_node=job["tres_per_node"],
                node_count=job["nodes"],
                required_nodes=job["pinned"],
                nodes=",".join(job["hosts"]),
                gres_detail=[f"gpu:{self.nodes[host][0]}:{gpus}" for host, gpus in job["hosts"].items()],
                tasks=job["tasks"],
                restart_cnt=job["restart_cnt"],
                submit_time=job["submitted"],
                start_time=job["began"],
            )
            for key, job in self.jobs.items()
        ]
        nodes = tuple(
            SlurmNode(host, type, gpus, "down" if host in self.down else "")
            for host, (type, gpus) in self.nodes.items()
        )
        return Snapshot(self.time, tuple(jobs_in({"jobs": fields})), nodes, self.others)

    def call(self, *command):
        """Do what `scontrol` does."""
        before, self.before = self.before, lambda: None  # what acts in between is not interrupted itself
        before()
        self.before = before
        if self.kill_after is not None:
            self.kill_after -= 1
            if self.kill_after < 0:
                raise KeyboardInterrupt
        _, what, *words = command
        if what == "update":
            changes = dict(word.split("=", 1) for word in words)
            self._update(self.jobs[changes.pop("JobId")], changes)
            return ""
        job = self.jobs[words[0]]
        if what == "requeuehold":
            if job["state"] != "RUNNING":
                raise SlurmError("job is not running")
            job |= {"state": "COMPLETING", "held": True, "restart_cnt": job["restart_cnt"] + 1}
        elif what == "release":
            job["held"] = False
        elif what == "uhold":
            job["held"] = True
        else:
            raise AssertionError(command)
        return ""

    def _update(self, job, changes):
        shape = {"NodeList": "pinned", "TresPerNode": "tres_per_node", "NumTasks": "tasks"}
        if job["state"] != "PENDING" and set(changes) - {"AdminComment"}:
            raise SlurmError("Job is no longer pending execution")
        for name, value in changes.items():
            if name in shape:
                job[shape[name]] = int(value) if name == "NumTasks" else value
            elif name == "NumNodes":
                job["nodes"] = int(value)
            elif name == "AdminComment":
                job["admin_comment"] = value
            else:
                assert name in ("StartTime", "NumCPUs", "MinCPUsNode"), name

    def pass_time(self, seconds):
        """Let jobs run, end and start."""
        self.time += seconds
        for job in self.jobs.values():
            if job["state"] == "COMPLETING":
                job |= {"state": "PENDING", "hosts": {}}
            elif job["state"] == "RUNNING":
                job["work"] -= seconds * max(sum(job["hosts"].values()), 1)
                if job["work"] <= 0:
                    self.end(job["key"])
        for job in self.jobs.values():
            if job["state"] == "PENDING" and not job["held"] and job["key"] not in self.stuck:
                self._start(job)
        used = self._used()
        assert all(used[host] <= gpus for host, (_, gpus) in self.nodes.items())
        self.most_used = {host: max(used[host], self.most_used.get(host, 0)) for host in self.nodes}

    def _used(self):
        used = Counter(self.others)
        for job in self.jobs.values():
            used.update(job["hosts"])
        return used

    def _start(self, job):
        (seen,) = [one for one in self.seen().jobs if one.key == job["key"]]
        used, hosts = self._used(), []
        for host in job["pinned"].split(",") if job["pinned"] else self.nodes:
            type, gpus = self.nodes[host]
            fits = gpus - used[host] >= seen.per_node and seen.gpu_type in ("", type)
            if fits and host not in self.down and not self.full and len(hosts) < job["nodes"]:
                hosts.append(host)
        if len(hosts) == job["nodes"]:
            job |= {"state": "RUNNING", "hosts": dict.fromkeys(hosts, seen.per_node), "began": self.time}
            job["starts"] += 1
