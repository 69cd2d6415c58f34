// @ts-check
// What the service says.

const TOKEN = "copter-token";
const MOST_JOBS = 1000;
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
    /** @type {any} */
    this.cluster = null;
    /** @type {any[]} */
    this.jobs = [];
  }

  get now() {
    return this.cluster.time;
  }

  /** @param {number} time
   * @returns {number} */
  epoch(time) {
    return this.cluster.began + time;
  }

  /** Ask for everything. */
  async refresh() {
    [this.cluster, this.jobs] = await Promise.all([json("v1/cluster"), json(`v1/jobs?ended=true&limit=${MOST_JOBS}`)]);
  }
}
