"""What tests of a service share: services that end with the test, clients, and the commands of users."""

import contextlib
import sqlite3

import pytest
import typer
from typer.testing import CliRunner

from copter.live import cli
from copter.live.journal import LiveJournal
from copter.live.service import Service
from support.live_cases import client_of, http_of, make_service


@pytest.fixture(autouse=True)
def services_end():
    """Close each service that a test made and did not close, also one that was "killed"."""
    made, init, close = [], Service.__init__, Service.close

    def noted(service, *arguments, **options):
        init(service, *arguments, **options)
        made.append(service)

    def closed(service):
        made.remove(service)
        close(service)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Service, "__init__", noted)
        patch.setattr(Service, "close", closed)
        yield
        for service in made.copy():
            service.close()


@pytest.fixture
def service(tmp_path):
    return make_service(tmp_path / "live")


@pytest.fixture
def http(service):
    """A client of the application with the token; the service's own loop does not run."""
    return http_of(service)


@pytest.fixture
def client(service):
    with client_of(service) as made:
        yield made


@pytest.fixture
def command(monkeypatch):
    """Call a command of users of a service; return the exit code and the output."""
    app = typer.Typer()
    cli.register(app)

    def call(service, *words, token=None):
        with client_of(service, token) as client:
            monkeypatch.setattr(cli, "_client", lambda *_, **_more: contextlib.nullcontext(client))
            done = CliRunner().invoke(app, list(map(str, words)), env={"COLUMNS": "200", "TZ": "UTC"})
            return done.exit_code, done.output + str(done.exception or "")

    return call


@pytest.fixture
def disk(monkeypatch):
    """Return a set: while it is not empty, journals cannot be written."""
    full, flush = set(), LiveJournal.flush

    def written(journal):
        if full:
            raise sqlite3.OperationalError("database or disk is full")
        flush(journal)

    monkeypatch.setattr(LiveJournal, "flush", written)
    return full
