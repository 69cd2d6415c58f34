"""Jobs as `squeue --json` of Slurm 22.05 prints them."""


def job_fields(**changes):
    """Return the fields of a held job without GPUs, with changes."""
    return {
        "account": "",
        "admin_comment": "",
        "array_job_id": 0,
        "array_task_id": None,
        "array_task_string": "",
        "comment": "",
        "cpus_per_task": None,
        "current_working_directory": "/nowhere",
        "dependency": "",
        "eligible_time": 0,
        "gres_detail": [],
        "job_id": 1,
        "job_state": "PENDING",
        "name": "job",
        "nice": None,
        "node_count": 1,
        "nodes": "",
        "partition": "gpu",
        "priority": 0,
        "required_nodes": "",
        "requeue": True,
        "restart_cnt": 0,
        "start_time": 0,
        "state_reason": "JobHeldUser",
        "submit_time": 100,
        "tasks": 1,
        "time_limit": None,
        "tres_per_job": "",
        "tres_per_node": "",
        "tres_per_task": "",
        "user_name": "ann",
    } | changes
