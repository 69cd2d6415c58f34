// @ts-check
// Nodes, and who was on them: a lane for each node, a bar for each run, as high as the GPUs that it holds.

import { timeTicks } from "./charts.js";
import { clock, count, duration, h, hideTip, keyed, s, say, set, showTip } from "./dom.js";

const MOST_LANES = 64;
const MOST_BARS = 1500;
const LEAST_WIDTH = 0.7;
const LANE = 26;
const BETWEEN = 3;
const HEAD = 26;
const LETTER = 5.8;

/** Rows of a node's GPUs that lie together: of 0, 1 and 3 the rows from 0 on, 2 of them, and from 3 on, 1.
 * @param {number[]} devices
 * @returns {[number, number][]} */
function rows(devices) {
  /** @type {[number, number][]} */
  const found = [];
  for (const device of [...devices].sort((a, b) => a - b)) {
    const last = found.at(-1);
    if (last && last[0] + last[1] === device) last[1]++;
    else found.push([device, 1]);
  }
  return found;
}

/** @typedef {{key: string, run: any, node: number, gpus: number, lane: any, x: number, y: number,
 *   width: number, height: number}} Bar */

export class Timeline {
  /** @param {HTMLElement} home
   * @param {(job: string) => void} open
   * @param {(type: string, node: number, back: boolean) => void} drain
   * @param {() => void} again draws it with what is known */
  constructor(home, open, drain, again) {
    this.open = open;
    this.drain = drain;
    this.again = again;
    this.lanesShown = MOST_LANES;
    this.axis = s("svg", { class: "axis", height: 20, "aria-hidden": "true" });
    this.labels = h("ul", { class: "lanes", "aria-label": "Nodes" });
    this.svg = s("svg", { class: "bars", role: "group", "aria-label": "Runs on nodes over time" });
    this.back = s("g");
    this.hatched = s("g");
    this.front = s("g");
    this.texts = s("g", { class: "names", "aria-hidden": "true" });
    this.svg.append(s("defs", {}, hatch()), this.back, this.hatched, this.front, this.texts);
    this.plot = h("div", { class: "plot" }, this.svg);
    this.grow = h("button", { class: "grow" });
    this.grow.addEventListener("click", () => {
      this.lanesShown += MOST_LANES;
      again();
    });
    home.append(h("div", { class: "corner" }), this.axis, this.labels, this.plot, this.grow);
    /** @type {Map<Element, Bar>} */
    this.bars = new Map();
    /** @type {string | null} the bar that Tab comes to */
    this.stop = null;
    for (const kind of ["pointerover", "focusin"]) this.svg.addEventListener(kind, (/** @type {any} */ e) => this.enter(e));
    for (const kind of ["pointerout", "focusout"]) this.svg.addEventListener(kind, () => hideTip());
    this.svg.addEventListener("click", (/** @type {MouseEvent} */ event) => this.choose(event.target));
    this.svg.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => this.key(event));
    new ResizeObserver(again).observe(this.plot);
  }

  /** @param {import("./service.js").Store} store
   * @param {number} from
   * @param {number} to
   * @returns {string} what is not drawn */
  draw(store, from, to) {
    const lanes = this.layOut(store.cluster, store);
    const shown = lanes.filter((lane) => lane.node);
    const height = lanes.length ? lanes[lanes.length - 1].bottom : 0;
    const width = this.plot.clientWidth;
    if (!width) return "";
    this.epoch = (/** @type {number} */ time) => store.epoch(time);
    this.now = store.now;
    this.x = (/** @type {number} */ time) => (width * (time - from)) / (to - from);
    set(this.svg, { width, height, viewBox: `0 0 ${width} ${height}` });
    this.drawLabels(lanes);
    this.drawBack(shown, width, height, store, from, to);
    this.drawOutages(store, shown, from);
    const { bars, short, more } = this.collect(store, shown, from);
    this.drawBars(bars, store);
    const nodes = store.cluster.nodes.length - shown.length;
    say(this.grow, `Show ${count(Math.min(nodes, MOST_LANES))} more of ${count(nodes)} more nodes`);
    this.grow.hidden = nodes <= 0;
    const said = [];
    if (short) said.push(`${count(short)} too short to see`);
    if (more) said.push(`${count(more)} older ones not drawn`);
    return said.length ? `runs: ${said.join(", ")}` : "";
  }

  /** Heads of GPU types, and lanes of nodes, from the top down.
   * @param {any} cluster
   * @param {import("./service.js").Store} store */
  layOut(cluster, store) {
    const gpus = cluster.nodes.slice(0, this.lanesShown).reduce((/** @type {number} */ sum, /** @type {any} */ one) => sum + one.gpus, 0);
    const row = Math.max(3, Math.min(13, 460 / Math.max(gpus, 1)));
    const lanes = [];
    let y = 0;
    let type = "";
    for (const node of cluster.nodes.slice(0, this.lanesShown)) {
      if (node.type !== type) {
        type = node.type;
        lanes.push({ key: type, type, node: null, top: y, bottom: y + HEAD, text: headOf(type, cluster) });
        y += HEAD;
      }
      const height = Math.max(LANE, Math.round(node.gpus * row));
      lanes.push({ key: `${type} ${node.node}`, type, node, top: y, bottom: y + height, text: node.host });
      y += height + BETWEEN;
    }
    return lanes;
  }

  /** @param {any[]} lanes */
  drawLabels(lanes) {
    keyed(this.labels, lanes, (lane) => lane.key, (lane) => this.makeLabel(lane), (element, lane) => {
      element.style.top = `${lane.top}px`;
      element.style.height = `${lane.bottom - lane.top}px`;
      const [name, badge, button] = element.children;
      say(name, lane.text);
      if (!lane.node) return;
      name.title = lane.node.unusable || `${lane.node.gpus} GPUs`;
      say(badge, lane.node.unusable ? (lane.node.drained ? "drained" : "down") : "");
      badge.title = lane.node.unusable;
      say(button, lane.node.drained ? "undrain" : "drain");
      set(button, { "aria-label": `${lane.node.drained ? "undrain" : "drain"} ${lane.node.host}` });
      button.dataset.back = lane.node.drained ? "yes" : "";
    });
  }

  /** @param {any} lane */
  makeLabel(lane) {
    if (!lane.node) return h("li", { class: "type" }, h("strong"));
    const button = h("button", { class: "quiet" });
    button.addEventListener("click", () => this.drain(lane.type, lane.node.node, button.dataset.back === "yes"));
    return h("li", { class: "node" }, h("span", { class: "name" }), h("span", { class: "badge" }), button);
  }

  /** Lanes, lines of time, and the axis.
   * @param {any[]} lanes
   * @param {number} width
   * @param {number} height
   * @param {import("./service.js").Store} store
   * @param {number} from
   * @param {number} to */
  drawBack(lanes, width, height, store, from, to) {
    const begin = store.epoch(0);
    const ticks = timeTicks(begin + from, begin + to, width / 100).map(({ at, text }) => ({ x: this.x(at - begin), text }));
    const backs = lanes.map((lane) =>
      s("rect", { class: "lane", x: 0, y: lane.top, width, height: lane.bottom - lane.top }),
    );
    const lines = ticks.map(({ x }) => s("line", { class: "tick", x1: x, x2: x, y1: 0, y2: height }));
    this.back.replaceChildren(...backs, ...lines);
    set(this.axis, { width, viewBox: `0 0 ${width} 20` });
    const fits = ticks.filter(({ x, text }) => x > 3 * text.length && x < width - 3 * text.length);
    this.axis.replaceChildren(...fits.map(({ x, text }) => s("text", { x, y: 14, "text-anchor": "middle" }, text)));
  }

  /** When nodes were not in use.
   * @param {import("./service.js").Store} store
   * @param {any[]} lanes
   * @param {number} from */
  drawOutages(store, lanes, from) {
    const found = new Map(lanes.map((lane) => [lane.key, lane]));
    const drawn = [];
    for (const one of store.outages.values()) {
      const lane = found.get(`${one.type} ${one.node}`);
      const end = one.ended ?? store.now;
      if (!lane || end < from) continue;
      const x = Math.max(this.x(one.began), 0);
      const said = `${lane.node.host} not in use: ${one.reason}`;
      drawn.push(
        s("rect", { class: "outage", x, y: lane.top, width: Math.max(this.x(end) - x, 1), height: lane.bottom - lane.top },
          s("title", {}, said)),
      );
    }
    this.hatched.replaceChildren(...drawn);
  }

  /** Bars that can be seen, the last ones if there are too many.
   * @param {import("./service.js").Store} store
   * @param {any[]} lanes
   * @param {number} from */
  collect(store, lanes, from) {
    const found = new Map(lanes.map((lane) => [lane.key, lane]));
    const present = new Set(store.cluster.runs.map((/** @type {any} */ one) => `${one.job} ${one.number}`));
    const past = store.spans.filter((one) => one.ended > from && !present.has(`${one.job} ${one.number}`));
    /** @type {Bar[]} */
    const bars = [];
    let [short, more] = [0, 0];
    for (const run of [...past, ...store.cluster.runs].reverse()) {
      const x = Math.max(this.x(run.began), 0);
      const width = this.x(run.ended ?? store.now) - x;
      if (run.ended !== null && width < LEAST_WIDTH) short++;
      else if (bars.length >= MOST_BARS) more++;
      else bars.push(...barsOf(run, found, x, Math.max(width, 1)));
    }
    return { bars: bars.reverse(), short, more };
  }

  /** @param {Bar[]} bars
   * @param {import("./service.js").Store} store */
  drawBars(bars, store) {
    this.bars.clear();
    if (!bars.some((bar) => bar.key === this.stop)) this.stop = bars.at(-1)?.key ?? null;
    keyed(this.front, bars, (bar) => bar.key, () => s("rect", { role: "button", rx: 2 }), (element, bar) => {
      const how = bar.run.ended === null ? "there" : bar.run.outcome;
      set(element, {
        class: `bar ${store.colourOf(bar.run.job)} ${how}`,
        x: bar.x,
        y: bar.y + 0.5,
        width: bar.width,
        height: bar.height - 1,
        tabindex: bar.key === this.stop ? 0 : -1,
        "aria-label": this.tell(bar).join(", "),
      });
      this.bars.set(element, bar);
    });
    const named = bars.filter((bar) => bar.height >= 12 && bar.width > 5 * LETTER);
    keyed(this.texts, named, (bar) => bar.key, () => s("text", { x: 0, y: 0 }), (element, bar) => {
      const letters = Math.floor((bar.width - 8) / LETTER);
      const name = bar.run.job;
      set(element, { x: bar.x + 5, y: bar.y + bar.height / 2 + 4 });
      say(element, name.length <= letters ? name : `${name.slice(0, letters - 1)}…`);
    });
  }

  /** @param {Bar} bar
   * @returns {string[]} */
  tell(bar) {
    const { run } = bar;
    const gpus = run.nodes.reduce((/** @type {number} */ sum, /** @type {any} */ one) => sum + one[1], 0);
    const over = run.nodes.length > 1 ? ` on ${run.nodes.length} nodes` : "";
    const took = duration((run.ended ?? this.now) - run.began);
    const end = run.ended === null ? "now" : clock(this.epoch(run.ended));
    return [
      run.job,
      `run ${run.number}: ${gpus} × ${run.type}${over}, ${bar.gpus} on ${bar.lane.node.host}`,
      `${clock(this.epoch(run.began))} – ${end}, ${took}`,
      run.ended === null ? "there" : run.outcome,
    ];
  }

  /** @param {PointerEvent | FocusEvent} event */
  enter(event) {
    const bar = this.bars.get(/** @type {Element} */ (event.target));
    if (!bar) return;
    const box = /** @type {Element} */ (event.target).getBoundingClientRect();
    const pointed = "clientX" in event;
    showTip(this.tell(bar), pointed ? event.clientX : box.left, pointed ? event.clientY : box.bottom - 8);
  }

  /** @param {EventTarget | null} target */
  choose(target) {
    const bar = this.bars.get(/** @type {Element} */ (target));
    if (bar) this.open(bar.run.job);
  }

  /** Arrows go to the nearest bar in their direction.
   * @param {KeyboardEvent} event */
  key(event) {
    const here = this.bars.get(/** @type {Element} */ (event.target));
    if (!here) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.choose(event.target);
      return;
    }
    const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!way) return;
    event.preventDefault();
    let [best, least] = [/** @type {any} */ (null), Infinity];
    for (const [element, bar] of this.bars) {
      const dx = bar.x + bar.width / 2 - here.x - here.width / 2;
      const dy = bar.y + bar.height / 2 - here.y - here.height / 2;
      const along = dx * way[0] + dy * way[1];
      const aside = Math.abs(dx * way[1]) + Math.abs(dy * way[0]);
      // A step aside counts more than one ahead: first the same lane, or the same time.
      const far = along + 4 * aside;
      if (along > 0.5 && far < least) [best, least] = [element, far];
    }
    if (!best) return;
    set(/** @type {Element} */ (event.target), { tabindex: -1 });
    set(best, { tabindex: 0 });
    this.stop = /** @type {Bar} */ (this.bars.get(best)).key;
    best.focus();
    best.scrollIntoView({ block: "nearest" });
  }
}

/** Bars of a run: one for each group of GPUs that lie together on a node.
 * @param {any} run
 * @param {Map<string, any>} lanes
 * @param {number} x
 * @param {number} width
 * @returns {Bar[]} */
function barsOf(run, lanes, x, width) {
  return run.nodes.flatMap((/** @type {[number, number]} */ [node, gpus], /** @type {number} */ i) => {
    const lane = lanes.get(`${run.type} ${node}`);
    if (!lane) return [];
    const row = (lane.bottom - lane.top) / lane.node.gpus;
    return rows(run.devices[i]).map(([first, many]) => ({
      key: `${run.job} ${run.number} ${node} ${first}`,
      run, node, gpus, lane, x, width,
      y: lane.top + first * row,
      height: many * row,
    }));
  });
}

/** What is said of a GPU type.
 * @param {string} type
 * @param {any} cluster */
function headOf(type, cluster) {
  const nodes = cluster.nodes.filter((/** @type {any} */ one) => one.type === type);
  return `${type} · ${nodes.length} × ${nodes[0].gpus} GPUs`;
}

function hatch() {
  const line = s("path", { d: "M-1 1l2-2M0 8l8-8M7 9l2-2", class: "hatch" });
  return s("pattern", { id: "hatch", width: 8, height: 8, patternUnits: "userSpaceOnUse" }, line);
}
