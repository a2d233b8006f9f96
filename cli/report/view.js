// The view: which part of the recording is shown, which moment and which block are chosen. After a
// change of it, changed() must be called; all is then drawn once, before the next frame. Also the
// ways to group blocks.
"use strict";

const MEMORY_NAMES = {
  direct: "from the driver", own_pool: "pool of cubfc's own", pool: "pools",
  managed: "managed memory", mapped: "physical (mapped)", array: "arrays",
};

// Whether a drawing over time is useful: not if most of the time is one pause.
function showsTime({has_times: hasTimes, state, duration_ns: duration, longest_pause_ns: pause}) {
  return hasTimes && !state && duration > 0 && pause <= duration / 2;
}

class View {
  constructor(recording, moments, draw) {
    this.recording = recording;
    this.moments = moments;
    this.draw = draw;
    this.axis = showsTime(recording.report.recording) ? "time" : "events";
    this.height = "peak";
    this.event = moments.peakEvent;
    this.chosen = -1;   // a block
    this.hovered = -1;  // a block, under the pointer
    this.marked = -1;   // a group
    this.allFunctions = !recording.hasOutlines;  // whole stacks are shown, not their outlines
    this.sort = "now";  // by which column the table of holders is sorted
    this.requested = false;
    this.showWhole();
  }

  changed() {
    if (this.requested) return;
    this.requested = true;
    requestAnimationFrame(() => {
      this.requested = false;
      this.draw();
    });
  }

  // A position on the axis is an event's number or its time. An event reaches until the next one.
  positionOf(event) {
    return this.axis === "events" ? event : this.recording.times[event];
  }
  eventAt(position) {
    if (this.axis === "time") return this.moments.eventAtTime(position);
    return Math.min(this.recording.events - 1, Math.floor(position));
  }
  get extent() {
    const {times, events} = this.recording;
    if (events === 0) return [0, 1];
    if (this.axis === "events") return [0, events];
    const length = times[events - 1] - times[0];
    return [times[0], times[events - 1] + Math.max(1, length / 100)];
  }

  showWhole() {
    [this.from, this.to] = this.extent;
    this.setHeight(this.height);
  }

  // Shows the positions from `from` to `to`: at most the whole, at least a few events or
  // nanoseconds.
  show(from, to) {
    const [first, last] = this.extent;
    const length = Math.min(last - first, Math.max(to - from, this.axis === "events" ? 4 : 20));
    const start = Math.min(last - length, Math.max(first, from + (to - from - length) / 2));
    this.from = start;
    this.to = start + length;
    if (this.height === "view") this.setHeight("view");
    this.changed();
  }
  zoom(factor, around = (this.from + this.to) / 2) {
    this.show(around - (around - this.from) * factor, around + (this.to - around) * factor);
  }
  move(share) {
    const by = (this.to - this.from) * share;
    const [first, last] = this.extent;
    const allowed = Math.max(first - this.from, Math.min(last - this.to, by));
    this.show(this.from + allowed, this.to + allowed);
  }

  // Sets `low` and `high`, the range of bytes that is drawn. `height`: "peak", "taken" or "view".
  setHeight(height) {
    this.height = height;
    const {moments} = this;
    let most = moments.peak;
    if (height === "taken") most = Math.max(most, moments.mostTaken);
    if (height === "view" && this.recording.events > 0) {
      const first = Math.max(0, this.eventAt(this.from));
      most = moments.inUse[moments.highestIn(first, Math.max(first, this.eventAt(this.to)))];
    }
    this.low = 0;
    this.high = Math.max(1, most * 1.04);
  }
  zoomBytes(factor, around) {
    const most = Math.max(this.moments.peak, this.moments.mostTaken, 1) * 1.04;
    const length = Math.min(most, Math.max(64, (this.high - this.low) * factor));
    const low = around - ((around - this.low) * length) / (this.high - this.low);
    this.low = Math.max(0, Math.min(most - length, low));
    this.high = this.low + length;
    this.changed();
  }

  goTo(event) {
    this.event = Math.max(0, Math.min(this.recording.events - 1, Math.round(event)));
    const at = this.positionOf(this.event);
    if (at < this.from || at >= this.to) {
      const half = (this.to - this.from) / 2;
      this.show(at - half, at + half);
    }
    this.changed();
  }

  // Goes to a moment by its share of the whole, from 0 to 1.
  goToShare(share) {
    const [first, last] = this.extent;
    this.goTo(Math.max(0, this.eventAt(first + share * (last - first))));
  }
  get share() {
    const [first, last] = this.extent;
    return (this.positionOf(this.event) - first) / (last - first);
  }

  get stacks() {
    return this.allFunctions ? this.recording.stacks : this.recording.outlines;
  }

  choose(block) {
    this.chosen = block;
    this.changed();
  }
}

const SHOWN_OF_STACK = 4;  // functions of a stack's outline in its name

// The ways to group blocks.
function groupingsOf(recording) {
  const {blocks, report, threads, frameNames, stacks, outlines, lines} = recording;
  const {places, callers} = report;
  const sizeClass = (b) => Math.floor(Math.log2(Math.max(1, blocks.bytes[b])));
  // For a block without a stack: -1 minus the number of its line.
  const stackOf = (b) => (blocks.stack[b] < 0 ? -1 - lineOf(recording, b) : blocks.stack[b]);
  const stackName = (n) => {
    if (n < 0) return lines[-1 - n];
    const names = outlines[n].map((frame) => frameNames[frame]);
    return names.slice(0, SHOWN_OF_STACK).join(" < ") + (names.length > SHOWN_OF_STACK ? " < \u2026" : "");
  };
  const list = [
    {key: "caller", name: report.recording.callers_are, of: (b) => blocks.caller[b],
     nameOf: (n) => callers[n].caller || "(not known)"},
    {key: "memory", name: "kind of memory", of: (b) => places[blocks.place[b]].memory,
     nameOf: (key) => (key === "arena" ? report.recording.arena_is : MEMORY_NAMES[key])},
    {key: "place", name: "place", of: (b) => blocks.place[b], nameOf: (n) => places[n].name},
    {key: "thread", name: report.recording.threads_are, of: (b) => blocks.thread[b], nameOf: (n) => threads[n]},
    {key: "size", name: "size", of: sizeClass, nameOf: (n) => `from ${bytesText(2 ** n)}`},
  ];
  if (stacks.length > 0) {
    list.push({key: "line", name: "line", of: (b) => lineOf(recording, b), nameOf: (n) => lines[n]});
    list.push({key: "stack", name: "stack", of: stackOf, nameOf: stackName});
  }
  // If callers are lines, the grouping by line says the same: the one by caller is left out.
  return stacks.length > 0 && report.recording.callers_are === "line" ? list.slice(1) : list;
}

// The index of a block's line, in a recording with stacks.
function lineOf({blocks, blocksBefore, lineOfStack, lineWithoutStack, lineWithoutStackBefore}, block) {
  if (blocks.stack[block] >= 0) return lineOfStack[blocks.stack[block]];
  return block < blocksBefore ? lineWithoutStackBefore : lineWithoutStack;
}

// The name that a block has in tables: its line, or its caller.
function callerText(recording, block) {
  const {lines, stacks, report, blocks} = recording;
  return stacks.length > 0 && report.recording.callers_are === "line" ? lines[lineOf(recording, block)]
    : report.callers[blocks.caller[block]].caller || "(not known)";
}

// groups: {name, peakBytes, peakBlocks, endBytes, endBlocks, allBytes, allBlocks}. of[b]: the index
// of the group of block b. Only blocks of the scope are counted; allBytes and allBlocks are without
// blocks from before the recording. The first groups, which have colours of their own, are those
// that held most at the peak or at one of some other moments.
function grouped(recording, moments, grouping) {
  const {blocks} = recording;
  const peak = moments.peakEvent;
  const last = recording.events - 1;
  const numbers = new Map();
  const groups = [];
  const of = new Uint32Array(blocks.count);
  for (let b = 0; b < blocks.count; ++b) {
    const key = grouping.of(b);
    let number = numbers.get(key);
    if (number === undefined) {
      number = groups.length;
      numbers.set(key, number);
      groups.push({name: grouping.nameOf(key), number, peakBytes: 0, peakBlocks: 0, endBytes: 0, endBlocks: 0,
                   allBytes: 0, allBlocks: 0, blocks: 0, mostBytes: 0});
    }
    of[b] = number;
    if (!moments.inScope[blocks.place[b]]) continue;
    const group = groups[number];
    ++group.blocks;
    if (b >= recording.blocksBefore) {
      group.allBytes += blocks.held[b];
      ++group.allBlocks;
    }
    if (blocks.end[b] > last) {
      group.endBytes += blocks.held[b];
      ++group.endBlocks;
    }
    if (blocks.begin[b] <= peak && blocks.end[b] > peak) {
      group.peakBytes += blocks.held[b];
      ++group.peakBlocks;
    }
  }
  findMost(recording, moments, groups, of);
  groups.sort((a, b) => b.mostBytes - a.mostBytes || b.peakBytes - a.peakBytes || b.allBytes - a.allBytes);
  const rank = new Uint32Array(groups.length);
  groups.forEach((group, n) => (rank[group.number] = n));
  for (let b = 0; b < blocks.count; ++b) of[b] = rank[of[b]];
  return {groups, of, key: grouping.key, name: grouping.name, levels: levelsOf(recording, moments, groups, of)};
}

// Finds the most that each group held at any of some moments.
const MOMENTS_LOOKED_AT = 32;
function findMost(recording, moments, groups, of) {
  const {blocks, events} = recording;
  const list = new Uint32Array(blocks.count);
  const looked = new Set(events === 0 ? [] : [moments.peakEvent, events - 1]);
  for (let n = 0; n < MOMENTS_LOOKED_AT; ++n) looked.add(moments.highestIn(...stretchOf(n, events)));
  for (const event of looked) {
    const now = new Float64Array(groups.length);
    const {length} = moments.liveAt(event, list);
    for (let n = 0; n < length; ++n) now[of[list[n]]] += blocks.held[list[n]];
    for (const group of groups) group.mostBytes = Math.max(group.mostBytes, now[group.number]);
  }
}

function stretchOf(n, events) {
  const from = Math.floor((n * events) / MOMENTS_LOOKED_AT);
  return [Math.min(from, Math.max(0, events - 1)), Math.max(from, Math.floor(((n + 1) * events) / MOMENTS_LOOKED_AT) - 1)];
}

// What each group held after each event, as precise as a drawing can show it. All groups after the
// first LEVELS - 1 count as one, as they have one colour.
const LEVELS = 8;
function levelsOf({blocks, events}, moments, groups, of) {
  const levels = [];
  for (let level = 0; level < Math.min(LEVELS, groups.length); ++level) {
    const sums = new Float64Array(events);
    for (let b = 0; b < blocks.count; ++b) {
      if (Math.min(of[b], LEVELS - 1) !== level || !moments.inScope[blocks.place[b]]) continue;
      sums[blocks.begin[b]] += blocks.held[b];
      if (blocks.end[b] !== NEVER) sums[blocks.end[b]] -= blocks.held[b];
    }
    levels.push(Float32Array.from(summed(sums)));
  }
  return levels;
}
