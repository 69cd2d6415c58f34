"""The HTTP interface of the service for users, jobs, monitoring and the page, described by OpenAPI.

Every route except ``/health``, ``/openapi.json`` and the page's files needs ``Authorization: Bearer TOKEN``.
The token is one of the service's tokens (:mod:`.tokens`); for a report, it is the run's own token.  A body is
JSON of at most :data:`MOST_BYTES`.  The response to an invalid request is ``{"error": "the reason"}``, and
the request has no effect.
"""

from __future__ import annotations

import asyncio
import codecs
import hmac
import math
import os
import sqlite3
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from copter.extras import extra
from copter.live.admission import RefusedError, known_job
from copter.live.files import WORD, JobFile, Strict, describe
from copter.live.folder import JOBS, run_token
from copter.live.report import ReportBody
from copter.live.routes import ROUTES
from copter.live.service import Service
from copter.live.tokens import Author
from copter.live.untrusted import SharedFolderError, UntrustedFileError, names_in, read_bytes, size_of
from copter.live.views import (
    JobName,
    OfService,
    cluster_view,
    job_view,
    jobs_view,
    usage_view,
)
from copter.live.why import why, would_run

with extra("live"):
    from fastapi import APIRouter, Depends, FastAPI, Query, Request, Security
    from fastapi import Path as InPath
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse, Response
    from fastapi.security import HTTPBearer
    from fastapi.staticfiles import StaticFiles
    from pydantic import BaseModel, Field
    from starlette.exceptions import HTTPException
    from starlette.types import ASGIApp, Receive, Scope, Send

MOST_BYTES = 256 * 1024
"""Largest body of a request, in bytes."""
_MOST_IGNORED_BYTES = 64 * MOST_BYTES
"""Largest body, in bytes, that is read although it is refused."""
_CLOSE = {"Connection": "close"}
MOST_ARRAY = 1000
"""Largest number of jobs in an array."""
_MOST_LOG_BYTES = 1024 * 1024
"""Largest part of a log in one response, in bytes."""

_PATTERN = r"^[A-Za-z0-9_*?\[\]!-]{1,100}$"


class Chosen(Strict):
    """Names of jobs, and patterns with ``*``, ``?`` or ``[...]`` for all matching jobs."""

    jobs: Annotated[
        tuple[Annotated[str, Field(pattern=_PATTERN)], ...],
        Field(min_length=1, max_length=10_000, strict=False),
    ]


class Refusal(BaseModel):
    """The reason why a request was refused."""

    error: str


_TypeName = Annotated[str, InPath(pattern=WORD)]
_Number = Annotated[int, InPath(ge=0, le=2**31)]
_REFUSALS: dict[int | str, dict[str, Any]] = {
    "default": {"model": Refusal, "description": "The request is refused, and has no effect."}
}


# These two describe the tokens for OpenAPI; _token reads the header.
_USER = HTTPBearer(scheme_name="user", description="A token of the service.", auto_error=False)
_RUN = HTTPBearer(scheme_name="run", description="The token of the run.", auto_error=False)


def _authorize(request: Request, service: OfService) -> Author:
    """Return the author of a request."""
    author = service.tokens.author(_token(request))
    if author is None:
        raise _unauthorized(request)
    return author


_Author = Annotated[Author, Depends(_authorize)]


def make_app(service: Service) -> FastAPI:
    """Make the application that serves a service and, while it is served, runs it."""

    @asynccontextmanager
    async def running(_: FastAPI) -> AsyncIterator[None]:
        task = asyncio.create_task(service.run())
        task.add_done_callback(_end_with)
        yield
        task.cancel()
        await asyncio.wait([task])

    app = FastAPI(
        title="copter",
        version="1",
        lifespan=running,
        docs_url=None,
        redoc_url=None,
        exception_handlers=_ANSWERS,
    )
    app.add_middleware(_Limited)
    app.state.service = service
    users = APIRouter(dependencies=[Security(_USER), Depends(_authorize)], responses=_REFUSALS)
    for name, route in ROUTES.items():
        users.add_api_route(route.path, _FUNCTIONS[name], methods=[route.method], status_code=route.status)
    app.include_router(users)
    app.post("/v1/runs/{name}/{number}", responses=_REFUSALS, dependencies=[Security(_RUN)])(report)
    app.get("/health", responses=_REFUSALS)(health)
    app.mount("/page", _Page(directory=_INDEX.parent))
    app.get("/", include_in_schema=False)(page)
    return app


class _Limited:
    """Application that rejects bodies that are too large."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        answer: ASGIApp = self._app
        headers = dict(scope.get("headers", ()))
        said = headers.get(b"content-length", b"0").decode("latin-1")
        length = int(said) if said.isdecimal() and len(said) <= 15 else math.inf
        if b"transfer-encoding" in headers:
            answer = _refused(411, "a request with a body needs a content-length", _CLOSE)
        elif length > MOST_BYTES:
            # A body that is not much too large is read to its end, so that the client sees the answer.
            close = _CLOSE if length > _MOST_IGNORED_BYTES else None
            answer = _refused(413, f"the body must have at most {MOST_BYTES} bytes", close)
        await answer(scope, receive, send)


async def submit(
    service: OfService,
    job: JobFile,
    author: _Author,
    array: Annotated[int | None, Query(ge=1, le=MOST_ARRAY)] = None,
) -> dict[str, list[str]]:
    """Submit a job or, with `array`, that many jobs that differ in COPTER_ARRAY_INDEX: all or none."""
    return {"names": service.admission.submit(job, author, array)}


async def dry_run(service: OfService, job: JobFile, author: _Author) -> list[str]:
    """Check a job as in a submission, and say when it could start; nothing is submitted."""
    checked = service.admission.dry_run(job, author)
    return await would_run(service, checked)


async def why_view(
    service: OfService, name: JobName, wait: Annotated[float, Query(ge=0, le=60)] = 20.0
) -> dict[str, Any]:
    """Return sentences about why a job waits and when it would start, or which GPUs it has and since when.

    The estimate of its start takes at most `wait` seconds.
    """
    return await why(service, name, seconds=wait)


async def cancel(service: OfService, body: Chosen, author: _Author) -> dict[str, list[str]]:
    """End jobs: all of them, or none if one of them cannot be ended."""
    return {"names": service.admission.cancel(*body.jobs, author=author)}


async def log(
    service: OfService,
    name: JobName,
    run: Annotated[int | None, Query(ge=1, le=2**31)] = None,
    after: Annotated[int, Query(ge=0, le=2**53)] = 0,
    tail: Annotated[int | None, Query(ge=1, le=_MOST_LOG_BYTES)] = None,
) -> Response:
    """Return the output of a run's first node after a number of bytes, or `tail` bytes at its end.

    ``X-Run`` and ``X-Next`` are the arguments `run` and `after` of the next request.  ``X-More`` says what
    may follow the text: text, another run, or none.
    """
    job = known_job(service.record, name)
    over = job.closed is not None and job.run is None
    home = service.folder / JOBS / name / "runs"
    number, text, end, newer = await asyncio.to_thread(read_log, home, run, after, tail)
    more = "run" if newer else "none" if over else "text"
    return PlainTextResponse(text, headers={"X-Run": str(number), "X-Next": str(end), "X-More": more})


async def drain(
    service: OfService, type: _TypeName, node: _Number, author: _Author, back: bool = False
) -> dict[str, str]:
    """Take a node out of use, so that its jobs continue elsewhere; with `back`, put it back into use."""
    service.admission.drain(type, node, author, back=back)
    return {"name": f"{type}-{node}"}


async def metrics(service: OfService) -> Response:
    """Return the metrics in Prometheus' text format."""
    text = service.record.metrics.text(service.record, silent=bool(service.launcher.silent))
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4")


_CALLED = (submit, dry_run, cancel, log, drain, metrics)
_VIEWS = (jobs_view, job_view, why_view, cluster_view, usage_view)
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    one.__name__.removesuffix("_view"): one for one in (*_CALLED, *_VIEWS)
}


async def report(
    service: OfService, name: JobName, number: _Number, body: ReportBody, request: Request
) -> dict[str, Any]:
    """Accept the report of a run, and return the orders for the run."""
    if not hmac.compare_digest(_token(request).encode(), run_token(service.token, name, number).encode()):
        raise _unauthorized(request)
    return asdict(service.admission.report(name, number, body.report()))


async def health(service: OfService, request: Request) -> Response:
    """Return whether the service works; with a token, also the details of the trouble."""
    trouble = service.trouble
    if trouble:
        # The details may contain paths on the service's machine.
        known = service.tokens.author(_token(request)) is not None
        return _refused(503, trouble if known else trouble.partition(":")[0])
    return JSONResponse({"status": "well"})


async def page() -> Response:
    """Return the page."""
    return FileResponse(_INDEX, headers=_PAGE_HEADERS)


_INDEX = Path(__file__).with_name("page") / "index.html"
_PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
    " img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'",
    "Cache-Control": "no-cache",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class _Page(StaticFiles):
    """The files of the page."""

    def file_response(self, *arguments: Any, **options: Any) -> Response:
        """Return a file with the headers of the page."""
        response = super().file_response(*arguments, **options)
        response.headers.update(_PAGE_HEADERS)
        return response


def _end_with(task: asyncio.Task[None]) -> None:
    """End the process if the service raised an exception, so that a supervisor starts it again."""
    if not task.cancelled() and task.exception() is not None:
        traceback.print_exception(task.exception())
        os._exit(1)


def _token(request: Request) -> str:
    """Return the token of a request; empty if it has none."""
    kind, _, shown = request.headers.get("authorization", "").partition(" ")
    return shown.strip() if kind.lower() == "bearer" else ""


def _unauthorized(request: Request) -> HTTPException:
    """Return the error of a request without a valid token."""
    said = "authorization" in request.headers
    why = "the token is invalid" if said else "a token is needed: Authorization: Bearer TOKEN"
    return HTTPException(401, why, {"WWW-Authenticate": "Bearer"})


def _refused(status: int, why: str, headers: Any = None) -> Response:
    return JSONResponse({"error": why}, status, headers=headers)


_ANSWERS: dict[Any, Any] = {
    RefusedError: lambda _, error: _refused(error.status, str(error)),
    sqlite3.Error: lambda _, error: _refused(503, f"the journal cannot be written: {error}"),
    HTTPException: lambda _, error: _refused(error.status_code, str(error.detail), error.headers),
    RequestValidationError: lambda _, error: _refused(422, describe(error.errors())),
}
"""Responses to requests that raise an exception."""


def read_log(home: Path, run: int | None, after: int, tail: int | None = None) -> tuple[int, str, int, bool]:
    """Return a run's number, a part of its log, the begin of the next part, and whether there is a later run.

    `home` has the folders of the job's runs, which the job can write; only regular files are read.  By
    default, the run is the last one.  A log that is shorter than `after` was cut, and is read from its start.
    With `tail`, the part has at most that many bytes and begins at a line.  Raises RefusedError if there is
    no such run, or its log is missing or not a regular file.
    """
    try:
        numbers = [int(name) for name in names_in(home) if name.isascii() and name.isdecimal()]
        if not numbers and run is None:
            return 0, "", 0, False
        number = max(numbers) if run is None else run
        if number not in numbers:
            raise RefusedError(404, f"there is no log of run {number}")
        path = home / str(number) / "log-0.txt"
        size = size_of(path)
        if size is None:
            return number, "", after, number < max(numbers)
        if after > size:  # the agent has cut the log
            after = 0
        begin = after if tail is None else max(after, size - tail)
        content = read_bytes(path, _MOST_LOG_BYTES, begin=begin)
        ended = size_of(path.with_name("ended-0.json")) is not None
    except FileNotFoundError:
        raise RefusedError(404, "the log does not exist any more") from None
    except SharedFolderError as error:
        raise RefusedError(503, str(error)) from None
    except UntrustedFileError as error:
        raise RefusedError(409, f"the log cannot be read: {error}") from None
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    first = content.find(b"\n") + 1
    skipped = first if begin > after and first < len(content) else 0
    text = decoder.decode(content[skipped:], final=ended and len(content) < _MOST_LOG_BYTES)
    begun, _ = decoder.getstate()  # the first bytes of an incomplete character
    return number, text, begin + len(content) - len(begun), number < max(numbers)
