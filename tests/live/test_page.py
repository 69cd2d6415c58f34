"""The page of `copter serve` in a browser, against a service that really runs jobs."""

import re
import shutil
import sys
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
sync_api = pytest.importorskip("playwright.sync_api")
expect = sync_api.expect

from support.paced_digits import paced  # noqa: E402
from support.service_process import ServiceProcess  # noqa: E402

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
CLUSTER = """

[[gpus]]
type = "a100"
nodes = 2
gpus_per_node = 2

[[gpus]]
type = "rtx"
nodes = 1
gpus_per_node = 4
"""
MARKUP = "<img src=x onerror=document.title='broken'>"
QUIET = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
PATIENCE = 30_000

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(BROWSER is None, reason="no Chromium of the system")]


def python(code):
    return [sys.executable, "-c", code]


def submit_all(client):
    """Jobs of all kinds; the page is looked at while they run."""
    client.submit({"name": "prints", "command": python(f"print({MARKUP!r}); print(1)")})
    client.submit({"name": "fails", "command": python("raise SystemExit(3)"), "retries": 0})
    client.submit({"name": "not-there", "command": [f"/{MARKUP}"], "retries": 0})
    client.submit({"name": "sleeper", "command": python("import time; time.sleep(600)"), "gpus": 2})
    client.submit({"name": "waiter", "command": python("print(1)"), "gpus": 4, "types": ["rtx"]})
    learns = {"work": 20_000, "batch_size": 128, "max_batch_size": 4096, "max_local_batch": 1024}
    client.submit(
        {
            "name": "learns",
            "command": paced("cifar10", 20.0, "--say-every", 10),
            "environment": QUIET,
            "kind": "adaptive",
            "application": "cifar10",
            "types": ["a100"],
            "max_gpus": 1,
            "report_seconds": 0.5,
            "checkpoint_seconds": 5.0,
            **learns,
        }
    )


@pytest.fixture(scope="module")
def serving(tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    (folder / "cluster.toml").write_text(CLUSTER)
    with ServiceProcess(folder / "live", folder / "cluster.toml", ("--round-seconds", "1")) as one:
        with one.client(patience=30.0) as client:
            submit_all(client)
            yield one
            for job in client.jobs():
                client.cancel(job["name"])
            client.wait(["sleeper", "learns"])


@pytest.fixture(scope="module")
def chromium():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def page(chromium, serving):
    """A fresh window; nothing that it loads may come from elsewhere, and nothing in it may go wrong."""
    window = chromium.new_page(viewport={"width": 1280, "height": 900})
    window.set_default_timeout(PATIENCE)
    wrong, asked = [], []
    window.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    window.on("pageerror", lambda error: wrong.append(str(error)))
    window.on("request", lambda request: asked.append(request.url))
    window.allowed = []  # what the browser itself says when a request fails
    yield window
    window.close()
    assert all(url.startswith(serving.url) for url in asked), asked
    assert not [text for text in wrong if not any(part in text for part in window.allowed)]


@pytest.fixture
def cluster_page(page, serving):
    page.goto(serving.page)
    expect(page.locator("#jobs-body tr")).to_have_count(6, timeout=PATIENCE)
    return page


def open_job(page, name):
    page.get_by_role("button", name=name, exact=True).first.click()
    expect(page.locator("#detail-name")).to_have_text(name)


def row(page, name):
    return page.locator(f"#jobs-body tr[data-job='{name}']")


def test_it_asks_for_a_token_and_keeps_it_for_the_tab(page, serving):
    page.allowed = ["401"]
    page.goto(serving.url)
    expect(page.locator("#door")).to_be_visible()
    assert page.locator("#all").is_hidden()
    page.get_by_label("Token of the service").fill("wrong")
    page.keyboard.press("Enter")
    expect(page.locator("#door-problem")).to_have_text("The token is invalid.", timeout=PATIENCE)
    page.get_by_label("Token of the service").fill(serving.token)
    page.keyboard.press("Enter")
    expect(page.locator("#setup")).to_contain_text("sia on local", timeout=PATIENCE)
    assert page.evaluate("sessionStorage['copter-token']") == serving.token
    page.reload()
    expect(page.locator("#setup")).to_contain_text("sia on local", timeout=PATIENCE)


def test_nodes_name_their_jobs(cluster_page):
    names = cluster_page.locator("#nodes-body td.name")
    assert names.all_text_contents() == ["a100-0", "a100-1", "rtx-0"]
    there = cluster_page.locator("#nodes-body tr", has_text="sleeper")
    expect(there).to_have_count(1, timeout=PATIENCE)
    there.get_by_role("button", name="sleeper", exact=True).click()
    expect(cluster_page.locator("#detail-name")).to_have_text("sleeper")
    cluster_page.keyboard.press("Escape")
    expect(cluster_page.locator("#detail")).to_be_hidden()


def test_rows_of_jobs_are_found_and_sorted(cluster_page):
    expect(row(cluster_page, "fails")).to_contain_text("failed", timeout=PATIENCE)
    expect(row(cluster_page, "fails")).to_contain_text("exit code 3")
    expect(row(cluster_page, "sleeper")).to_contain_text("2 ×")
    cluster_page.get_by_label("Find jobs").fill("failed rigid")
    expect(cluster_page.locator("#jobs-body tr")).to_have_count(2)
    cluster_page.get_by_label("Find jobs").fill("")
    cluster_page.get_by_role("button", name="Job", exact=True).click()
    names = cluster_page.locator("#jobs-body button").all_text_contents()
    assert names == sorted(names, reverse=True)
    assert cluster_page.locator("th[aria-sort='descending']").text_content() == "Job"


def test_logs_and_reasons_are_text_whatever_they_say(cluster_page):
    expect(row(cluster_page, "not-there")).to_contain_text("<img src=x", timeout=PATIENCE)
    open_job(cluster_page, "prints")
    expect(cluster_page.locator("#detail-log")).to_contain_text(MARKUP, timeout=PATIENCE)
    expect(cluster_page.locator("#detail-facts")).to_contain_text(MARKUP)
    assert cluster_page.locator("img[src='x']").count() == 0
    assert "broken" not in cluster_page.title()


def test_a_job_is_cancelled_when_it_is_meant(cluster_page):
    open_job(cluster_page, "sleeper")
    cluster_page.get_by_role("button", name="Cancel job").click()
    cluster_page.get_by_role("button", name="Keep it").click()
    expect(cluster_page.locator("#detail-status")).to_have_text("running")
    cluster_page.get_by_role("button", name="Cancel job").click()
    cluster_page.get_by_role("button", name="Cancel the job").click()
    expect(cluster_page.locator("#detail-status")).to_have_text("cancelled", timeout=PATIENCE)
    assert cluster_page.get_by_role("button", name="Cancel job").is_hidden()


def test_a_node_is_drained_and_given_back(cluster_page):
    cluster_page.get_by_role("button", name="drain rtx-0", exact=True).click()
    cluster_page.get_by_role("button", name="Drain it").click()
    node = cluster_page.locator("#nodes-body tr", has_text="rtx-0")
    expect(node).to_contain_text("drained", timeout=PATIENCE)
    expect(cluster_page.locator("#gpus-types")).to_contain_text("rtx0 of 0")
    cluster_page.get_by_role("button", name="undrain rtx-0", exact=True).click()
    expect(node).not_to_contain_text("drained", timeout=PATIENCE)
    expect(cluster_page.locator("#gpus-types")).to_contain_text("of 4", timeout=PATIENCE)


@pytest.mark.long
def test_a_service_that_is_away_is_missed_until_it_is_back(page, serving):
    page.allowed = ["ERR_CONNECTION_REFUSED", "ERR_EMPTY_RESPONSE", "ERR_CONNECTION_RESET"]
    page.goto(serving.page)
    expect(page.locator("#link")).to_have_text("live", timeout=PATIENCE)
    serving.end()
    try:
        expect(page.locator("#problem")).to_contain_text("does not answer since", timeout=PATIENCE)
        expect(page.locator("#jobs-body tr")).to_have_count(6)
    finally:
        serving.start()
    expect(page.locator("#problem")).to_be_hidden(timeout=PATIENCE)
    expect(page.locator("#link")).to_have_text("live", timeout=PATIENCE)


# ---- what the page asks for ----------------------------------------------------------------------


def test_the_policy_of_the_page_allows_nothing_from_elsewhere_and_no_markup(page, serving):
    answer = page.goto(serving.url)
    said = answer.headers["content-security-policy"]
    assert "default-src 'none'" in said and "unsafe" not in said
    for name in ("index.html", "page.css", "page.js"):
        assert page.request.get(f"{serving.url}/page/{name}").ok
    assert page.request.get(f"{serving.url}/page/dom.py").status == 404
    for file in (Path(__file__).parents[2] / "copter/live/page").iterdir():
        assert not re.search(r"innerHTML|insertAdjacentHTML|document\.write|style=", file.read_text()), file
        assert set(re.findall(r"https?://[\w.]+", file.read_text())) <= {"http://www.w3.org"}
