"""Programs on one Ray: the last ends it, if it was started for them; what is not there is refused."""

from __future__ import annotations

import socket
from types import SimpleNamespace

import pytest

pytest.importorskip("ray")

from copter.errors import CopterError, SettingError
from copter.ray import session
from copter.ray.session import Session, check_room


class FakeRay:
    """Whether it runs, and which one; nodes are told."""

    def __init__(self, *nodes):
        self.number, self.running = 0, False
        self._nodes = [{"Alive": True, "Resources": each} for each in nodes]

    def init(self, *_, **__):
        self.number, self.running = self.number + 1, True

    def shutdown(self):
        self.running = False

    def is_initialized(self):
        return self.running

    def nodes(self):
        return self._nodes

    def get_runtime_context(self):
        assert self.running
        return SimpleNamespace(get_node_id=lambda: f"node {self.number}")


@pytest.fixture
def ray(monkeypatch):
    fake = FakeRay({"CPU": 4.0, "gpu": 1.0}, {"CPU": 3.0})
    monkeypatch.setattr(session, "ray", fake)
    monkeypatch.setattr(Session, "_now", None)
    return fake


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_last_program_ends_the_ray_that_the_first_started(ray, order):
    programs = [Session.join(None, 2) for _ in range(2)]
    assert ray.number == 1
    programs[order[0]].leave()
    assert ray.running
    programs[order[1]].leave()
    assert not ray.running
    Session.join(None, 2).leave()
    assert (ray.number, ray.running) == (2, False)


def test_a_ray_of_the_users_goes_on(ray):
    ray.init()
    Session.join(None, 2).leave()
    assert ray.running


def test_a_ray_that_the_user_put_in_the_place_of_the_first_goes_on(ray):
    first = Session.join(None, 2)
    ray.shutdown()
    ray.init()
    second = Session.join(None, 2)
    first.leave()
    second.leave()
    assert ray.running


@pytest.mark.parametrize("form", ["127.0.0.1:{}", "ray://127.0.0.1:{}"])
def test_an_address_where_nobody_listens_is_refused_before_ray_waits_for_it(ray, form):
    with socket.socket() as free:  # bound, so that nobody else takes it, and not listening
        free.bind(("127.0.0.1", 0))
        address = form.format(free.getsockname()[1])
        with pytest.raises(CopterError, match=f"no Ray cluster answers at '{address}': .*refused"):
            Session.join(address, 2)
    assert ray.number == 0


def test_a_cluster_that_ray_does_not_find_is_the_same_error(ray, monkeypatch):
    def init(*_, **__):
        raise ConnectionError("no running Ray")

    monkeypatch.setattr(ray, "init", init, raising=False)
    with pytest.raises(CopterError, match="'auto': no running Ray"):
        Session.join("auto", 2)


@pytest.mark.parametrize(
    ("needs", "room"),
    [
        ({"CPU": 1.0}, 7),
        ({"CPU": 2.0}, 3),
        ({"CPU": 0.1}, 70),
        ({"CPU": 0, "gpu": 0.5}, 2),
        ({"tpu": 1.0}, 0),
    ],
)
def test_as_many_actors_as_nodes_have_room_for(ray, needs, room):
    check_room(room, needs)
    with pytest.raises(SettingError, match=f"room for {room}"):
        check_room(room + 1, needs)


def test_actors_that_need_nothing_always_have_room(ray):
    check_room(1000, {"CPU": 0})


def test_what_there_is_and_what_was_asked_is_said(ray):
    with pytest.raises(SettingError, match="actors = 4: each needs 2 CPU, and Ray has 7 CPU, on 2 nodes"):
        check_room(4, {"CPU": 2.0})
