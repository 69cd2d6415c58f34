"""The client of a service in Python; the commands such as `copter submit` use it.

client = Client("http://127.0.0.1:8421", token)
name = client.submit("job.toml")
client.wait([name])
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias
from urllib.parse import quote

from copter.errors import CopterError
from copter.extras import extra
from copter.live import ENDINGS
from copter.live.routes import ROUTES

if TYPE_CHECKING:
    from copter.live.files import JobFile

with extra("live"):
    import httpx

_Job: TypeAlias = "JobFile | str | Path | Mapping[str, Any]"

_POLL_SECONDS = 0.5
_NO_SERVICE = (502, 504)
"""HTTP status codes of a proxy that cannot reach the service."""
_MOST_JOBS = 10_000
"""Largest number of jobs in one response."""
_TAIL_BYTES = 1024 * 1024
"""Bytes at the end of a log that may be read for its last lines."""


class ServiceError(CopterError, RuntimeError):
    """The service refused a request, or cannot be reached.

    Attributes
    ----------
    status : int
        HTTP status code; 0 if the service cannot be reached.
    """

    def __init__(self, status: int, why: str) -> None:
        self.status = status
        super().__init__(why)


class Client:
    """Connection to a running service.

    Over HTTPS, the certificate authorities of the system and those of certifi are trusted. If the environment
    variable ``SSL_CERT_FILE`` names a file, its authorities replace those of the system.

    Parameters
    ----------
    url : str
        Address of the service, such as ``http://127.0.0.1:8421``.
    token : str
        The text of the file ``token`` in the service's folder, or a token of the service's file of tokens.
    patience : float
        Seconds for which a request is repeated while the service cannot be reached.  A request that changes
        something is repeated only if no connection was made; otherwise it may already have had its effect.

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

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _ask(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        deadline = time.monotonic() + self._patience
        while True:
            try:
                answer = self._http.request(method, path, **arguments)
                why = f"HTTP {answer.status_code}"
                again = method == "GET" and answer.status_code in _NO_SERVICE
            except httpx.TransportError as error:
                answer, why = None, f"{self.url} cannot be reached: {error}"
                again = method == "GET" or isinstance(error, httpx.ConnectError)
                if not again:
                    why += "; the request may have had its effect"
            except (httpx.InvalidURL, UnicodeEncodeError) as error:
                raise ServiceError(0, f"the request cannot be written: {error}") from None
            if not again or time.monotonic() >= deadline:
                break
            time.sleep(_POLL_SECONDS)
        if answer is None:
            raise ServiceError(0, why)
        if not answer.is_success:
            with suppress(ValueError, KeyError, TypeError):
                why = answer.json()["error"]
            raise ServiceError(answer.status_code, str(why))
        return answer

    def _call(self, name: str, /, body: Any = None, **values: Any) -> httpx.Response:
        """Send a request to a route; `values` are its parameters, in the path or in the query."""
        route = ROUTES[name]
        inside = {key: _quoted(str(one)) for key, one in values.items() if f"{{{key}}}" in route.path}
        params = {key: one for key, one in values.items() if key not in inside and one is not None}
        return self._ask(route.method, route.path.format(**inside), json=body, params=params)

    def submit(self, job: _Job, **changes: Any) -> str:
        """Submit a job; when the method returns, the service has recorded the job.

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
        return self.submit_array(job, None, **changes)[0]

    def dry_run(self, job: _Job, **changes: Any) -> list[str]:
        """Return sentences about when a job could start; the arguments are those of `submit`."""
        return list(self._call("dry_run", _fields(job, changes)).json())

    def submit_array(self, job: _Job, size: int | None, **changes: Any) -> list[str]:
        """Submit `size` jobs, or none, which differ in the variable ``COPTER_ARRAY_INDEX``, from 0 on.

        Returns
        -------
        list of str
            Names of the jobs: the name of `job` with ``-0``, ``-1`` and so on.  If `size` is None, `job`
            itself is the only job.  All other arguments and the errors are those of `submit`.
        """
        return list(self._call("submit", _fields(job, changes), array=size).json()["names"])

    def jobs(self, *, ended: bool = False) -> list[dict[str, Any]]:
        """Return the jobs that have not ended or, with `ended`, all jobs."""
        return list(self._call("jobs", ended=ended, limit=_MOST_JOBS).json())

    def job(self, name: str) -> dict[str, Any]:
        """Return a job with all its runs."""
        return dict(self._call("job", name=name).json())

    def why(self, name: str) -> dict[str, Any]:
        """Return a job's status, position in the queue and estimated start, and sentences about them.

        `starts` is in seconds since the service began, like the times of `job`; None if it is unknown.
        """
        return dict(self._call("why", name=name).json())

    def cancel(self, *names: str) -> list[str]:
        """End all jobs with these names or shell-like patterns, or none of them; return the jobs' names."""
        return list(self._call("cancel", {"jobs": names}).json()["names"])

    def log(self, name: str, run: int | None = None, *, tail: int | None = None) -> str:
        """Return the output of a run of a job, by default of the last run.

        With `tail`, return the last lines, at most 1 MiB.
        """
        return "".join(self.parts(name, run, tail=tail))

    def parts(
        self, name: str, run: int | None = None, *, tail: int | None = None, follow: bool = False
    ) -> Iterator[str]:
        """Yield the output of a run as `log` returns it, in parts; with `follow`, until the job has ended."""
        after, most = 0, None if tail is None else _TAIL_BYTES
        while True:
            answer = self._call("log", name=name, run=run, after=after, tail=most)
            run, text = int(answer.headers["x-run"]) or None, answer.text
            if most is not None and tail is not None:
                kept = text.removesuffix("\n").split("\n")[-tail:]
                text, most = "\n".join(kept) + "\n" * text.endswith("\n"), None
            if text:
                yield text
                after = int(answer.headers["x-next"])
            elif not follow or answer.headers["x-more"] == "none":
                return
            elif answer.headers["x-more"] == "run" and run is not None:
                run, after = run + 1, 0
            else:
                time.sleep(_POLL_SECONDS)

    def cluster(self) -> dict[str, Any]:
        """Return the nodes and the statistics of the service."""
        return dict(self._call("cluster").json())

    def drain(self, type: str, node: int, *, back: bool = False) -> None:
        """Take a node out of use or, with `back`, put it back into use."""
        self._call("drain", type=type, node=node, back=back)

    def usage(self) -> list[dict[str, Any]]:
        """Return each owner's numbers of ended jobs, by ending, and the GPU seconds of the ended runs."""
        return list(self._call("usage").json())

    def metrics(self) -> str:
        """Return the service's metrics in Prometheus' text format."""
        return self._call("metrics").text

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
    """Return a name as a part of a URL's path."""
    if name in ("", ".", "..") or "/" in name:
        raise ServiceError(0, f"name = {name!r}: must be a name")
    return quote(name, safe="", errors="replace")


def _fields(job: _Job, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a job with changes; raise JobFileError for an invalid file."""
    if not isinstance(job, Mapping):
        from copter.live.files import JobFile, read_toml  # imports numpy, which other methods do not need

        file = job if isinstance(job, JobFile) else read_toml(job, JobFile)
        job = file.model_dump(mode="json", exclude_unset=True)
    return dict(job) | dict(changes)
