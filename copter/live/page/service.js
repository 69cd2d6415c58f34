// @ts-check
// Requests to the service, and its answers.

const TOKEN = "copter-token";
const MOST_JOBS = 1000;
const PATIENCE = 20_000;
const LOG_BYTES = 16_384;

/** The service rejected a request, or does not answer (status 0). */
export class Trouble extends Error {
  /** @param {number} status
   * @param {string} why */
  constructor(status, why) {
    super(why);
    this.status = status;
  }
}

/** Return the token in the address, or else the stored token. It is removed from the address, because
 * addresses are copied and stored. */
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
 * @param {object} [body] of a POST request
 * @returns {Promise<Response>} */
async function ask(path, method = "GET", body) {
  // A header can contain only these characters, so a token with any other is invalid.
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
    // The page of a proxy is not JSON; its status is sufficient.
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

/** Return sentences about why a job waits or which GPUs it has, without waiting for an estimate of its start.
 * @param {string} name
 * @returns {Promise<{position: number | null, sentences: string[], policy: string[]}>} */
export async function readWhy(name) {
  return json(`v1/jobs/${encodeURIComponent(name)}/why?wait=0`);
}

/** Return the end of the output of a job's last run.
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

/** The known state of the service. Its times are in seconds since it first began; `epoch` converts them to
 * seconds since 1970. */
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

  /** Read the cluster and the jobs from the service. */
  async refresh() {
    [this.cluster, this.jobs] = await Promise.all([json("v1/cluster"), json(`v1/jobs?ended=true&limit=${MOST_JOBS}`)]);
  }
}
