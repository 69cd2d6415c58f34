"""The page of `copter serve` in a browser, against a service that really runs jobs."""

import contextlib
import re
import shutil
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
sync_api = pytest.importorskip("playwright.sync_api")
expect = sync_api.expect

from copter.live.process import ServiceProcess  # noqa: E402

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
pace = { speed = 20.0 }

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

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(BROWSER is None, reason="no Chromium of the system"),
]


def python(code):
    return [sys.executable, "-c", code]


def submit_all(client):
    """Jobs of all kinds; the page is looked at while they run."""
    client.submit({"name": "prints", "command": python(f"print({MARKUP!r}); print(1)"), "tenant": MARKUP})
    client.submit({"name": "fails", "command": python("raise SystemExit(3)"), "retries": 0})
    client.submit({"name": "not-there", "command": [f"/{MARKUP}"], "retries": 0})
    client.submit({"name": "sleeper", "command": python("import time; time.sleep(600)"), "gpus": 2})
    client.submit({"name": "waiter", "command": python("print(1)"), "gpus": 4, "types": ["rtx"]})
    learns = {"work": 20_000, "batch_size": 128, "max_batch_size": 4096, "max_local_batch": 1024}
    client.submit(
        {
            "name": "learns",
            "command": [sys.executable, "-m", "copter.live.examples.digits", "--say-every", "10"],
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


def test_a_token_in_the_address_leaves_it_and_a_wrong_one_is_said_so(page, serving):
    page.allowed = ["401"]
    page.goto(f"{serving.url}/#token=wrong")
    expect(page.locator("#door-problem")).to_have_text("The token is invalid.", timeout=PATIENCE)
    assert page.evaluate("sessionStorage['copter-token']") is None
    page.evaluate("token => location.hash = `#token=${token}`", serving.token)
    expect(page.locator("#setup")).to_contain_text("sia on local", timeout=PATIENCE)
    assert page.url == f"{serving.url}/"


def test_runs_are_bars_on_the_lanes_of_their_nodes(cluster_page):
    lanes = cluster_page.locator(".lanes .node .name")
    assert lanes.all_text_contents() == ["a100-0", "a100-1", "rtx-0"]
    bar = cluster_page.locator(".bar.there[aria-label^='sleeper']").first
    expect(bar).to_be_attached(timeout=PATIENCE)
    bar.hover()
    expect(cluster_page.locator("#tip")).to_contain_text("sleeper")
    assert cluster_page.locator(".bar[tabindex='0']").count() == 1
    cluster_page.locator(".bar[tabindex='0']").focus()
    before = cluster_page.evaluate("document.activeElement.getAttribute('aria-label')")
    for key in ("ArrowLeft", "ArrowUp", "ArrowDown", "ArrowRight"):
        cluster_page.keyboard.press(key)
        assert cluster_page.evaluate("document.activeElement.getAttribute('class')").startswith("bar ")
    assert before
    cluster_page.keyboard.press("Enter")
    expect(cluster_page.locator("#detail")).to_be_visible()
    cluster_page.keyboard.press("Escape")
    expect(cluster_page.locator("#detail")).to_be_hidden()
    before = cluster_page.locator(".axis").text_content()
    cluster_page.get_by_label("Show the last").select_option("1440")
    assert cluster_page.locator(".axis").text_content() == before, "it began a moment ago"


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


def test_a_job_says_what_it_has_and_since_when(cluster_page):
    expect(row(cluster_page, "sleeper")).to_contain_text("2 ×", timeout=PATIENCE)
    open_job(cluster_page, "sleeper")
    first = cluster_page.locator("#detail-why li").first
    expect(first).to_contain_text("It has had 2 GPUs", timeout=PATIENCE)


def test_a_job_that_trains_shows_its_goodput_and_what_is_known_of_it(cluster_page):
    open_job(cluster_page, "learns")
    expect(cluster_page.locator("#detail-goodput path.line.measured")).to_be_attached(timeout=PATIENCE)
    expect(cluster_page.locator("#detail-goodput path.line.predicted")).to_be_attached()
    expect(cluster_page.locator("#detail-fitted-body")).to_contain_text("a100", timeout=PATIENCE)
    expect(cluster_page.locator("#detail-log")).to_contain_text("step 10:", timeout=PATIENCE)
    expect(cluster_page.locator("#detail-runs tr").first).to_contain_text("1 × a100")
    assert cluster_page.locator("#detail-facts").get_by_text("Noise scale").is_visible()
    cluster_page.keyboard.press("Escape")
    for chart in ("goodput", "seconds", "gap"):
        expect(cluster_page.locator(f"#{chart}-chart svg path").first).to_be_attached(timeout=PATIENCE)
    assert "predicted" in cluster_page.locator("#goodput-chart svg").get_attribute("aria-label")


def test_events_are_listed_with_the_newest_first(cluster_page):
    expect(cluster_page.locator("#events li").last).to_contain_text("Opened")
    times = cluster_page.locator("#events time").all_text_contents()
    assert times == sorted(times, reverse=True)


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
    lane = cluster_page.locator(".lanes .node", has_text="rtx-0")
    expect(lane).to_contain_text("drained", timeout=PATIENCE)
    expect(cluster_page.locator(".outage")).to_have_count(1)
    expect(cluster_page.locator("#gpus-types")).to_contain_text("rtx0 of 0")
    cluster_page.get_by_role("button", name="undrain rtx-0", exact=True).click()
    expect(lane).not_to_contain_text("drained", timeout=PATIENCE)
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


def test_many_jobs_and_nodes_are_drawn_in_part_and_the_rest_is_counted(page, serving):
    """1,000 jobs on 512 GPUs, made up."""
    page.route("**/v1/*", lambda route: route.fulfill(json=made_up(route.request.url)))
    page.goto(serving.page)
    expect(page.locator("#jobs-body tr")).to_have_count(100, timeout=PATIENCE)
    expect(page.locator("#jobs-more")).to_contain_text("100 of 1,000 shown; 234 more are not listed here")
    assert page.locator(".lanes .node").count() == 64
    assert 1000 <= page.locator(".bar").count() <= 1700
    expect(page.locator("#nodes-more")).to_contain_text("older ones not drawn")
    page.get_by_role("button", name="Show 64 more of 64 more nodes").click()
    assert page.locator(".lanes .node").count() == 128
    page.locator("#jobs-more button").click()
    assert page.locator("#jobs-body tr").count() == 200


def test_it_fits_a_phone(chromium, serving):
    with contextlib.closing(chromium.new_page(viewport={"width": 360, "height": 740})) as page:
        page.goto(serving.page)
        expect(page.locator("#jobs-body tr")).to_have_count(6, timeout=PATIENCE)
        assert page.evaluate("document.documentElement.scrollWidth") == 360


def made_up(url):
    """What a large service would say."""
    path, names = url.partition("/v1/")[2].partition("?")[0], [f"job-{i:04}" for i in range(1000)]
    if path == "cluster":
        nodes = [
            {"type": type, "node": i, "host": f"{type}-{i}", "gpus": 4, "unusable": "", "drained": False}
            for type in ("a100", "rtx")
            for i in range(64)
        ]
        at = {"nodes": [[0, 1]], "devices": [[0]], "number": 1}
        runs = [
            {**at, "job": names[i], "type": nodes[i // 4]["type"], "nodes": [[i // 4 % 64, 1]]}
            | {"devices": [[i % 4]], "began": 2000.0, "ended": None, "outcome": None}
            for i in range(512)
        ]
        spans = [
            {**at, "job": names[i // 4], "type": "a100", "nodes": [[i % 64, 1]], "devices": [[i // 64 % 4]]}
            | {
                "number": 10 + i,
                "began": 1200.0 + i // 256 * 90,
                "ended": 1280.0 + i // 256 * 90,
                "outcome": "stopped",
            }
            for i in range(2000)
        ]
        return {
            "time": 2100.0, "began": 1.7e9, "policy": "sia", "backend": "local", "round_seconds": 60.0,
            "silent": "",
            "jobs": 1000, "over": {"completed": 200, "failed": 30, "cancelled": 4}, "queued": 488,
            "statuses": {"running": 512, "queued": 488}, "given": {"a100": 256, "rtx": 256}, "nodes": nodes,
            "outages": [], "runs": runs, "spans": spans,
            "goodput": {"predicted": 9, "measured": 8.0, "history": [[5.0 * i, 9.0, 8.0] for i in range(9)]},
        }  # fmt: skip
    if path == "jobs":
        common = dict.fromkeys(("started", "finished", "type", "batch_size", "figure", "goodput", "measured"))
        common |= {"status": "queued", "application": "job", "tenant": "", "kind": "rigid", "reason": ""}
        common |= {
            "submitted": 5.0,
            "gpus": 0,
            "nodes": [],
            "gpu_use": [],
            "progress": 0.5,
            "restarts": 0,
            "runs": 0,
            "failures": 0,
        }
        return [{**common, "name": name} for name in names]
    return []


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


def test_only_what_is_new_is_told_again(serving):
    with serving.client(patience=30.0) as client:
        client.wait(["fails"])
        ask = client._ask
        whole = ask("GET", "/v1/cluster").json()
        span = next(one for one in whole["spans"] if one["job"] == "fails")
        assert span["outcome"] == "failed" and len(span["devices"][0]) == 1
        later = ask("GET", "/v1/cluster", params={"since": span["ended"]}).json()
        assert all(one["ended"] > span["ended"] for one in later["spans"])
        assert len(later["spans"]) < len(whole["spans"])
        rounds = ask("GET", "/v1/rounds").json()
        since = ask("GET", "/v1/rounds", params={"since": rounds[1]["time"]}).json()
        assert since[0] == rounds[2]
        assert ask("GET", "/v1/jobs/prints/log", params={"tail": 5}).text == "1\n"


def test_a_queued_job_is_held_and_released(page, serving):
    with serving.client(patience=30.0) as client:
        whole = {"gpus": 4, "types": ["rtx"]}
        client.submit({"name": "first", "command": python("import time; time.sleep(600)")} | whole)
        while client.job("first")["status"] != "running":
            time.sleep(0.1)
        client.submit({"name": "later", "command": ["true"]} | whole)
        page.goto(serving.page)
        expect(row(page, "later")).to_have_count(1, timeout=PATIENCE)
        open_job(page, "later")
        page.get_by_role("button", name="Hold job").click()
        release = page.get_by_role("button", name="Release job")
        expect(release).to_be_visible(timeout=PATIENCE)
        expect(page.locator("#detail-reason")).to_contain_text("held by admin")
        assert client.job("later")["held"]
        release.click()
        expect(page.get_by_role("button", name="Hold job")).to_be_visible(timeout=PATIENCE)
        assert not client.job("later")["held"]
        page.keyboard.press("Escape")
        open_job(page, "first")
        expect(page.get_by_role("button", name="Cancel job")).to_be_visible(timeout=PATIENCE)
        assert page.locator("#detail-hold").is_hidden()  # a job that has GPUs cannot be held
        client.cancel("later", "first")
        client.wait(["later", "first"])
