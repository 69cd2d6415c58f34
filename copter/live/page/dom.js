// @ts-check
// Elements and figures. Texts of the service become text, never markup, because jobs, logs and reasons come
// from users.

/** Return the element of the page's own HTML that has an id.
 * @param {string} id
 * @returns {any} */
export function at(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no #${id}`);
  return found;
}

/** Return a new HTML element.
 * @param {string} tag
 * @param {Record<string, any>} [attributes]
 * @param {(Node | string)[]} children
 * @returns {any} */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  set(element, attributes);
  element.append(...children);
  return element;
}

/** Set the attributes of an element that differ.
 * @param {Element} element
 * @param {Record<string, any>} attributes */
export function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    const text = typeof value === "number" && !Number.isInteger(value) ? value.toFixed(2) : String(value);
    if (element.getAttribute(name) !== text) element.setAttribute(name, text);
  }
}

/** Set the text of an element if it differs.
 * @param {Element} element
 * @param {string} text */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** @type {WeakMap<Element, Map<string, any>>} */
const known = new WeakMap();

/** Make the children of an element match a list. The elements of known items are kept, so that focus,
 * selection and scroll positions remain.
 * @template T
 * @param {Element} parent
 * @param {T[]} items
 * @param {(item: T) => string} key
 * @param {(item: T) => any} make
 * @param {(element: any, item: T) => void} update */
export function keyed(parent, items, key, make, update) {
  const before = known.get(parent) ?? new Map();
  const keys = items.map(key);
  const there = new Set(keys);
  for (const [name, element] of before) if (!there.has(name)) element.remove();
  const after = new Map();
  let place = parent.firstChild;
  items.forEach((item, i) => {
    const element = before.get(keys[i]) ?? make(item);
    update(element, item);
    after.set(keys[i], element);
    if (element === place) place = place.nextSibling;
    else parent.insertBefore(element, place);
  });
  known.set(parent, after);
}

// ---- figures -------------------------------------------------------------------------------------

const three = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

/** Format a number with three digits.
 * @param {number | null | undefined} value */
export function number(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-3 || size >= 1e6) ? value.toExponential(1) : three.format(value);
}

/** Format a whole number.
 * @param {number | null | undefined} value */
export function count(value) {
  return value === null || value === undefined ? "–" : value.toLocaleString("en");
}

/** Format a duration.
 * @param {number | null | undefined} seconds */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const pad = (/** @type {number} */ part) => String(part).padStart(2, "0");
  if (seconds < 0.9995) return `${number(seconds * 1000)} ms`;
  if (seconds < 99.95) return `${number(seconds)} s`;
  const whole = Math.round(seconds);
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
  if (hours >= 24) return `${Math.floor(hours / 24)} d ${hours % 24} h`;
  return hours ? `${hours} h ${pad(minutes)} min` : `${minutes} min ${pad(whole % 60)} s`;
}

/** Format seconds since the epoch as the time of day, with the date unless it is today.
 * @param {number} seconds */
export function clock(seconds) {
  const then = new Date(seconds * 1000);
  const text = [then.getHours(), then.getMinutes(), then.getSeconds()]
    .map((part) => String(part).padStart(2, "0"))
    .join(":");
  const today = then.toDateString() === new Date().toDateString();
  return today ? text : `${then.toLocaleDateString("en", { day: "numeric", month: "short" })} ${text}`;
}

/** Format a share in percent.
 * @param {number | null} share */
export function percent(share) {
  return share === null ? "–" : `${Math.floor(share * 100 + 1e-9)} %`;
}
