"""The routes for users: one table, from which the server dispatches and the client asks."""

from typing import NamedTuple


class Route(NamedTuple):
    """Method and path of a route, and the status of its response; names in braces are parameters."""

    method: str
    path: str
    status: int = 200


ROUTES = {
    "submit": Route("POST", "/v1/jobs", 201),
    "dry_run": Route("POST", "/v1/dry-run"),
    "jobs": Route("GET", "/v1/jobs"),
    "job": Route("GET", "/v1/jobs/{name}"),
    "why": Route("GET", "/v1/jobs/{name}/why"),
    "log": Route("GET", "/v1/jobs/{name}/log"),
    "cancel": Route("POST", "/v1/cancel"),
    "cluster": Route("GET", "/v1/cluster"),
    "drain": Route("POST", "/v1/nodes/{type}/{node}/drain"),
    "usage": Route("GET", "/v1/usage"),
    "metrics": Route("GET", "/metrics"),
}
"""Each route by the name of its function in :mod:`.http` or :mod:`.views`, and of the client's method."""
