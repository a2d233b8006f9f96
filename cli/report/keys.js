// Does what the pointer and the keys ask for.
"use strict";

const KEYS = [
  ["\u2190 \u2192", "one event back, forward (with Shift: a twentieth of what is shown)"],
  ["\u2191 \u2193", "choose the block above, below at this moment (in the timeline)"],
  ["+ \u2212", "zoom in, out around the moment"],
  ["[ ]", "move what is shown"],
  ["Page up, down", "zoom bytes in, out (in the timeline)"],
  ["0", "the whole recording"],
  ["P", "go to the peak"],
  ["O", "go to the next out-of-memory moment"],
  ["Home, End", "first and last event (in the timeline, on the slider)"],
  ["T", "light or dark"],
  ["Esc", "choose and mark nothing"],
  ["?", "this list"],
  ["wheel", "zoom; with Shift: move; with Alt: zoom bytes"],
  ["drag", "move; with Shift: zoom to what is drawn over"],
  ["click", "go to that moment and choose that block"],
];

function isTyping(target) {
  return target.matches("input[type=number], select, textarea");
}

class Keys {
  constructor(view, timeline, actions) {
    this.view = view;
    this.timeline = timeline;
    this.actions = actions;
    document.addEventListener("keydown", (event) => this.key(event));
    const {place} = timeline;
    place.addEventListener("wheel", (event) => this.wheel(event), {passive: false});
    place.addEventListener("pointerdown", (event) => this.press(event));
    place.addEventListener("pointermove", (event) => this.move(event));
    place.addEventListener("pointerup", (event) => this.release(event));
    place.addEventListener("pointerleave", () => this.hover(null, null));
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    const {view} = this;
    const around = view.positionOf(view.event);
    const inTimeline = this.timeline.place.contains(event.target);
    const onSlider = event.target.matches("input[type=range]");
    const step = event.shiftKey ? Math.max(1, Math.round((view.to - view.from) / 20)) : 1;
    const does = {
      "+": () => view.zoom(0.7, around), "=": () => view.zoom(0.7, around), "-": () => view.zoom(1 / 0.7, around),
      "[": () => view.move(-0.25), "]": () => view.move(0.25), "0": () => this.actions.whole(),
      p: () => this.actions.peak(), o: () => this.actions.failure(), t: () => this.actions.theme(),
      "?": () => this.actions.help(), Escape: () => this.actions.nothing(),
      ArrowLeft: () => this.step(-step), ArrowRight: () => this.step(step),
      ...(inTimeline || onSlider ? {
        Home: () => view.goTo(0), End: () => view.goTo(view.recording.events - 1),
      } : {}),
      ...(inTimeline ? {
        ArrowUp: () => this.chooseNext(1), ArrowDown: () => this.chooseNext(-1),
        PageUp: () => view.zoomBytes(0.7, this.middleOfChosen()),
        PageDown: () => view.zoomBytes(1 / 0.7, this.middleOfChosen()),
      } : {}),
    }[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (does === undefined) return;
    event.preventDefault();
    does();
  }

  // `by`: events; with an axis of time and Shift, nanoseconds.
  step(by) {
    const {view} = this;
    if (view.axis === "time" && Math.abs(by) > 1) {
      view.goTo(Math.max(0, view.eventAt(view.positionOf(view.event) + by)));
    } else {
      view.goTo(view.event + by);
    }
  }

  // Chooses the block above or below the chosen one, as blocks are stacked at this moment.
  chooseNext(by) {
    const {view} = this;
    const list = new Uint32Array(view.recording.blocks.count);
    const {length} = view.moments.liveAt(view.event, list, this.timeline.atLeast);
    const live = list.subarray(0, length);
    const at = live.indexOf(view.chosen);
    const next = at < 0 ? (by > 0 ? 0 : length - 1) : Math.max(0, Math.min(length - 1, at + by));
    if (length > 0) view.choose(live[next]);
  }

  middleOfChosen() {
    const {view} = this;
    const {held} = view.recording.blocks;
    const list = new Uint32Array(view.recording.blocks.count);
    const {length} = view.moments.liveAt(view.event, list, this.timeline.atLeast);
    const live = list.subarray(0, length);
    if (!live.includes(view.chosen)) return (view.low + view.high) / 2;
    let top = view.moments.inUse[view.event];
    for (let n = length - 1; n >= 0 && live[n] !== view.chosen; --n) top -= held[live[n]];
    return top - held[view.chosen] / 2;
  }

  pointIn(event) {
    const box = this.timeline.place.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  wheel(event) {
    event.preventDefault();
    const {view, timeline} = this;
    const [x, y] = this.pointIn(event);
    const amount = event.deltaY || event.deltaX;
    const factor = Math.exp(Math.max(-200, Math.min(200, amount)) * 0.0025);
    if (event.altKey) view.zoomBytes(factor, timeline.bytesAt(y));
    else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) view.move(amount / 1000);
    else view.zoom(factor, timeline.positionAt(x));
  }

  press(event) {
    if (event.button !== 0) return;
    const [x, y] = this.pointIn(event);
    const {view} = this;
    this.grip = {x, y, from: view.from, to: view.to, low: view.low, high: view.high,
                 moved: false, selects: event.shiftKey};
    this.timeline.place.setPointerCapture(event.pointerId);
  }

  move(event) {
    const [x, y] = this.pointIn(event);
    const {grip, view, timeline} = this;
    if (!grip) {
      this.hover(timeline.at(x, y), event);
      return;
    }
    if (Math.abs(x - grip.x) + Math.abs(y - grip.y) > 4) grip.moved = true;
    if (!grip.moved) return;
    if (grip.selects) {
      this.actions.select(grip.x, x);
      return;
    }
    const shift = ((grip.x - x) / (timeline.width / timeline.ratio)) * (grip.to - grip.from);
    const [first, last] = view.extent;
    const allowed = Math.max(first - grip.from, Math.min(last - grip.to, shift));
    view.show(grip.from + allowed, grip.to + allowed);
  }

  release(event) {
    const {grip, view, timeline} = this;
    this.grip = null;
    if (!grip) return;
    const [x, y] = this.pointIn(event);
    if (grip.moved && grip.selects) {
      this.actions.select(null, null);
      const [from, to] = [timeline.positionAt(grip.x), timeline.positionAt(x)].sort((a, b) => a - b);
      view.show(from, to);
    } else if (!grip.moved) {
      const there = timeline.at(x, y);
      if (there === null) return;
      view.chosen = Math.max(-1, there.block);
      view.goTo(there.event);
    }
  }

  hover(there, event) {
    this.actions.hover(there, event);
  }
}
