"""Write page.png: the page of a live cluster, after a minute of a dozen small jobs that really train.

    python docs/live/picture.py

It needs the extra `dev` and a Chromium of the system.  Slots of this machine stand for GPUs, and what is on
them is as quick as they are measured to be, so many times quicker.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import sync_playwright

from copter.live.client import Client

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from support.paced_digits import paced  # noqa: E402
from support.service_process import ServiceProcess  # noqa: E402

HERE = Path(__file__).parent
CLUSTER = """

[[gpus]]
type = "a100"
nodes = 2
gpus_per_node = 4

[[gpus]]
type = "rtx"
nodes = 3
gpus_per_node = 4
"""
JOBS = (
    "mnist-base",
    "mnist-wide",
    "svhn-baseline",
    "ablate-noise-1",
    "ablate-noise-2",
    "ablate-noise-3",
    "sweep-lr-1e-2",
    "sweep-lr-3e-2",
    "sweep-lr-1e-1",
    "distill-small",
    "distill-tiny",
    "calibrate",
)
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


def elastic(name: str, work: float) -> dict[str, object]:
    """A job that learns to read digits, as quick as a small network on CIFAR-10, and says so more often."""
    quiet = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return {
        "name": name,
        "command": paced("cifar10", 5.0, "--say-every", 50),
        "kind": "adaptive",
        "application": "cifar10",
        "work": work,
        "batch_size": 128,
        "max_batch_size": 4096,
        "max_local_batch": 1024,
        "max_gpus": 8,
        "checkpoint_seconds": 5.0,
        "restart_seconds": 2.0,
        "report_seconds": 1.0,
        "environment": quiet,
    }


@contextmanager
def serving(folder: Path) -> Iterator[ServiceProcess]:
    """A service, until it is not needed any more; its jobs are cancelled then."""
    cluster = folder / "cluster.toml"
    cluster.write_text(CLUSTER)
    with ServiceProcess(folder / "live", cluster, ("--round-seconds", "5")) as service:
        yield service
        with service.client() as client:
            for there in client.jobs():
                client.cancel(there["name"])
        time.sleep(2.0)


def play(client: Client, seconds: float) -> None:
    """Hand in jobs for so long; meanwhile one fails, and a node is out of use for a while."""
    began = time.monotonic()
    client.submit({"name": "import-data", "command": [sys.executable, "-c", "import no_data"], "retries": 0})
    for number, name in enumerate(JOBS):
        client.submit(elastic(name, 9000 + 4000 * (number * 3 % 5)))
        if number == 4:
            client.drain("rtx", 2)
        elif number == 8:
            client.drain("rtx", 2, back=True)
        time.sleep(max(began + (number + 1) * seconds / (len(JOBS) + 3) - time.monotonic(), 0.0))
    client.drain("rtx", 1)
    time.sleep(max(began + seconds - time.monotonic(), 0.0))


def take(address: str, path: Path, *, width: int = 1440, height: int = 1240, scheme: str = "light") -> None:
    """Write a picture of the page."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise SystemExit(f"no browser: install one of {', '.join(BROWSERS)}")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=FLAGS)
        page = chromium.new_page(
            viewport={"width": width, "height": height}, color_scheme="dark" if scheme == "dark" else "light"
        )
        page.goto(address)
        page.wait_for_selector("#jobs-body tr")
        page.wait_for_timeout(2500)
        page.screenshot(path=path)
        chromium.close()


def main() -> None:
    """Write the picture."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=75.0, help="before the picture is taken")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as service:
        with service.client() as client:
            play(client, arguments.seconds)
        take(service.page, HERE / "page.png")


if __name__ == "__main__":
    main()
