// @ts-check
// What the service says, and what of it is remembered from one question to the next.

const TOKEN = "copter-token";
const MOST_JOBS = 1000;
const MOST_SPANS = 4000;
const MOST_EVENTS = 500;
const MOST_SAMPLES = 4000;
const PATIENCE = 20_000;
const LOG_BYTES = 16_384;

/** The service refused, or does not answer (status 0). */
export class Trouble extends Error {
  /** @param {number} status
   * @param {string} why */
  constructor(status, why) {
    super(why);
    this.status = status;
  }
}

/** The token, from the address or from before. It leaves the address at once: that is copied and kept. */
export function findToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given !== null) {
    sessionStorage.setItem(TOKEN, given);
    history.replaceState(null, "", location.pathname + location.search);
  }
  return sessionStorage.getItem(TOKEN) ?? "";
}

/** @param {string} token */
export function keepToken(token) {
  sessionStorage.setItem(TOKEN, token);
}

export function forgetToken() {
  sessionStorage.removeItem(TOKEN);
}

/** Ask the service.
 * @param {string} path
 * @param {string} [method]
 * @param {object} [body] of a POST
 * @returns {Promise<Response>} */
async function ask(path, method = "GET", body) {
  // A token goes into a header only as these characters; any other is a wrong one.
  const token = sessionStorage.getItem(TOKEN) ?? "";
  if (!/^[\x21-\x7e]+$/.test(token)) throw new Trouble(401, "the token is invalid");
  /** @type {RequestInit} */
  const request = { method, cache: "no-store", signal: AbortSignal.timeout(PATIENCE) };
  request.headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
  if (method === "POST") request.body = body ? JSON.stringify(body) : "";
  let answer;
  try {
    answer = await fetch(path, request);
  } catch (error) {
    const slow = error instanceof DOMException && error.name === "TimeoutError";
    throw new Trouble(0, slow ? `no answer within ${PATIENCE / 1000} s` : "it cannot be reached");
  }
  if (answer.ok) return answer;
  let why = `HTTP ${answer.status}`;
  try {
    why = String((await answer.json()).error ?? why);
  } catch {
    // A proxy's own page is no JSON: its status says enough.
  }
  throw new Trouble(answer.status, why);
}

/** @param {string} path */
async function json(path) {
  const answer = await ask(path);
  try {
    return await answer.json();
  } catch {
    throw new Trouble(0, "its answer was cut off");
  }
}

/** @param {string} name */
export async function readJob(name) {
  return json(`v1/jobs/${encodeURIComponent(name)}`);
}

/** Sentences about why a job waits, or what it has; without waiting for the estimate of its start.
 * @param {string} name
 * @returns {Promise<{position: number | null, sentences: string[], policy: string[]}>} */
export async function readWhy(name) {
  return json(`v1/jobs/${encodeURIComponent(name)}/why?wait=0`);
}

/** The end of what a job's last run printed.
 * @param {string} name
 * @returns {Promise<{run: number, text: string}>} */
export async function readLog(name) {
  const answer = await ask(`v1/jobs/${encodeURIComponent(name)}/log?tail=${LOG_BYTES}`);
  return { run: Number(answer.headers.get("X-Run")), text: await answer.text() };
}

/** @param {string} name */
export async function cancelJob(name) {
  await ask("v1/cancel", "POST", { jobs: [name] });
}

/** @param {string} type
 * @param {number} node
 * @param {boolean} back */
export async function drainNode(type, node, back) {
  await ask(`v1/nodes/${encodeURIComponent(type)}/${node}/drain?back=${back}`, "POST");
}

/** What is known of the service. Times are seconds since it first began; `epoch` of them is seconds since 1970. */
export class Store {
  constructor() {
    this.forget();
  }

  /** Begin anew: another service answers. */
  forget() {
    /** @type {any} */
    this.cluster = null;
    /** @type {any[]} */
    this.jobs = [];
    /** @type {any[]} runs that ended, in that order */
    this.spans = [];
    /** @type {Map<string, any>} */
    this.outages = new Map();
    /** @type {[number, number, number][]} time, predicted, measured */
    this.goodputs = [];
    /** @type {any[]} */
    this.rounds = [];
    /** @type {any[]} the oldest first */
    this.events = [];
    /** @type {Map<string, number>} */
    this.colours = new Map();
  }

  get now() {
    return this.cluster.time;
  }

  /** @param {number} time
   * @returns {number} */
  epoch(time) {
    return this.cluster.began + time;
  }

  /** Ask for what is new. */
  async refresh() {
    const after = this.events.at(-1)?.number ?? 0;
    const last = Math.max(this.spans.at(-1)?.ended ?? 0, this.goodputs.at(-1)?.[0] ?? 0);
    const round = this.rounds.at(-1)?.time ?? 0;
    const [cluster, jobs, rounds, events] = await Promise.all([
      json(`v1/cluster${last ? `?since=${last}` : ""}`),
      json(`v1/jobs?ended=true&limit=${MOST_JOBS}`),
      json(`v1/rounds?limit=2000${round ? `&since=${round}` : ""}`),
      json(`v1/events?after=${after}&limit=200`),
    ]);
    if (this.cluster && this.cluster.began !== cluster.began) {
      this.forget();
      return this.refresh();
    }
    this.cluster = cluster;
    this.jobs = jobs;
    this.rounds = [...this.rounds, ...rounds].slice(-MOST_SAMPLES);
    this.events = [...this.events, ...events].slice(-MOST_EVENTS);
    this.addSpans(cluster.spans);
    this.addGoodputs(cluster.goodput);
    for (const one of cluster.outages) this.outages.set(`${one.type} ${one.node} ${one.began}`, one);
    this.colour();
  }

  /** @param {any[]} spans */
  addSpans(spans) {
    const there = new Set(this.spans.slice(-MOST_SPANS).map((one) => `${one.job} ${one.number}`));
    const fresh = spans.filter((one) => !there.has(`${one.job} ${one.number}`));
    this.spans = [...this.spans, ...fresh].slice(-MOST_SPANS);
  }

  /** @param {any} goodput */
  addGoodputs(goodput) {
    const last = this.goodputs.at(-1)?.[0] ?? -1;
    const fresh = goodput.history.filter((/** @type {any} */ one) => one[0] > last);
    this.goodputs = [...this.goodputs, ...fresh].slice(-MOST_SAMPLES);
  }

  /** Jobs have colours in the order in which they first ran, so that neighbours differ. */
  colour() {
    const runs = [...this.spans, ...this.cluster.runs].filter((one) => !this.colours.has(one.job));
    runs.sort((a, b) => a.began - b.began);
    for (const one of runs) {
      if (!this.colours.has(one.job)) this.colours.set(one.job, this.colours.size % 8);
    }
  }

  /** The class of a job's colour; a job that never ran has none.
   * @param {string} job */
  colourOf(job) {
    const index = this.colours.get(job);
    return index === undefined ? "colour-none" : `colour-${index}`;
  }
}
