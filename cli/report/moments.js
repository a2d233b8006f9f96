// What was in use, taken and live after each event, in the whole process or in some of its places
// (the scope). Knows nothing of how it is drawn.
"use strict";

const CHECKPOINT = 16384;  // events between two lists of what was live
const SMALL_STEP = 5;      // log2 of the events in a group whose maximum is known
const BIG_STEP = 10;

class Moments {
  constructor(recording) {
    this.recording = recording;
    this.blocks = recording.blocks;
    this.events = recording.events;
    this.makeCheckpoints();
    this.setScope(() => true);
  }

  // chosen(place): whether the place belongs to the scope.
  setScope(chosen) {
    const {blocks, events} = this;
    const {regions} = this.recording;
    this.inScope = Uint8Array.from(this.recording.report.places, (place) => (chosen(place) ? 1 : 0));
    this.inUse = new Float64Array(events);
    this.waiting = new Float64Array(events);
    this.taken = new Float64Array(events);
    for (let b = 0; b < blocks.count; ++b) {
      if (!this.inScope[blocks.place[b]]) continue;
      const held = blocks.held[b];
      this.inUse[blocks.begin[b]] += held;
      if (blocks.freed[b] !== NEVER) this.waiting[blocks.freed[b]] += held;
      if (blocks.end[b] === NEVER) continue;
      this.inUse[blocks.end[b]] -= held;
      this.waiting[blocks.end[b]] -= held;
    }
    for (const region of regions) {
      if (region.seenOnly || !this.inScope[region.place]) continue;
      this.taken[region.begin] += region.bytes;
      if (region.end !== NEVER) this.taken[region.end] -= region.bytes;
    }
    summed(this.inUse);
    summed(this.waiting);
    summed(this.taken);
    this.groupMaxima();
    this.peakEvent = events === 0 ? 0 : this.highestIn(0, events - 1);
    this.mostTaken = this.taken.reduce((most, bytes) => Math.max(most, bytes), 0);
    this.countByClass();
  }

  get peak() {
    return this.events === 0 ? 0 : this.inUse[this.peakEvent];
  }

  groupMaxima() {
    const groups = (shift) => {
      const best = new Uint32Array(Math.ceil(this.events / 2 ** shift));
      for (let group = 0; group < best.length; ++group) {
        const first = group * 2 ** shift;
        const last = Math.min(this.events, first + 2 ** shift);
        best[group] = first;
        for (let e = first + 1; e < last; ++e) {
          if (this.inUse[e] > this.inUse[best[group]]) best[group] = e;
        }
      }
      return best;
    };
    this.smallGroups = groups(SMALL_STEP);
    this.bigGroups = groups(BIG_STEP);
  }

  // The first event of [from, to] after which the most was in use.
  highestIn(from, to) {
    const {inUse} = this;
    let best = from;
    for (let e = from; e <= to;) {
      let candidate = e;
      if (e % 1024 === 0 && e + 1023 <= to) {
        candidate = this.bigGroups[e >> BIG_STEP];
        e += 1024;
      } else if (e % 32 === 0 && e + 31 <= to) {
        candidate = this.smallGroups[e >> SMALL_STEP];
        e += 32;
      } else {
        ++e;
      }
      if (inUse[candidate] > inUse[best]) best = candidate;
    }
    return best;
  }

  // The blocks that live after every 16,384th event, in the order of their beginning.
  makeCheckpoints() {
    const {begin, end, count} = this.blocks;
    this.checkpoints = [];
    let live = [];
    let next = 0;
    for (let e = 0; e < this.events; e += CHECKPOINT) {
      live = live.filter((b) => end[b] > e);
      for (; next < count && begin[next] <= e; ++next) {
        if (end[next] > e) live.push(next);
      }
      this.checkpoints.push({next, live: Uint32Array.from(live)});
    }
  }

  // Puts into `list`, which must be long enough, all blocks of the scope that live after an event
  // and hold at least so many bytes, in the order of their beginning. Returns how many, and the
  // first block that has not begun then.
  liveAt(event, list, atLeast = 0) {
    const {begin, end, held, place, count} = this.blocks;
    const {inScope} = this;
    const checkpoint = this.checkpoints[Math.floor(event / CHECKPOINT)];
    let length = 0;
    for (const b of checkpoint.live) {
      if (end[b] > event && held[b] >= atLeast && inScope[place[b]]) list[length++] = b;
    }
    let next = checkpoint.next;
    for (; next < count && begin[next] <= event; ++next) {
      if (end[next] > event && held[next] >= atLeast && inScope[place[next]]) list[length++] = next;
    }
    return {length, next};
  }

  // Moves a list that liveAt() has made forward to a later event.
  forward(list, {length, next}, event, atLeast) {
    const {begin, end, held, place, count} = this.blocks;
    const {inScope} = this;
    let kept = 0;
    for (let n = 0; n < length; ++n) {
      if (end[list[n]] > event) list[kept++] = list[n];
    }
    for (; next < count && begin[next] <= event; ++next) {
      if (end[next] > event && held[next] >= atLeast && inScope[place[next]]) list[kept++] = next;
    }
    return {length: kept, next};
  }

  // How many blocks of at least 2^n bytes lived at once, at the checkpoints and at the peak.
  countByClass() {
    const {held, place} = this.blocks;
    const atPeak = new Uint32Array(this.blocks.count);
    this.mostByClass = new Float64Array(56);
    const note = (list, length) => {
      const counts = new Float64Array(56);
      for (let n = 0; n < length; ++n) {
        if (this.inScope[place[list[n]]]) ++counts[Math.floor(Math.log2(Math.max(1, held[list[n]])))];
      }
      for (let size = 54; size >= 0; --size) counts[size] += counts[size + 1];
      counts.forEach((count, n) => (this.mostByClass[n] = Math.max(this.mostByClass[n], count)));
    };
    for (const {live} of this.checkpoints) note(live, live.length);
    if (this.events > 0) note(atPeak, this.liveAt(this.peakEvent, atPeak).length);
  }

  // The least power of two for which at most about `most` blocks of that size or larger live at
  // once; 0 if never more than `most` blocks of any size live at once.
  sizeForCount(most) {
    const size = this.mostByClass.findIndex((count) => count <= most);
    return size <= 0 ? 0 : 2 ** size;
  }

  // The last event that is not later than `time`; -1 before the first.
  eventAtTime(time) {
    let low = 0;
    let high = this.events;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.recording.times[middle] <= time) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }
}
