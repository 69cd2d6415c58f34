// @ts-check
// The table of jobs, and the details of a job.

import { at, clock, count, duration, h, keyed, number, percent, say, set } from "./dom.js";

const MOST_ROWS = 100;
const MOST_RUNS = 50;
const OVER = ["completed", "failed", "cancelled"];

/** @typedef {import("./service.js").Store} Store */

/** @param {any} job */
export function isOver(job) {
  return OVER.includes(job.status);
}

/** Return the seconds from a job's submission until it first got GPUs.
 * @param {any} job
 * @param {number} now */
function waited(job, now) {
  return (job.started ?? job.finished ?? now) - job.submitted;
}

/** Return the seconds from a job's submission until it was over, or until now.
 * @param {any} job
 * @param {number} now */
function age(job, now) {
  return (job.finished ?? now) - job.submitted;
}

/** Return the number and the type of a job's GPUs as text.
 * @param {any} job */
function gpus(job) {
  return job.gpus ? `${job.gpus} × ${job.type}` : "";
}

/** @typedef {{title: string, hint?: string, kind: string, text: (job: any, now: number) => string,
 *   value: (job: any, now: number) => any}} Column */

/** @type {Column[]} */
const COLUMNS = [
  { title: "Job", kind: "name", text: (job) => job.name, value: (job) => job.name },
  { title: "Status", kind: "state", text: (job) => job.status, value: (job) => job.status },
  { title: "GPUs", kind: "gpus", text: gpus, value: (job) => job.gpus },
  { title: "Progress", kind: "progress", text: (job) => percent(job.progress), value: (job) => job.progress ?? -1 },
  {
    title: "Batch",
    kind: "number minor",
    text: (job) => (job.batch_size === null ? "" : count(job.batch_size)),
    value: (job) => job.batch_size ?? -1,
  },
  {
    title: "Goodput",
    hint: "predicted, in steps at the initial batch size a second",
    kind: "number",
    text: (job) => (job.batch_size === null || job.status !== "running" ? "" : number(job.goodput)),
    value: (job) => job.goodput ?? -1,
  },
  { title: "Restarts", kind: "number minor", text: (job) => String(job.restarts), value: (job) => job.restarts },
  { title: "Waited", kind: "number minor", text: (job, now) => duration(waited(job, now)), value: waited },
  {
    title: "JCT",
    hint: "from its submission until it was over; in grey, until now",
    kind: "number",
    text: (job, now) => duration(age(job, now)),
    value: age,
  },
  { title: "Reason", kind: "why", text: (job) => job.reason, value: (job) => job.reason },
];

export class JobTable {
  /** @param {(job: string) => void} open
   * @param {() => void} again draws the table again, from the known data */
  constructor(open, again) {
    this.open = open;
    this.again = again;
    this.rows = MOST_ROWS;
    /** @type {Column | null} column of the order; null for the service's own order */
    this.by = null;
    this.down = true;
    this.body = at("jobs-body");
    this.heads = COLUMNS.map((column) => this.makeHead(column));
    at("jobs-head").append(...this.heads);
    at("filter").addEventListener("input", again);
    this.body.addEventListener("click", (/** @type {MouseEvent} */ event) => {
      const row = /** @type {Element} */ (event.target).closest("tr");
      // A click that ends the selection of a text does not open the job.
      if (row instanceof HTMLElement && row.dataset.job && !getSelection()?.toString()) open(row.dataset.job);
    });
    this.more = h("button", { class: "quiet" });
    this.more.addEventListener("click", () => {
      this.rows += MOST_ROWS;
      again();
    });
  }

  /** @param {Column} column */
  makeHead(column) {
    const button = h("button", { title: column.hint ?? "" }, column.title);
    button.addEventListener("click", () => {
      // Clicks change the order: descending, ascending, the service's own.
      if (this.by !== column) [this.by, this.down] = [column, true];
      else if (this.down) this.down = false;
      else this.by = null;
      this.again();
    });
    return h("th", { scope: "col", class: column.kind }, button);
  }

  /** @param {Store} store */
  draw(store) {
    const found = this.find(store);
    const shown = found.slice(0, this.rows);
    this.heads.forEach((head, i) => {
      set(head, { "aria-sort": this.by !== COLUMNS[i] ? "none" : this.down ? "descending" : "ascending" });
    });
    keyed(this.body, shown, (job) => job.name, makeRow, (row, job) => updateRow(row, job, store));
    at("jobs-none").hidden = shown.length > 0;
    say(at("jobs-none"), store.jobs.length ? "No job is like that." : "There are no jobs yet: copter submit job.toml");
    const all = store.cluster.jobs + sum(Object.values(store.cluster.over));
    this.tellMore(found.length, shown.length, all - store.jobs.length);
  }

  /** @param {number} found
   * @param {number} shown
   * @param {number} unread number of jobs that the service's answer does not contain */
  tellMore(found, shown, unread) {
    const parts = [];
    if (found > shown) parts.push(`${count(shown)} of ${count(found)} shown`);
    if (unread > 0) parts.push(`${count(unread)} more are not listed here`);
    say(this.more, `show ${count(Math.min(found - shown, MOST_ROWS))} more`);
    const home = at("jobs-more");
    if (!this.words) home.append((this.words = h("span")), " ", this.more);
    say(this.words, parts.join("; "));
    this.more.hidden = found <= shown;
  }

  /** Return the jobs that match all words of the search, in the chosen order.
   * @param {Store} store */
  find(store) {
    const words = at("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = store.jobs.filter((job) => {
      const text = [job.name, job.status, job.application, job.kind, job.type ?? "", job.reason].join(" ").toLowerCase();
      return words.every((/** @type {string} */ word) => text.includes(word));
    });
    const by = this.by;
    if (!by) return found;
    const sign = this.down ? -1 : 1;
    const values = new Map(found.map((job) => [job, by.value(job, store.now)]));
    return found.sort((a, b) => {
      const [left, right] = [values.get(a), values.get(b)];
      return left < right ? -sign : left > right ? sign : 0;
    });
  }
}

/** @param {any} job */
function makeRow(job) {
  const row = h("tr", {}, ...COLUMNS.map((column) => h("td", { class: column.kind })));
  row.dataset.job = job.name;
  row.children[0].append(h("button", { class: "open" }, job.name));
  row.children[1].append(h("span", { class: "status" }));
  row.children[3].append(h("progress", { max: 1, "aria-label": `progress of ${job.name}` }), h("span"));
  return row;
}

/** @param {any} row
 * @param {any} job
 * @param {Store} store */
function updateRow(row, job, store) {
  const [, status, , progress] = row.children;
  set(row, { class: isOver(job) ? "over" : "there" });
  showStatus(status.firstChild, job.status);
  const [bar, share] = progress.children;
  if (job.progress !== null) bar.value = job.progress;
  bar.hidden = job.progress === null;
  say(share, percent(job.progress));
  COLUMNS.forEach((column, i) => {
    if (["name", "state", "progress"].includes(column.kind)) return;
    say(row.children[i], column.text(job, store.now));
  });
  row.children[COLUMNS.length - 1].title = job.reason;
}

/** @param {Element} element
 * @param {string} status */
function showStatus(element, status) {
  set(element, { class: `status ${status}` });
  say(element, status);
}

/** @param {any[]} numbers
 * @returns {number} */
function sum(numbers) {
  return numbers.reduce((total, one) => total + one, 0);
}

// ---- details -------------------------------------------------------------------------------------

export class Detail {
  /** @param {(job: string) => void} cancel
   * @param {() => void} ask reads the job from the service at once */
  constructor(cancel, ask) {
    this.dialog = at("detail");
    /** @type {string | null} */
    this.name = null;
    this.ask = ask;
    at("detail-close").addEventListener("click", () => this.dialog.close());
    at("detail-cancel").addEventListener("click", () => this.name && cancel(this.name));
    this.dialog.addEventListener("close", () => (this.name = null));
    // A click outside the drawer closes it.
    this.dialog.addEventListener("click", (/** @type {MouseEvent} */ event) => {
      if (event.target === this.dialog) this.dialog.close();
    });
  }

  /** @param {string} name */
  open(name) {
    this.name = name;
    say(at("detail-name"), name);
    set(at("detail-status"), { class: "status" });
    for (const id of ["status", "problem", "reason", "why", "log", "facts", "runs", "runs-more"]) say(at(`detail-${id}`), "");
    at("detail-cancel").hidden = true;
    if (!this.dialog.open) this.dialog.showModal();
    this.dialog.scrollTop = 0;
    this.ask();
  }

  /** @param {string} why */
  fail(why) {
    say(at("detail-problem"), why);
  }

  /** @param {any} job
   * @param {{run: number, text: string} | string} log why there is none, if it is a string
   * @param {{position: number | null, sentences: string[], policy: string[]}} why
   * @param {Store} store */
  draw(job, log, why, store) {
    if (this.name !== job.name) return;
    this.fail("");
    showStatus(at("detail-status"), job.status);
    say(at("detail-reason"), job.reason);
    const place = why.position === null ? [] : [`It is number ${why.position} of the queue, in the order of submission.`];
    const said = isOver(job) ? [] : [...place, ...why.sentences, ...why.policy];
    keyed(at("detail-why"), said.map((text, i) => [String(i), text]), ([key]) => key, () => h("li"), (line, [, text]) => say(line, text));
    at("detail-cancel").hidden = isOver(job);
    this.drawFacts(job, store.now);
    drawRuns(job, store);
    drawLog(log);
  }

  /** @param {any} job
   * @param {number} now */
  drawFacts(job, now) {
    const facts = [
      ["GPUs", gpus(job) || "none"],
      ["Progress", percent(job.progress)],
      ["Goodput", number(job.goodput)],
      ["Batch size", count(job.batch_size)],
      ["Noise scale", "noise" in job ? number(job.noise) : null],
      ["Application", job.application],
      ["Kind", job.file?.kind ?? job.kind],
      ["Owner", job.owner],
      ["Waited", duration(waited(job, now))],
      [isOver(job) ? "JCT" : "Age", duration(age(job, now))],
      ["Restarts", String(job.restarts)],
      ["Failures", job.failures ? String(job.failures) : null],
      ["A restart takes", "restart_seconds" in job ? duration(job.restart_seconds) : null],
      ["Time limit", job.file?.time_limit_seconds ? duration(job.file.time_limit_seconds) : null],
      ["GPU time", duration(job.gpu_seconds)],
      ["Exit code", job.exit_code === null ? null : String(job.exit_code)],
      ["Command", job.file?.command.join(" ") ?? null],
    ].filter((one) => one[1] !== null);
    keyed(at("detail-facts"), facts, (one) => String(one[0]), (one) => h("div", {}, h("dt", {}, one[0]), h("dd")), (element, one) => {
      say(element.lastChild, String(one[1]));
      element.classList.toggle("long", one[0] === "Command");
    });
  }
}

/** @param {any} job
 * @param {Store} store */
function drawRuns(job, store) {
  const shown = job.all_runs.slice(-MOST_RUNS).reverse();
  const hidden = job.all_runs.length - shown.length;
  say(at("detail-runs-more"), hidden > 0 ? `${count(hidden)} earlier ones are not shown` : "");
  keyed(at("detail-runs"), shown, (run) => String(run.number), () => h("tr", {}, ...Array.from({ length: 6 }, () => h("td"))), (row, run) => {
    const texts = [
      String(run.number),
      `${sum(run.nodes.map((/** @type {number[]} */ one) => one[1]))} × ${run.type}`,
      run.nodes.map((/** @type {number[]} */ one) => one[0]).join(", "),
      clock(store.epoch(run.began)),
      duration((run.ended ?? store.now) - run.began),
      run.ended === null ? (run.told === null ? "" : "told to end") : [run.outcome, run.reason].filter(Boolean).join(": "),
    ];
    texts.forEach((text, i) => say(row.children[i], text));
  });
}

/** @param {{run: number, text: string} | string} log */
function drawLog(log) {
  const pre = at("detail-log");
  const text = typeof log === "string" ? log : log.text;
  const title = typeof log === "string" || !log.run ? "Log" : `Log of run ${log.run}`;
  say(at("detail-log-title"), title);
  const wanted = text || "Nothing has been printed.";
  if (pre.textContent === wanted) return;
  const atEnd = pre.scrollTop + pre.clientHeight >= pre.scrollHeight - 4;
  pre.textContent = wanted;
  if (atEnd) pre.scrollTop = pre.scrollHeight;
}
