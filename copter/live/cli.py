"""`copter serve` and its clients, such as `submit`, `jobs` and `cancel`."""

from __future__ import annotations

import inspect
import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from copter.cli.console import publish, say, table
from copter.cli.options import Command, Json, existing_file, one_of, positive
from copter.live import ENDINGS
from copter.live.untrusted import words as printable

if TYPE_CHECKING:
    from copter.live.client import Client

_PORT = 8421
_FOLDER = Path("runs/live")
_TIME = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", re.ASCII)
"""Pattern of a time, such as 1d12h."""
_UNITS = (86400, 3600, 60, 1)
"""Seconds of the units of a time."""
_RESTART_SECONDS = 60.0
"""Seconds for which a command with --wait or --follow retries if the service cannot be reached."""
_SWITCH_SECONDS = 0.0005
"""Time for which the policy's thread keeps Python's global lock when the event loop wants to continue.

With Python's default of 5 ms, each system call of a connection could wait 5 ms during a decision."""
_URL_VARIABLE, _TOKEN_VARIABLE = "COPTER_SERVICE", "COPTER_TOKEN"

_ServiceUrl: TypeAlias = Annotated[
    str, typer.Option("--service", envvar=_URL_VARIABLE, help="Address of the service.")
]
_TokenFile: TypeAlias = Annotated[
    Path,
    typer.Option(help=f"File with the service's token; the variable {_TOKEN_VARIABLE} takes precedence."),
]

_Type: TypeAlias = Annotated[str, typer.Argument(help="GPU type of the node.")]
_Number: TypeAlias = Annotated[int, typer.Argument(min=0, help="Number of the node, from 0.")]


def register(app: typer.Typer) -> None:
    """Add the service's commands to an application."""
    commands: list[Callable[..., None]] = [submit, jobs, cancel, logs, usage, drain, undrain]
    for command in (serve, *map(_asking, commands)):
        text = inspect.getdoc(command) or ""
        app.command(help=text.replace("For example:", "\b\nExamples:"), cls=Command)(command)


def _asking(function: Callable[..., None]) -> Callable[..., None]:
    """Return a command that calls a function with a client of the service, and has the options for it."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    url = inspect.Parameter("service", keyword, default=f"http://127.0.0.1:{_PORT}", annotation=_ServiceUrl)
    token = inspect.Parameter("token_file", keyword, default=_FOLDER / "token", annotation=_TokenFile)

    def command(*, service: str, token_file: Path, **given: Any) -> None:
        waits = given.get("wait") or given.get("follow")
        with _client(service, token_file, patience=_RESTART_SECONDS if waits else 0.0) as client:
            function(client, **given)

    command.__name__, command.__doc__ = function.__name__, function.__doc__
    parameters = [one.replace(kind=keyword) for one in own]
    command.__signature__ = inspect.Signature([*parameters, url, token])  # type: ignore[attr-defined]
    return command


def _seconds(text: str) -> float:
    """Return the seconds of a time such as 1d12h."""
    found = _TIME.fullmatch(text)
    if found is None or not any(found.groups()):
        raise typer.BadParameter(f"{text!r}: must be a time with units, such as 90m, 2h or 1d12h")
    return float(sum(int(count or 0) * unit for count, unit in zip(found.groups(), _UNITS, strict=True)))


def _client(url: str, token_file: Path, *, patience: float = 0.0) -> Client:
    """Return a client; `patience`: seconds for which it waits for a service that cannot be reached."""
    from copter.live.client import Client, ServiceError

    token = os.environ.get(_TOKEN_VARIABLE, "")
    if not token:
        try:
            token = token_file.read_text("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            hint = f"set {_TOKEN_VARIABLE}, or name the file with --token-file"
            why = error.strerror if isinstance(error, OSError) else "must be ASCII text"
            raise ServiceError(0, f"no token: {token_file}: {why}; {hint}") from None
    return Client(url, token, patience=patience)


def serve(
    cluster: Annotated[
        Path, typer.Option(callback=existing_file("give a cluster.toml"), help="File of the nodes.")
    ],
    policy: Annotated[str, typer.Option(help="Name of the policy; an unknown name prints the list.")] = "sia",
    backend: Annotated[
        str,
        typer.Option(callback=one_of(("local", "ray"), "backend"), help="Where jobs run: local or ray."),
    ] = "local",
    folder: Annotated[Path, typer.Option(help="Folder of journal, token and job logs.")] = _FOLDER,
    round_seconds: Annotated[
        float | None, typer.Option(callback=positive, help="Length of a round; default: the policy's own.")
    ] = None,
    soon_seconds: Annotated[
        float | None,
        typer.Option(callback=positive, help="Also start a round at events, this long after the last round."),
    ] = None,
    sets: Annotated[
        list[str] | None, typer.Option("--set", metavar="SETTING=VALUE", help="Setting of the policy.")
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; jobs report there.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = _PORT,
    url: Annotated[
        str | None, typer.Option(help="Address at which jobs reach the service; default: http://HOST:PORT.")
    ] = None,
    tokens: Annotated[
        Path | None,
        typer.Option(
            callback=existing_file("give a file of tokens"), help="File of further tokens, names and roles."
        ),
    ] = None,
) -> None:
    """Run a scheduler: accept jobs over HTTP, allocate GPUs in rounds, and start, resize and stop the jobs.

    A service that is started again with the same folder continues, with the jobs that still run.

    For example:
      copter serve --cluster cluster.toml
      copter serve --cluster cluster.toml --policy shockwave --round-seconds 120 --folder /srv/copter
      copter serve --cluster cluster.toml --backend ray --host 10.0.0.5
    """
    from copter.extras import extra
    from copter.live.backends.registry import make_backend
    from copter.live.connections import bound_socket, connection_limits
    from copter.live.files import ClusterFile, read_toml
    from copter.live.folder import TOKEN, make_folder
    from copter.live.http import make_app
    from copter.live.service import Service
    from copter.problems.cluster.cli import policy_settings
    from copter.problems.cluster.registry import make_policy

    with extra("live"):
        import uvicorn

    file = read_toml(cluster, ClusterFile)
    settings = policy_settings(sets)
    made = make_policy(policy, **settings)
    if round_seconds is not None and made.round_seconds is None:
        raise typer.BadParameter(
            f"policy {policy} runs at events, not in rounds; omit the option", param_hint="--round-seconds"
        )
    if url is None and host in ("0.0.0.0", "::"):
        raise typer.BadParameter("give the address at which jobs reach the service", param_hint="--url")
    make_folder(folder)
    address = url or f"http://{host}:{port}"
    service = Service(
        folder,
        file,
        make_backend(backend, folder.resolve(), file),
        policy,
        settings=settings,
        tokens=tokens,
        url=address,
        round_seconds=round_seconds,
        soon_seconds=soon_seconds,
    )
    sys.setswitchinterval(_SWITCH_SECONDS)
    # After its shutdown, the server raises the signal again; by default SIGTERM would end the process there.
    # A process that exits in an orderly way has written the acknowledged requests.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        listening = bound_socket(host, port)  # before anything is printed about the service
        gpus, there = service.record.state.cluster.gpus, len(service.record.state.jobs)
        say(f"{policy} on {gpus} GPUs of {cluster}, {backend}; {there} jobs")
        if service.backend.notice:
            say(service.backend.notice)
        say(f"page: {address}/")
        say(f"token: cat {folder / TOKEN}")
        limits = connection_limits()
        server = uvicorn.Server(
            uvicorn.Config(make_app(service), log_level="warning", timeout_graceful_shutdown=5, **limits)
        )
        server.run([listening])
        if not server.started:
            raise typer.Exit(3)
    except KeyboardInterrupt:  # the server has shut down
        pass
    finally:
        service.close()


def submit(
    client: Any,
    words: Annotated[
        list[str],
        typer.Argument(metavar="JOB.toml|COMMAND...", help="File of the job, or its command after --."),
    ],
    name: Annotated[str | None, typer.Option(help="Name; replaces the one in the file.")] = None,
    gpus: Annotated[int | None, typer.Option(min=1, help="Number of GPUs of a rigid job.")] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(parser=_seconds, metavar="TIME", help="Running time such as 90m after which it fails."),
    ] = None,
    after: Annotated[
        str | None,
        typer.Option(
            metavar="JOB[,JOB]",
            help="Start after these jobs have completed; if one fails or is cancelled, the job is cancelled.",
        ),
    ] = None,
    array: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Submit N jobs, NAME-0 to ..., numbered COPTER_ARRAY_INDEX."),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the job has ended; exit with 1 unless it completed.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say if it would be accepted, and when it would start.")
    ] = False,
) -> None:
    """Submit a job, or an array of jobs, and print the names.

    A command runs in the present folder.

    For example:
      copter submit --gpus 2 -- python train.py
      copter submit job.toml --name second --wait
      copter submit job.toml --time-limit 2h30m --dry-run
      copter submit sweep.toml --name sweep --array 20
      copter submit evaluate.toml --after train-1,train-2
      copter submit job.toml --service http://10.0.0.5:8421 --token-file /srv/copter/token
    """
    if dry_run and (array is not None or wait):
        raise typer.BadParameter("--dry-run: must be given without --array and --wait")
    is_file = len(words) == 1 and words[0].endswith(".toml")
    job = Path(words[0]) if is_file else {"command": words, "directory": os.getcwd()}
    after_jobs = None if after is None else after.split(",")
    given = {"name": name, "gpus": gpus, "time_limit_seconds": time_limit, "after": after_jobs}
    given = {key: value for key, value in given.items() if value is not None}
    if dry_run:
        typer.echo("\n".join(map(printable, client.dry_run(job, **given))))
        return
    names = client.submit_array(job, array, **given)
    typer.echo("\n".join(names))
    if wait:
        ended = client.wait(names)
        incomplete = [name for name in names if ended[name]["status"] != "completed"]
        for name in incomplete:
            say(f"{name} {ended[name]['status']}: {printable(ended[name]['reason'])}")
        if incomplete:
            raise typer.Exit(1)


def jobs(
    client: Any,
    ended: Annotated[bool, typer.Option("--ended", help="Include jobs that have ended.")] = False,
    why: Annotated[
        str | None, typer.Option(metavar="JOB", help="Say why this job waits, and when it would start.")
    ] = None,
    json_path: Json = None,
) -> None:
    """List jobs with their GPUs, progress and times.

    For example:
      copter jobs
      copter jobs --why train-1
      copter jobs --ended --json
    """
    if why is not None:
        answer = client.why(why)
        publish(answer, json_path, lambda: _print_why(answer))
        return
    there = client.jobs(ended=ended)
    publish(there, json_path, lambda: print_jobs(there, client.cluster()["time"]))


def _print_why(answer: dict[str, Any]) -> None:
    """Print a job's status, its position in the queue, and sentences about them."""
    place = "" if answer["position"] is None else f", number {answer['position']} of the queue by submission"
    typer.echo(f"{answer['name']}: {answer['status']}{place}")
    for sentence in (*answer["sentences"], *answer["policy"]):
        typer.echo(f"  {printable(sentence)}")


def print_jobs(there: list[dict[str, Any]], now: float) -> None:
    """Print a table of jobs; `now` is the time on the service's clock in seconds."""
    rows = []
    for job in there:
        end = now if job["finished"] is None else job["finished"]
        waited = "" if job["started"] is None else f"{job['started'] - job['submitted']:.1f} s"
        rows.append(
            (
                job["name"],
                job["status"],
                f"{job['gpus']} x {job['type']}" if job["gpus"] else "",
                "" if job["progress"] is None else f"{job['progress']:.0%}",
                "" if job["batch_size"] is None else str(job["batch_size"]),
                str(job["restarts"]),
                waited,
                f"{end - job['submitted']:.1f} s",
                printable(job["reason"]),
            )
        )
    columns = ("job", "status", "GPUs", "progress", "batch", "restarts", "waited", "age or JCT", "why")
    table("", columns, rows, text_columns=3)


def cancel(
    client: Any,
    names: Annotated[
        list[str],
        typer.Argument(metavar="JOB...", help="Names of jobs, or patterns such as 'train-*' in quotes."),
    ],
) -> None:
    """End jobs, and print their names; if one of them cannot be cancelled, none is.

    For example:
      copter cancel train-1
      copter cancel 'train-*'
    """
    typer.echo("\n".join(client.cancel(*names)))


def logs(
    client: Any,
    name: Annotated[str, typer.Argument(help="Name of the job.")],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow the job until it ends.")] = False,
    run: Annotated[
        int | None, typer.Option(min=1, help="Number of the run, from 1; default: the last one.")
    ] = None,
    tail: Annotated[
        int | None, typer.Option(min=1, max=1_000_000, help="Begin with this many lines at the end.")
    ] = None,
) -> None:
    """Print the output of a job.

    For example:
      copter logs train-1
      copter logs -f --tail 20 train-1
    """
    for text in client.parts(name, run, tail=tail, follow=follow):
        typer.echo(text, nl=False)


def drain(client: Any, type: _Type, node: _Number) -> None:
    """Take a node out of use: its jobs are stopped and continue elsewhere, even if not preemptible.

    For example:
      copter drain a100 0
      copter undrain a100 0
    """
    client.drain(type, node)


def undrain(client: Any, type: _Type, node: _Number) -> None:
    """Put a drained node back into use."""
    client.drain(type, node, back=True)


def usage(client: Any, json_path: Json = None) -> None:
    """Print the ended jobs of each owner, and the GPU hours of the owner's runs that have ended."""
    there = client.usage()
    rows = [
        (one["owner"], *(str(one[ending]) for ending in ENDINGS), f"{one['gpu_seconds'] / 3600.0:.2f}")
        for one in there
    ]
    heads = ("owner", *ENDINGS, "GPU hours")
    publish(there, json_path, lambda: table("", heads, rows, text_columns=1))
