"""The client of a service in Python; the commands such as `copter submit` use it.

client = Client("http://127.0.0.1:8421", token)
name = client.submit("job.toml")
client.wait([name])
"""

from __future__ import annotations

import secrets
import ssl
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

from copter.errors import CopterError
from copter.extras import extra
from copter.live import ENDINGS

if TYPE_CHECKING:
    from copter.live.files import JobFile

with extra("live"):
    import httpx

_POLL_SECONDS = 0.5
_NO_SERVICE = (502, 504)
"""HTTP status codes with which a proxy says that it cannot reach the service."""
_MOST_JOBS = 10_000
"""Largest number of jobs in one response."""
_TAIL_BYTES = 64 * 1024
"""Bytes at the end of a log that are read first for its last lines."""


class ServiceError(CopterError, RuntimeError):
    """The service refused a request, or cannot be reached.

    Attributes
    ----------
    status : int
        HTTP status code; 0 if the service cannot be reached.
    retried : bool
        True if the request was sent before without getting a response.
    """

    def __init__(self, status: int, why: str, *, retried: bool = False) -> None:
        self.status, self.retried = status, retried
        super().__init__(why)


class Client:
    """Connection to a running service.

    Over HTTPS, the certificate authorities of the system and those of certifi are trusted. The environment
    variable ``SSL_CERT_FILE`` names a file with others in place of the system's.

    Parameters
    ----------
    url : str
        Address of the service, such as ``http://127.0.0.1:8421``.
    token : str
        The text of the file ``token`` in the service's folder, or a token of the service's file of tokens.
    patience : float
        Seconds for which a request is repeated while the service cannot be reached; behind a proxy this holds
        for requests that change nothing.

    Raises
    ------
    ServiceError
        By every method, if the service refuses the request or cannot be reached.
    """

    def __init__(self, url: str, token: str, *, patience: float = 0.0) -> None:
        self.url, self._patience = url.rstrip("/"), patience
        if not (token.isascii() and token.isprintable()):
            raise ServiceError(0, "token: must be printable ASCII text")
        try:
            self._http = httpx.Client(
                base_url=self.url,
                headers={"Authorization": f"Bearer {token}"},
                timeout=30.0,
                verify=_authorities(),
                trust_env=False,
            )
        except (httpx.InvalidURL, UnicodeError) as error:
            raise ServiceError(0, f"service = {url!r}: must be a URL: {error}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _ask(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        deadline, retried = time.monotonic() + self._patience, False
        while True:
            try:
                answer = self._http.request(method, path, **arguments)
                waits = method == "GET" and time.monotonic() < deadline
                if not (waits and answer.status_code in _NO_SERVICE):
                    break
                time.sleep(_POLL_SECONDS)
            except httpx.TransportError as error:
                if time.monotonic() >= deadline:
                    raise ServiceError(0, f"{self.url} cannot be reached: {error}") from None
                retried = True
                time.sleep(_POLL_SECONDS)
            except (httpx.InvalidURL, UnicodeEncodeError) as error:
                raise ServiceError(0, f"the request cannot be written: {error}") from None
        if answer.is_success:
            return answer
        try:
            why = answer.json()["error"]
        except (ValueError, KeyError, TypeError):
            why = f"HTTP {answer.status_code}"
        raise ServiceError(answer.status_code, str(why), retried=retried)

    def submit(self, job: JobFile | str | Path | Mapping[str, Any], **changes: Any) -> str:
        """Submit a job; the service has recorded the job when the method returns.

        Parameters
        ----------
        job : JobFile, path or mapping
            The job, or the path of a ``job.toml``.
        **changes
            Fields that replace those of the job, such as ``name``.

        Returns
        -------
        str
            Name of the job.

        Raises
        ------
        JobFileError
            If the file is invalid.
        ServiceError
            If the service refuses the job.
        """
        fields = _fields(job, changes)
        try:
            return str(self._ask("POST", "/v1/jobs", json=fields).json()["name"])
        except ServiceError as error:
            if error.status == 409 and error.retried and self._is(fields):
                return str(fields["name"])  # the first request was accepted, and the response was lost
            raise

    def dry_run(self, job: JobFile | str | Path | Mapping[str, Any], **changes: Any) -> list[str]:
        """Return sentences about when a job could start; the arguments are those of `submit`."""
        return list(self._ask("POST", "/v1/dry-run", json=_fields(job, changes)).json())

    def submit_array(
        self, job: JobFile | str | Path | Mapping[str, Any], size: int, **changes: Any
    ) -> list[str]:
        """Submit `size` jobs that differ in the variable ``COPTER_ARRAY_INDEX``, from 0; all of them or none.

        Returns
        -------
        list of str
            Names of the jobs: the name of `job` with ``-0``, ``-1`` and so on.  The other arguments and the
            errors are those of `submit`.
        """
        fields = _fields(job, changes)
        try:
            body = {"job": fields, "size": size}
            answer = self._ask("POST", "/v1/arrays", json=body)
            return list(answer.json()["names"])
        except ServiceError as error:
            names = [f"{fields['name']}-{index}" for index in range(size)]
            if (
                error.status == 409
                and error.retried
                and all(self._is(fields | {"name": one}) for one in names)
            ):
                return names  # the first request was accepted, and the response was lost
            raise

    def _is(self, fields: Mapping[str, Any]) -> bool:
        """Return whether the service has a job with these fields."""
        there = self._known(str(fields["name"]))
        return there is not None and all(there["file"].get(name) == value for name, value in fields.items())

    def jobs(self, *, over: bool = False) -> list[dict[str, Any]]:
        """Return the jobs that have not ended or, with `over`, all jobs."""
        params = {"over": over, "limit": _MOST_JOBS}
        return list(self._ask("GET", "/v1/jobs", params=params).json())

    def job(self, name: str) -> dict[str, Any]:
        """Return a job with all its runs."""
        return dict(self._ask("GET", f"/v1/jobs/{_quoted(name)}").json())

    def why(self, name: str) -> dict[str, Any]:
        """Return a job's status, position in the queue and estimated start, and sentences about them.

        `starts` is in seconds since the service began, as the times of `job`; None if it is unknown.
        """
        return dict(self._ask("GET", f"/v1/jobs/{_quoted(name)}/why").json())

    def cancel(self, *names: str) -> list[str]:
        """End jobs by their names or shell-like patterns: all or none of them; return their names."""
        try:
            return list(self._ask("POST", "/v1/cancel", json={"jobs": names}).json()["names"])
        except ServiceError as error:
            if not error.retried or error.status not in (404, 409):
                raise
            if all(job is not None and job["status"] == "cancelled" for job in map(self._known, names)):
                return list(dict.fromkeys(names))  # the first request was accepted, and the response was lost
            why = f"{error}; an earlier attempt, whose response was lost, may have succeeded"
            raise ServiceError(error.status, why, retried=True) from None

    def _known(self, name: str) -> dict[str, Any] | None:
        """Return a job; None for an unknown job and for a pattern."""
        try:
            return self.job(name)
        except ServiceError as error:
            if error.status in (404, 422):
                return None
            raise

    def log(self, name: str, run: int | None = None, *, tail: int | None = None) -> str:
        """Return the output of a run of a job, by default of the last run; with `tail`, its last lines."""
        return "".join(self.parts(name, run, tail=tail))

    def parts(self, name: str, run: int | None = None, *, tail: int | None = None) -> Iterator[str]:
        """Yield the output of a run as `log` returns it, in parts."""
        run, after, text = (run, 0, "") if tail is None else self._tail(name, run, tail)
        if text:
            yield text
        yield from self._log(name, run, after, follow=False)

    def follow(self, name: str, *, tail: int | None = None) -> Iterator[str]:
        """Yield the output of a job, through all its runs, until the job has ended.

        With `tail`, begin with this number of lines at the end of the last run.
        """
        run, after, text = (None, 0, "") if tail is None else self._tail(name, None, tail)
        if text:
            yield text
        yield from self._log(name, run, after, follow=True)

    def _log(self, name: str, run: int | None, after: int, *, follow: bool) -> Iterator[str]:
        """Yield the output of a run from byte `after` on; ask for the job only when there is no more."""
        last = newer = False  # True if there will be no more text of this run, or of this job
        while True:
            number, text, end = self._part(name, run, after)
            if run is None and number:
                run = number
            if text:
                after = end
                yield text
            elif not follow:
                return
            elif newer and run is not None:
                run, after, last, newer = run + 1, 0, False, False
            elif last:
                return
            else:
                view = self.job(name)
                newer = run is not None and len(view["all_runs"]) > run
                last = view["status"] in ENDINGS
                if not newer and not last:
                    time.sleep(_POLL_SECONDS)

    def _part(self, name: str, run: int | None, after: int, **more: int) -> tuple[int, str, int]:
        """Return the number of a run, a part of its log, and where the next part begins."""
        where = {"after": after} | ({} if run is None else {"run": run}) | more
        answer = self._ask("GET", f"/v1/jobs/{_quoted(name)}/log", params=where)
        return int(answer.headers["x-run"]), answer.text, int(answer.headers["x-next"])

    def _tail(self, name: str, run: int | None, lines: int) -> tuple[int | None, int, str]:
        """Return the number of a run, the end of its log, and the given number of lines before it."""
        number, _, end = self._part(name, run, 0, tail=1)
        size, run = _TAIL_BYTES, number or run
        while True:
            begin, text = max(end - size, 0), ""
            at = begin
            while at < end and (part := self._part(name, run, at))[1]:
                text, at = text + part[1], part[2]
            if begin == 0 or text.count("\n", 0, -1) >= lines:
                kept = text.removesuffix("\n").split("\n")[-lines:]
                return run, max(at, end), "\n".join(kept) + "\n" * text.endswith("\n")
            size *= 4

    def cluster(self) -> dict[str, Any]:
        """Return the nodes and the statistics of the service."""
        return dict(self._ask("GET", "/v1/cluster").json())

    def rounds(self) -> list[dict[str, Any]]:
        """Return the last rounds."""
        return list(self._ask("GET", "/v1/rounds").json())

    def drain(self, type: str, node: int, *, back: bool = False) -> None:
        """Take a node out of use or, with `back`, put it back into use."""
        self._ask("POST", f"/v1/nodes/{_quoted(type)}/{node}/{'undrain' if back else 'drain'}")

    def usage(self) -> list[dict[str, Any]]:
        """Return the ended jobs of each owner by ending, and the GPU seconds of the owner's ended runs."""
        return list(self._ask("GET", "/v1/usage").json())

    def events(self, after: int = 0, *, limit: int = 200) -> list[dict[str, Any]]:
        """Return events without reports and rounds: the last ones, or the first ones after a number."""
        return list(self._ask("GET", "/v1/events", params={"after": after, "limit": limit}).json())

    def metrics(self) -> str:
        """Return the service's metrics in Prometheus' text format."""
        return self._ask("GET", "/metrics").text

    def wait(self, names: Iterable[str], *, timeout: float | None = None) -> dict[str, dict[str, Any]]:
        """Wait until jobs have ended.

        Returns
        -------
        dict of str to dict
            Final state of each job, by name.

        Raises
        ------
        TimeoutError
            If some jobs have not ended after `timeout` seconds.
        """
        left, ended = list(names), dict[str, dict[str, Any]]()
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            there = {job["name"] for job in self.jobs()}
            for name in [name for name in left if name not in there]:
                view = self.job(name)
                if view["status"] in ENDINGS:
                    ended[name] = view
                    left.remove(name)
            if not left:
                return ended
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(f"not ended after {timeout:g} s: {', '.join(left[:5])}")
            time.sleep(_POLL_SECONDS)


def _authorities() -> ssl.SSLContext:
    """Return the certificate authorities to trust."""
    context = httpx.create_ssl_context(trust_env=False)
    context.load_default_certs()  # it reads SSL_CERT_FILE
    return context


def _quoted(name: str) -> str:
    """Return a name as a part of a path."""
    if name in ("", ".", "..") or "/" in name:
        raise ServiceError(0, f"name = {name!r}: must be a name")
    return quote(name, safe="", errors="replace")


def _fields(job: JobFile | str | Path | Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a job with changes, and with a name; raise JobFileError for an invalid file."""
    if not isinstance(job, Mapping):
        from copter.live.files import JobFile, read_toml  # imports numpy, which other methods do not need

        file = job if isinstance(job, JobFile) else read_toml(job, JobFile)
        job = file.model_dump(mode="json", exclude_unset=True)
    return {"name": f"job-{secrets.token_hex(4)}"} | dict(job) | dict(changes)
