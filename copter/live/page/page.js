// @ts-check
// The page, which asks the service regularly and shows its answers.

import { at, clock, count, duration, h, keyed, number, say, set } from "./dom.js";
import { Detail, JobTable } from "./jobs.js";
import { NodeTable } from "./nodes.js";
import { Store, Trouble, cancelJob, drainNode, findToken, forgetToken, keepToken, readJob, readLog, readWhy } from "./service.js";

const POLL = 2000;
// Pause after an answer, as a multiple of its time, so that requests take at most a tenth of the time.
const REST = 9;
const LIVE = ["running", "starting", "stopping", "queued"];

const store = new Store();
const nodes = new NodeTable(open, drain);
const table = new JobTable(open, draw);
const detail = new Detail(cancel, () => attempt(refreshDetail));

/** @type {number | null} time at which the service first did not answer, in milliseconds */
let away = null;
let wake = () => {};

// ---- asking --------------------------------------------------------------------------------------

async function main() {
  for (;;) {
    await untilSeen();
    if (!findToken()) {
      knock("");
      await new Promise((resolve) => (wake = () => resolve(undefined)));
      continue;
    }
    const began = performance.now();
    await attempt(refresh);
    await rest(Math.max(POLL, REST * (performance.now() - began)));
  }
}

/** Call a function, and show its error.
 * @param {() => Promise<void>} what */
async function attempt(what) {
  try {
    await what();
  } catch (error) {
    if (error instanceof Trouble && error.status === 401) {
      forgetToken();
      knock(error.message);
    } else if (error instanceof Trouble && error.status === 0) {
      missing(error.message);
    } else if (error instanceof Trouble) {
      problem(`The service refused: ${error.message}`);
    } else {
      console.error(error);
      problem(`This page is broken: ${error}`);
    }
  }
}

async function refresh() {
  await store.refresh();
  away = null;
  at("problem").hidden = true;
  at("door").hidden = true;
  at("all").hidden = false;
  draw();
  await refreshDetail();
}

async function refreshDetail() {
  const name = detail.name;
  if (!name || !store.cluster) return;
  try {
    const [job, log, why] = await Promise.all([readJob(name), readLog(name).catch(logProblem), readWhy(name)]);
    detail.draw(job, log, why, store);
  } catch (error) {
    if (!(error instanceof Trouble) || [0, 401].includes(error.status)) throw error;
    detail.fail(error.message);
  }
}

/** A log may be gone although its job is known.
 * @param {unknown} error */
function logProblem(error) {
  if (error instanceof Trouble && error.status === 404) return error.message;
  throw error;
}

/** @param {number} milliseconds */
function rest(milliseconds) {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(undefined), milliseconds);
    wake = () => {
      clearTimeout(timer);
      resolve(undefined);
    };
  });
}

/** Wait until the page is visible, because a hidden page does not ask the service. */
async function untilSeen() {
  while (document.hidden) {
    await new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));
  }
}

// ---- what goes wrong -----------------------------------------------------------------------------

/** Show the form that asks for the token.
 * @param {string} why */
function knock(why) {
  if (detail.name) detail.dialog.close();
  at("all").hidden = true;
  at("door").hidden = false;
  say(at("door-problem"), why && `${why[0].toUpperCase()}${why.slice(1)}.`);
  at("token").focus();
}

/** @param {string} why */
function problem(why) {
  at("problem").hidden = false;
  at("all").hidden = false;
  say(at("problem"), why);
}

/** @param {string} why */
function missing(why) {
  away ??= Date.now();
  problem(`The service does not answer since ${clock(away / 1000)}: ${why}. It is asked again every ${POLL / 1000} s.`);
  set(at("link"), { class: "link lost" });
  say(at("link"), "away");
}

// ---- doing ---------------------------------------------------------------------------------------

/** @param {string} job */
function open(job) {
  detail.open(job);
}

/** Ask the user to confirm an action.
 * @param {string} question
 * @param {string} yes
 * @param {string} no
 * @returns {Promise<boolean>} */
function sure(question, yes, no) {
  const dialog = at("ask");
  say(at("ask-text"), question);
  say(at("ask-yes"), yes);
  say(at("ask-no"), no);
  dialog.returnValue = "";
  dialog.showModal();
  at("ask-no").focus();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

/** @param {string} job */
async function cancel(job) {
  const question = `Cancel ${job}? Its processes are killed, and it cannot be taken up again.`;
  if (await sure(question, "Cancel the job", "Keep it")) await attempt(() => cancelJob(job));
  wake();
}

/** @param {string} type
 * @param {number} node
 * @param {boolean} back */
async function drain(type, node, back) {
  const question = `Drain node ${node} of ${type}? Its jobs write a checkpoint and go elsewhere; those that cannot wait.`;
  if (back || (await sure(question, "Drain it", "Keep it"))) await attempt(() => drainNode(type, node, back));
  wake();
}

// ---- showing -------------------------------------------------------------------------------------

/** Draw the whole page from the known data. */
function draw() {
  if (!store.cluster || at("all").hidden) return;
  drawHeader();
  drawFigures();
  table.draw(store);
  nodes.draw(store);
  drawNotes();
}

function drawHeader() {
  const { policy, backend, round_seconds: step, silent } = store.cluster;
  const rounds = step === null ? "a round at every event" : `a round every ${number(step)} s`;
  say(at("setup"), `${policy} on ${backend}, ${rounds}`);
  set(at("link"), { class: silent ? "link silent" : "link well" });
  say(at("link"), silent ? "backend silent" : "live");
  at("silent").hidden = !silent;
  say(at("silent"), silent ? `The backend does not answer: ${silent}. Runs go on; nothing is started or stopped.` : "");
  document.title = `copter: ${count(store.cluster.jobs)} jobs`;
}

function drawFigures() {
  const { nodes, given, statuses, over, round } = store.cluster;
  const types = [...new Set(nodes.map((/** @type {any} */ one) => one.type))].map((type) => {
    const there = nodes.filter((/** @type {any} */ one) => one.type === type && !one.unusable);
    return { type, there: sum(there.map((/** @type {any} */ one) => one.gpus)), given: given[type] ?? 0 };
  });
  say(at("gpus-given"), `${count(sum(types.map((one) => one.given)))} of ${count(sum(types.map((one) => one.there)))}`);
  keyed(at("gpus-types"), types, (one) => one.type, makeMeter, (element, one) => {
    set(element.children[1], { max: Math.max(one.there, 1), value: one.given });
    say(element.children[2], `${one.given} of ${one.there}`);
  });
  say(at("jobs-there"), `${count(store.cluster.jobs)} there`);
  const counts = [...LIVE.map((status) => [status, statuses[status] ?? 0]), ...Object.entries(over)];
  keyed(at("jobs-counts"), counts, ([status]) => status, ([status]) => h("span", { class: `status ${status}` }), (element, [status, many]) => {
    say(element, `${count(many)} ${status}`);
    element.classList.toggle("zero", many === 0);
  });
  say(at("round-now"), round ? duration(round.seconds) : "–");
  say(at("round-gap"), round ? `${round.gap === null ? "no certified gap" : `gap ${number(round.gap)}`}; ${count(round.changes)} changed` : "none yet");
}

/** @param {any} one */
function makeMeter(one) {
  return h("span", { class: "meter" }, h("span", {}, one.type), h("progress", { "aria-label": `GPUs of ${one.type} given` }), h("span"));
}

function drawNotes() {
  const shown = [...store.cluster.notes].reverse();
  keyed(at("notes"), shown, (one) => `${one.time} ${one.job} ${one.text}`, makeNote, () => {});
  at("notes-none").hidden = shown.length > 0;
}

/** @param {any} one */
function makeNote(one) {
  const parts = [h("time", {}, clock(store.epoch(one.time)))];
  if (one.job) {
    const button = h("button", { class: "open" }, one.job);
    button.addEventListener("click", () => open(one.job));
    parts.push(button);
  }
  return h("li", {}, ...parts, h("span", { class: "text" }, one.text));
}

/** @param {any[]} numbers
 * @returns {number} */
function sum(numbers) {
  return numbers.reduce((total, one) => total + one, 0);
}

// ---- beginning -----------------------------------------------------------------------------------

at("door").addEventListener("submit", (/** @type {Event} */ event) => {
  event.preventDefault();
  keepToken(at("token").value.trim());
  at("token").value = "";
  wake();
});
at("ask-yes").addEventListener("click", () => at("ask").close("yes"));
at("ask-no").addEventListener("click", () => at("ask").close("no"));
// An address with another token was opened in this tab.
addEventListener("hashchange", () => findToken() && wake());
main();
