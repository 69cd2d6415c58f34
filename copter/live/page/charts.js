// @ts-check
// Lines over time, in SVG, with a linear or a logarithmic axis.

import { clock, h, hideTip, number, s, set, showTip } from "./dom.js";

const LEFT = 46;
const RIGHT = 10;
const TOP = 6;
const BOTTOM = 18;
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];

/** Round times of day between two times.
 * @param {number} from seconds since 1970
 * @param {number} to
 * @param {number} most
 * @returns {{at: number, text: string}[]} */
export function timeTicks(from, to, most) {
  const step = STEPS.find((one) => (to - from) / one <= most) ?? 86400;
  const zone = -60 * new Date(to * 1000).getTimezoneOffset();
  const ticks = [];
  for (let at = Math.ceil((from + zone) / step) * step - zone; at <= to; at += step) {
    ticks.push({ at, text: clock(at, step >= 60) });
  }
  return ticks;
}

/** Round values from 0 on.
 * @param {number} top
 * @param {number} most */
function linearTicks(top, most) {
  const rough = top / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((one) => one * power >= rough) ?? 10);
  const ticks = [];
  for (let i = 0; i * step <= top * (1 + 1e-9); i++) ticks.push(i * step);
  return ticks;
}

/** @typedef {{points: [number, number | null][], kind: string, name: string}} Line
 *  points: time and value, a gap where that is null */

/** @typedef {Object} Drawn
 * @property {Line[]} lines
 * @property {number} from seconds since 1970
 * @property {number} to
 * @property {boolean} [log]
 * @property {boolean} [dots] single answers, not a course
 * @property {(value: number) => string} [format]
 * @property {string} label for those who do not see it
 * @property {string} none said where there is nothing */

/** The positions of values.
 * @param {number[]} values
 * @param {boolean} log
 * @param {number} height */
function scale(values, log, height) {
  if (!log) {
    const top = Math.max(...values, 1e-9) * 1.08;
    return { ticks: linearTicks(top, 4), at: (/** @type {number} */ value) => TOP + height * (1 - value / top) };
  }
  const positive = values.filter((value) => value > 0);
  const low = Math.floor(Math.log10(positive.length ? Math.min(...positive) : 1e-6));
  const high = Math.max(Math.ceil(Math.log10(positive.length ? Math.max(...positive) : 1e-5)), low + 1);
  const every = Math.ceil((high - low) / 4);
  const ticks = [];
  for (let power = low; power <= high; power += every) ticks.push(10 ** power);
  // A gap of 0 has no logarithm: it stands on the floor.
  const at = (/** @type {number} */ value) =>
    TOP + height * (1 - (value > 0 ? (Math.log10(value) - low) / (high - low) : 0));
  return { ticks, at };
}

/** @param {[number, number | null][]} points
 * @param {(time: number) => number} x
 * @param {(value: number) => number} y */
function path(points, x, y) {
  let text = "";
  let pen = "M";
  for (const [time, value] of points) {
    if (value === null) {
      pen = "M";
      continue;
    }
    text += `${pen}${x(time).toFixed(1)} ${y(value).toFixed(1)}`;
    pen = "L";
  }
  return text;
}

/** Points in a span of time, and the one before it, so that a line comes in from the left.
 * @param {[number, number | null][]} points
 * @param {number} from */
function since(points, from) {
  const first = points.findIndex(([time]) => time >= from);
  return first < 0 ? [] : points.slice(Math.max(first - 1, 0));
}

export class Chart {
  /** @param {HTMLElement} home
   * @param {number} height */
  constructor(home, height) {
    this.home = home;
    this.height = height;
    this.svg = s("svg", { role: "img", tabindex: "0", height });
    this.clip = `clip-${home.id}`;
    this.grid = s("g", { class: "grid" });
    this.marks = s("g", { "clip-path": `url(#${this.clip})` });
    this.cursor = s("line", { class: "cursor", y1: TOP, y2: height - BOTTOM, visibility: "hidden" });
    this.area = s("rect", { x: LEFT, y: 0, height: height - BOTTOM + 1 });
    this.svg.append(s("clipPath", { id: this.clip }, this.area), this.grid, this.marks, this.cursor);
    this.none = h("p", { class: "none" });
    home.append(this.svg, this.none);
    /** @type {Drawn | null} */
    this.drawn = null;
    /** @type {(time: number) => number} */
    this.x = () => 0;
    this.svg.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => this.point(event.clientX));
    this.svg.addEventListener("pointerleave", () => this.leave());
    this.svg.addEventListener("focus", () => this.step(0));
    this.svg.addEventListener("blur", () => this.leave());
    this.svg.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      this.step(step);
    });
    new ResizeObserver(() => this.drawn && this.draw(this.drawn)).observe(home);
  }

  /** @param {Drawn} drawn */
  draw(drawn) {
    this.drawn = drawn;
    const lines = drawn.lines.map((line) => ({ ...line, points: since(line.points, drawn.from) }));
    const values = lines.flatMap((line) => line.points.flatMap(([, value]) => (value === null ? [] : [value])));
    this.none.textContent = drawn.none;
    this.none.hidden = values.length > 0;
    this.svg.toggleAttribute("hidden", !values.length);
    const width = this.home.clientWidth;
    if (!values.length || !width) return;
    const inner = width - LEFT - RIGHT;
    const span = Math.max(drawn.to - drawn.from, 1e-9);
    this.x = (time) => LEFT + (inner * (time - drawn.from)) / span;
    const { ticks, at: y } = scale(values, Boolean(drawn.log), this.height - TOP - BOTTOM);
    set(this.svg, { width, viewBox: `0 0 ${width} ${this.height}`, "aria-label": drawn.label });
    set(this.area, { width: inner + RIGHT });
    this.drawGrid(ticks, y, drawn, width);
    this.marks.replaceChildren(...lines.flatMap((line) => this.marksOf(line, y, Boolean(drawn.dots))));
  }

  /** @param {number[]} ticks
   * @param {(value: number) => number} y
   * @param {Drawn} drawn
   * @param {number} width */
  drawGrid(ticks, y, drawn, width) {
    const format = drawn.format ?? number;
    const rows = ticks.flatMap((value) => [
      s("line", { x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }),
      s("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, format(value)),
    ]);
    const times = timeTicks(drawn.from, drawn.to, width / 95).map(({ at, text }) =>
      s("text", { x: this.x(at), y: this.height - 4, "text-anchor": "middle" }, text),
    );
    const fits = times.filter((one) => Number(one.getAttribute("x")) > LEFT + 14);
    this.grid.replaceChildren(...rows, ...fits.filter((one) => Number(one.getAttribute("x")) < width - 22));
  }

  /** @param {Line} line
   * @param {(value: number) => number} y
   * @param {boolean} dots */
  marksOf(line, y, dots) {
    const there = line.points.filter(([, value]) => value !== null);
    if (!dots && there.length > 1) {
      return [s("path", { class: `line ${line.kind}`, d: path(line.points, this.x, y) })];
    }
    // A path of points with round ends: one element, however many rounds there were.
    const d = there.map(([time, value]) => `M${this.x(time).toFixed(1)} ${y(Number(value)).toFixed(1)}h0`);
    return [s("path", { class: `dots ${line.kind}`, d: d.join("") })];
  }

  /** Times at which there is something to tell. */
  times() {
    const drawn = this.drawn;
    if (!drawn) return [];
    const longest = drawn.lines.reduce((a, b) => (b.points.length > a.points.length ? b : a));
    return longest.points.map(([time]) => time).filter((time) => time >= drawn.from && time <= drawn.to);
  }

  /** @param {number} clientX */
  point(clientX) {
    const x = clientX - this.svg.getBoundingClientRect().left;
    const times = this.times();
    if (!times.length) return;
    this.show(times.reduce((a, b) => (Math.abs(this.x(b) - x) < Math.abs(this.x(a) - x) ? b : a)));
  }

  /** Go on by so many points, with the keyboard; the first time to the last one.
   * @param {number} step */
  step(step) {
    const times = this.times();
    if (!times.length) return;
    const here = times.indexOf(this.shown ?? NaN);
    const next = here < 0 ? times.length - 1 : here + step;
    this.show(times[Math.max(0, Math.min(times.length - 1, next))]);
  }

  /** @param {number} time */
  show(time) {
    const drawn = this.drawn;
    if (!drawn) return;
    this.shown = time;
    const format = drawn.format ?? number;
    const lines = drawn.lines.map((line) => {
      const found = line.points.find(([when]) => when === time);
      return `${line.name} ${found && found[1] !== null ? format(found[1]) : "–"}`;
    });
    const x = this.x(time);
    set(this.cursor, { x1: x, x2: x, visibility: "visible" });
    const box = this.svg.getBoundingClientRect();
    showTip([clock(time), ...lines], box.left + x, box.top + TOP);
  }

  leave() {
    this.shown = undefined;
    set(this.cursor, { visibility: "hidden" });
    hideTip();
  }
}
