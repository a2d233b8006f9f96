// The functions through which memory was asked for: stacks as a flame graph, with the outermost
// function on top, each as wide as the bytes that were asked for in it. The graph is of the memory
// in use at the moment that is shown, at the peak, or at the end.
"use strict";

const FLAME_ROW = 18;        // pixels
const FLAME_MOST_ROWS = 400;  // deeper functions are shown after a zoom into one above them
const FLAME_LEAST = 1;       // pixels that a function must be wide to be drawn

// All stacks as one tree. Nodes are numbers; a node's number is higher than its parent's. Node 0 is
// the root, which stands for all stacks.
class CallTree {
  constructor(stacks, frames) {
    this.parent = [0];
    this.frame = [-1];
    this.depth = [0];
    this.leafOf = new Uint32Array(stacks.length);
    const known = new Map();  // "parent frame"
    stacks.forEach((stack, n) => {
      let node = 0;
      for (let at = stack.length - 1; at >= 0; --at) {
        const key = node * frames.length + stack[at];
        let child = known.get(key);
        if (child === undefined) {
          child = this.parent.length;
          known.set(key, child);
          this.parent.push(node);
          this.frame.push(stack[at]);
          this.depth.push(this.depth[node] + 1);
        }
        node = child;
      }
      this.leafOf[n] = node;
    });
    this.size = this.parent.length;
    this.children = Array.from({length: this.size}, () => []);
    for (let node = 1; node < this.size; ++node) this.children[this.parent[node]].push(node);
  }

  // bytes[node] and blocks[node] of the first `length` blocks of the list; a node's include those
  // of the functions that it calls.
  heldBy(blocks, list, length) {
    const held = {bytes: new Float64Array(this.size), blocks: new Float64Array(this.size)};
    for (let n = 0; n < length; ++n) {
      const stack = blocks.stack[list[n]];
      if (stack < 0) continue;
      held.bytes[this.leafOf[stack]] += blocks.held[list[n]];
      ++held.blocks[this.leafOf[stack]];
    }
    for (let node = this.size - 1; node > 0; --node) {
      held.bytes[this.parent[node]] += held.bytes[node];
      held.blocks[this.parent[node]] += held.blocks[node];
    }
    return held;
  }
}

class FlameGraph {
  // tip(event, text): shows a text at the pointer.
  constructor(section, view, tip) {
    this.section = section;
    this.view = view;
    this.tip = tip;
    const {recording} = view;
    section.hidden = recording.stacks.length === 0;
    if (section.hidden) return;
    this.place = section.querySelector(".drawing");
    this.canvas = section.querySelector("canvas");
    this.makeTree();
    this.list = new Uint32Array(recording.blocks.count);
    this.drawn = [];
    this.select = section.querySelector("select");
    this.select.addEventListener("change", () => this.view.changed());
    const functions = section.querySelector("#functions");
    functions.value = this.view.allFunctions ? "all" : "outline";
    functions.parentElement.hidden = !recording.hasOutlines;
    functions.addEventListener("change", () => {
      this.view.allFunctions = functions.value === "all";
      this.makeTree();
      this.view.changed();
    });
    this.place.addEventListener("pointermove", (event) => this.hover(event));
    this.place.addEventListener("pointerleave", () => this.tip(null, null));
    this.place.addEventListener("click", (event) => {
      const node = this.at(event);
      if (node !== undefined) this.zoom(node === this.root ? this.tree.parent[node] : node);
    });
    this.place.addEventListener("keydown", (event) => {
      const steps = {ArrowUp: this.tree.parent[this.root], ArrowDown: this.widest(), Escape: 0, Home: 0};
      if (steps[event.key] === undefined) return;
      event.preventDefault();
      event.stopPropagation();
      this.zoom(steps[event.key]);
    });
  }

  makeTree() {
    this.tree = new CallTree(this.view.stacks, this.view.recording.frames);
    this.root = 0;  // the node that is drawn with the whole width
  }

  zoom(node) {
    this.root = node;
    this.view.changed();
  }

  widest() {
    const {bytes} = this.held;
    return this.tree.children[this.root].reduce((best, node) => (best === this.root || bytes[node] > bytes[best] ? node : best),
                                                this.root);
  }

  moment() {
    const last = this.view.recording.events - 1;
    return {shown: this.view.event, peak: this.view.moments.peakEvent, end: last}[this.select.value];
  }

  nameOf(node, texts) {
    return node === 0 ? "all that have a stack" : texts[this.tree.frame[node]];
  }

  wordsOf(node) {
    const {bytes, blocks} = this.held;
    return `${this.nameOf(node, this.view.recording.frames)} \u00b7 ${exactBytes(bytes[node])} in ${counted(blocks[node], "block")} \u00b7 ` +
      shareText(bytes[node], bytes[0]);
  }

  at(event) {
    const box = this.place.getBoundingClientRect();
    const x = event.clientX - box.left;
    const row = Math.floor((event.clientY - box.top) / FLAME_ROW);
    const found = this.drawn.find((one) => one.row === row && x >= one.x && x < one.x + one.width);
    return found === undefined ? undefined : found.node;
  }

  hover(event) {
    const node = this.at(event);
    this.tip(event, node === undefined ? null : this.wordsOf(node));
  }

  // Rows, from the outermost function around the root down to the functions that the root calls.
  layOut(width) {
    const {tree} = this;
    const {bytes} = this.held;
    const around = [];
    for (let node = this.root; node !== 0; node = tree.parent[node]) around.unshift(tree.parent[node]);
    const rows = around.map((node, row) => ({node, row, x: 0, width, around: true}));
    const open = bytes[this.root] > 0 ? [{node: this.root, row: around.length, x: 0, width}] : [];
    this.deeper = 0;  // bytes in rows that are not drawn
    while (open.length > 0) {
      const one = open.pop();
      rows.push(one);
      if (one.row + 1 >= FLAME_MOST_ROWS + around.length) {
        this.deeper += tree.children[one.node].reduce((sum, child) => sum + bytes[child], 0);
        continue;
      }
      let {x} = one;
      const scale = one.width / bytes[one.node];
      for (const child of [...tree.children[one.node]].sort((a, b) => bytes[b] - bytes[a])) {
        const its = bytes[child] * scale;
        if (its < FLAME_LEAST) break;
        open.push({node: child, row: one.row + 1, x, width: its});
        x += its;
      }
    }
    return rows;
  }

  draw(inks) {
    if (this.section.hidden || this.view.recording.events === 0) return;
    const {moments, recording} = this.view;
    const width = this.place.clientWidth;
    const event = this.moment();
    const key = [event, this.root, this.view.allFunctions, width, moments.peakEvent, moments.inScope.join(""), inks.surface].join(" ");
    if (key === this.key) return;
    this.key = key;
    const {length} = moments.liveAt(event, this.list);
    this.held = this.tree.heldBy(recording.blocks, this.list, length);
    this.drawn = this.layOut(width);
    const rows = this.drawn.reduce((most, one) => Math.max(most, one.row + 1), 1);
    const ratio = fitCanvas(this.canvas, width, rows * FLAME_ROW);
    const context = this.canvas.getContext("2d");
    context.scale(ratio, ratio);
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    for (const one of this.drawn) this.drawOne(context, inks, one);
    this.section.querySelector(".status").textContent = this.wordsOf(this.root) +
      (this.deeper > 0 ? ` \u00b7 ${exactBytes(this.deeper)} go on below the last row: choose a function to see them` : "") +
      this.wordsOfOthers(length);
  }

  // Blocks without a stack are not in the drawing; words say how much they hold.
  wordsOfOthers(length) {
    const {blocks} = this.view.recording;
    let bytes = 0;
    for (let n = 0; n < length; ++n) {
      if (blocks.stack[this.list[n]] < 0) bytes += blocks.held[this.list[n]];
    }
    return bytes === 0 ? "" : ` \u00b7 beside it, without a stack: ${exactBytes(bytes)}`;
  }

  drawOne(context, inks, {node, row, x, width, around}) {
    const kind = node === 0 ? "native" : this.view.recording.frameKinds[this.tree.frame[node]];
    const [light] = GROUP_COLOURS[{native: 7, python: 0, thread: 1}[kind]];
    const tone = mixed(light, inks.background, around ? 0.8 : 0.35 + 0.25 * (node % 2));
    context.fillStyle = `rgb(${tone.join(",")})`;
    context.fillRect(x, row * FLAME_ROW, Math.max(1, width - 1), FLAME_ROW - 1);
    if (width < 24) return;
    context.save();
    context.beginPath();
    context.rect(x, row * FLAME_ROW, width - 4, FLAME_ROW);
    context.clip();
    context.fillStyle = inks.text;
    context.fillText(plain(this.nameOf(node, this.view.recording.frameNames)), x + 4, row * FLAME_ROW + FLAME_ROW / 2);
    context.restore();
  }
}
