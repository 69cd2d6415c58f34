// @ts-check
// The table of nodes: the GPUs of each node, its jobs, and whether it is in use.

import { at, count, h, keyed, say, set } from "./dom.js";
import { isOver } from "./jobs.js";

const MOST_NODES = 200;

export class NodeTable {
  /** @param {(job: string) => void} open
   * @param {(type: string, node: number, back: boolean) => void} drain */
  constructor(open, drain) {
    this.open = open;
    this.drain = drain;
  }

  /** @param {import("./service.js").Store} store */
  draw(store) {
    const { nodes } = store.cluster;
    const shown = nodes.slice(0, MOST_NODES);
    keyed(at("nodes-body"), shown, keyOf, (node) => this.makeRow(node), (row, node) => this.updateRow(row, node, store));
    say(at("nodes-more"), nodes.length > shown.length ? `${count(nodes.length - shown.length)} more nodes are not listed` : "");
  }

  /** @param {any} node */
  makeRow(node) {
    const button = h("button", { class: "quiet" });
    button.addEventListener("click", () => this.drain(node.type, node.node, button.dataset.back === "yes"));
    return h("tr", {}, h("td", { class: "name" }, node.host), h("td", {}, `${node.gpus} × ${node.type}`), h("td"), h("td", { class: "names" }), h("td", {}, button));
  }

  /** @param {any} row
   * @param {any} node
   * @param {import("./service.js").Store} store */
  updateRow(row, node, store) {
    const [, , state, names, last] = row.children;
    set(state, { class: node.unusable ? "bad" : "" });
    say(state, node.drained ? "drained" : node.unusable || "in use");
    const jobs = store.jobs.filter((job) => job.type === node.type && job.nodes.includes(node.node) && !isOver(job));
    keyed(names, jobs, (job) => job.name, (job) => this.makeName(job), () => {});
    const [button] = last.children;
    say(button, node.drained ? "undrain" : "drain");
    set(button, { "aria-label": `${node.drained ? "undrain" : "drain"} ${node.host}` });
    button.dataset.back = node.drained ? "yes" : "";
  }

  /** @param {any} job */
  makeName(job) {
    const button = h("button", { class: "open" }, job.name);
    button.addEventListener("click", () => this.open(job.name));
    return button;
  }
}

/** @param {any} node */
function keyOf(node) {
  return `${node.type} ${node.node}`;
}
