// Draws blocks over time. At each moment they are stacked in the order in which they began, so that
// a block is a band as long as it lives. A column of pixels shows the moment of its time at which
// the most was in use, so that no peak is lost at any zoom. Blocks that are too small for a band of
// their own are one band of their group, at the bottom.
"use strict";

const MARGIN = {left: 100, right: 10, top: 22, bottom: 22};
const MOST_LINES = 24;    // if there are more out-of-memory moments, they are only marks
const MOST_BANDS = 6000;  // in a column, so that a frame stays short
const SMALL_BAND = -2;  // for the small blocks of the first group; -3 for those of the next, ...

const NOTHING = -1;

class Timeline {
  constructor(place, view) {
    this.place = place;
    this.view = view;
    this.canvas = place.querySelector("canvas");
    this.marks = place.querySelector("canvas.over");
    this.live = new Uint32Array(view.recording.blocks.count);
    this.small = new Float64Array(LEVELS);
  }

  // Must be called before the first draw(), and when the place's size has changed.
  resize() {
    const width = this.place.clientWidth;
    const height = this.place.clientHeight;
    this.ratio = fitCanvas(this.canvas, width, height);
    fitCanvas(this.marks, width, height);
    this.width = Math.max(1, Math.round((width - MARGIN.left - MARGIN.right) * this.ratio));
    this.heightPixels = Math.max(1, Math.round((height - MARGIN.top - MARGIN.bottom) * this.ratio));
    this.image = new ImageData(this.width, this.heightPixels);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.blockAt = new Int32Array(this.width * this.heightPixels).fill(NOTHING);
    this.momentAt = new Int32Array(this.width).fill(-1);
  }

  draw(inks, grouping) {
    this.inks = inks;
    this.grouping = grouping;
    this.labels = [];
    this.runs = new Map();
    this.paintColumns();
    const context = this.canvas.getContext("2d");
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.putImageData(this.image, MARGIN.left * this.ratio, MARGIN.top * this.ratio);
    context.save();
    context.scale(this.ratio, this.ratio);
    this.drawTaken(context);
    this.drawLabels(context);
    this.drawAxes(context);
    context.restore();
  }

  paintColumns() {
    const {view, width} = this;
    const {moments} = view;
    const perPixel = (view.high - view.low) / this.heightPixels;
    this.atLeast = Math.max(0.75 * perPixel, moments.sizeForCount(MOST_BANDS));
    this.momentAt.fill(-1);
    const step = (view.to - view.from) / width;
    let state = null;
    let before = -1;
    for (let column = 0; column < width; ++column) {
      const from = view.from + column * step;
      const last = view.recording.events === 0 ? -1 : view.eventAt(from + step * 0.999999);
      if (last < 0) {
        this.paintNothing(column);
        continue;
      }
      const moment = moments.highestIn(Math.max(0, view.eventAt(from)), last);
      this.momentAt[column] = moment;
      if (moment === before) {
        this.repeatColumn(column);
        this.extendRuns(column);
        continue;
      }
      state = state === null ? moments.liveAt(moment, this.live, this.atLeast)
                             : moments.forward(this.live, state, moment, this.atLeast);
      before = moment;
      this.paintColumn(column, moment, state.length);
    }
    for (const [block, run] of this.runs) this.closeRun(block, run);
  }

  paintNothing(column) {
    const {width, pixels, blockAt, inks} = this;
    for (let at = column; at < pixels.length; at += width) {
      pixels[at] = inks.ground;
      blockAt[at] = NOTHING;
    }
  }

  // Paints the bands of the previous column again in this one. Does not copy the pixels, since a
  // pattern has other pixels in each column.
  repeatColumn(column) {
    const {width, heightPixels, pixels, blockAt} = this;
    const moment = this.momentAt[column];
    let bottom = heightPixels;
    while (bottom > 0) {
      let at = (bottom - 1) * width + column - 1;
      const block = blockAt[at];
      let top = bottom - 1;
      for (at -= width; top > 0 && blockAt[at] === block; at -= width) --top;
      if (block === NOTHING) {
        for (let y = top; y < bottom; ++y) {
          pixels[y * width + column] = this.inks.ground;
          blockAt[y * width + column] = NOTHING;
        }
      } else {
        this.paintBand(column, top, bottom, block, moment);
      }
      bottom = top;
    }
  }

  paintColumn(column, moment, length) {
    const {view, live, heightPixels, width} = this;
    const {held} = view.recording.blocks;
    const scale = heightPixels / (view.high - view.low);
    const {of, levels} = this.grouping;
    const small = this.small.fill(0);
    let sum = 0;
    for (let n = 0; n < length; ++n) {
      sum += held[live[n]];
      small[Math.min(of[live[n]], LEVELS - 1)] -= held[live[n]];
    }
    // Paints from the bottom up; rows of pixels are numbered from the top.
    const allSmall = view.moments.inUse[moment] - sum;
    let bytes = 0;
    let bottom = Math.round(heightPixels + view.low * scale);
    let top = bottom;
    for (let level = 0; level < levels.length && allSmall > 0; ++level) {
      const last = level === levels.length - 1;
      bytes = last ? allSmall : Math.min(allSmall, bytes + Math.max(0, small[level] + levels[level][moment]));
      top = Math.round(heightPixels - (bytes - view.low) * scale);
      this.paintIfSeen(column, top, bottom, SMALL_BAND - level, moment);
      bottom = Math.min(bottom, top);
    }
    bytes = allSmall;
    bottom = Math.min(bottom, top);
    for (let n = 0; n < length && bottom > 0; ++n) {
      bytes += held[live[n]];
      top = Math.round(heightPixels - (bytes - view.low) * scale);
      this.paintIfSeen(column, top, bottom, live[n], moment);
      bottom = top;
    }
    for (let y = Math.min(heightPixels, bottom) - 1; y >= 0; --y) {
      this.pixels[y * width + column] = this.inks.ground;
      this.blockAt[y * width + column] = NOTHING;
    }
  }

  paintIfSeen(column, top, bottom, block, moment) {
    const from = Math.max(0, top);
    const to = Math.min(this.heightPixels, bottom);
    if (from >= to) return;
    this.paintBand(column, from, to, block, moment);
    if (to - from >= 13 * this.ratio) this.noteRun(block, column, from, to);
  }

  paintBand(column, top, bottom, block, moment) {
    const {pixels, blockAt, width, inks, view} = this;
    const group = block >= 0 ? this.grouping.of[block] : SMALL_BAND - block;
    const pale = view.marked >= 0 && view.marked !== group;
    const shade = inks.shadeOf(group, block, pale);
    const {base, edge} = shade;
    let {mark} = shade;
    let pattern = block >= 0 ? inks.patternOf(group) : SMALL;
    if (block >= 0 && view.recording.blocks.freed[block] <= moment) {
      mark = inks.ground;
      pattern = WAITING;
    }
    const bit = column & 7;
    for (let y = top, at = top * width + column; y < bottom; ++y, at += width) {
      pixels[at] = (pattern[y & 7] >> bit) & 1 ? mark : base;
      blockAt[at] = block;
    }
    if (bottom - top >= 4) pixels[top * width + column] = edge;
  }

  // A label needs a rectangle that lies in the band at all of its columns.
  noteRun(block, column, top, bottom) {
    const run = this.runs.get(block);
    if (run !== undefined && run.last >= column - 1) {
      const from = Math.max(run.top, top);
      const to = Math.min(run.bottom, bottom);
      if (to - from >= 13 * this.ratio) {
        Object.assign(run, {top: from, bottom: to, last: column});
        return;
      }
    }
    if (run !== undefined) this.closeRun(block, run);
    this.runs.set(block, {first: column, last: column, top, bottom});
  }

  extendRuns(column) {
    for (const run of this.runs.values()) {
      if (run.last === column - 1) run.last = column;
    }
  }

  closeRun(block, run) {
    if (run.last - run.first >= 70 * this.ratio) this.labels.push({block, ...run});
  }

  drawLabels(context) {
    const {ratio, view} = this;
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.textAlign = "left";
    for (const {block, first, last, top, bottom} of this.labels.slice(-400)) {
      const width = (last - first) / ratio - 8;
      const {groups, of} = this.grouping;
      const group = shortName(plain(block >= 0 ? groups[of[block]].name : this.nameOfSmall(block)));
      const inner = group.split(" < ")[0];
      const size = block >= 0 ? bytesText(view.recording.blocks.held[block]) : "";
      const wanted = block >= 0 ? [`${size}  ${group}`, `${size}  ${inner}`, size]
        : [`${group} (small blocks)`, `${inner} (small blocks)`, inner];
      const fits = wanted.filter((text) => context.measureText(text).width <= width);
      if (fits.length === 0) continue;
      const text = fits[0];
      const needed = context.measureText(text).width;
      const x = MARGIN.left + first / ratio + 4;
      const y = MARGIN.top + (top + bottom) / 2 / ratio;
      context.fillStyle = this.inks.surface;
      context.globalAlpha = 0.72;
      context.fillRect(x - 2, y - 6, needed + 4, 12);
      context.globalAlpha = 1;
      context.fillStyle = this.inks.text;
      context.fillText(text, x, y + 0.5);
    }
  }

  nameOfSmall(block) {
    const {groups} = this.grouping;
    const level = SMALL_BAND - block;
    return level === LEVELS - 1 && groups.length > LEVELS ? "others" : groups[level].name;
  }

  // Draws what was taken from the device as a line above the blocks, but not above the drawing's
  // top.
  drawTaken(context) {
    const {view, ratio} = this;
    const {taken} = view.moments;
    if (view.moments.mostTaken === 0) return;
    context.save();
    context.beginPath();
    context.rect(MARGIN.left, MARGIN.top, this.width / ratio, this.heightPixels / ratio);
    context.clip();
    context.beginPath();
    for (let column = 0; column < this.width; ++column) {
      const moment = this.momentAt[column];
      if (moment < 0) continue;
      const y = this.yOf(taken[moment]);
      context.lineTo(MARGIN.left + column / ratio, y);
      context.lineTo(MARGIN.left + (column + 1) / ratio, y);
    }
    context.strokeStyle = this.inks.taken;
    context.setLineDash([6, 3]);
    context.lineWidth = 1.5;
    context.stroke();
    context.restore();
  }

  yOf(bytes) {
    const {view} = this;
    const height = this.heightPixels / this.ratio;
    return MARGIN.top + height - ((bytes - view.low) / (view.high - view.low)) * height;
  }
  xOf(position) {
    const {view} = this;
    return MARGIN.left + ((position - view.from) / (view.to - view.from)) * (this.width / this.ratio);
  }
  // `x` and `y`: pixels of the page, from the place's left and top.
  positionAt(x) {
    const {view} = this;
    return view.from + ((x - MARGIN.left) / (this.width / this.ratio)) * (view.to - view.from);
  }
  bytesAt(y) {
    const {view} = this;
    const height = this.heightPixels / this.ratio;
    return view.low + ((MARGIN.top + height - y) / height) * (view.high - view.low);
  }

  drawAxes(context) {
    const {view, inks} = this;
    const right = MARGIN.left + this.width / this.ratio;
    const bottom = MARGIN.top + this.heightPixels / this.ratio;
    context.font = "11px system-ui, sans-serif";
    context.fillStyle = inks.quiet;
    context.strokeStyle = inks.line;
    context.lineWidth = 1;
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.globalAlpha = 0.5;
    const bytes = roundMarks(view.low, view.high, 6, [1]);
    for (const at of bytes.marks) {
      context.beginPath();
      context.moveTo(MARGIN.left, this.yOf(at));
      context.lineTo(right, this.yOf(at));
      context.stroke();
    }
    context.globalAlpha = 1;
    for (const at of bytes.marks) context.fillText(bytesText(at), MARGIN.left - 6, this.yOf(at));
    context.textBaseline = "top";
    const across = roundMarks(view.from, view.to, 8, [1, 2, 5]);
    for (const at of across.marks) {
      const x = this.xOf(at);
      if (view.axis === "events" && at >= view.recording.events) continue;
      const text = view.axis === "events" ? countText(at) : axisTime(at, across.step, view.to);
      const half = context.measureText(text).width / 2;
      context.textAlign = "center";
      context.fillText(text, Math.min(right - half, Math.max(MARGIN.left + half, x)), bottom + 5);
      context.fillRect(x, bottom, 1, 4);
    }
    this.drawFailures(context, bottom);
  }

  // Marks out-of-memory moments in a row above the blocks, as many as can be told apart. If they
  // are few, each has a line down.
  drawFailures(context, bottom) {
    const {view, ratio} = this;
    const right = MARGIN.left + this.width / ratio;
    const shown = view.recording.report.out_of_memory
      .map((failure) => this.xOf(view.positionOf(failure.event)))
      .filter((x) => x >= MARGIN.left && x <= right);
    context.fillStyle = this.inks.alarm;
    context.textAlign = "center";
    context.textBaseline = "middle";
    let before = -100;
    for (const x of shown) {
      if (x < before + 9) continue;
      before = x;
      context.fillText("\u2716", x, MARGIN.top - 9);
      if (shown.length <= MOST_LINES) context.fillRect(x - 0.5, MARGIN.top, 1, bottom - MARGIN.top);
    }
    if (shown.length === 0) return;
    context.textAlign = "right";
    context.fillText("out of memory", MARGIN.left - 6, MARGIN.top - 9);
  }

  // Draws a line at the moment, and marks the chosen block and the one under the pointer.
  drawMarks() {
    const {view, ratio} = this;
    const context = this.marks.getContext("2d");
    context.clearRect(0, 0, this.marks.width, this.marks.height);
    for (const block of new Set([view.chosen, view.hovered])) {
      if (block >= 0) this.outline(context, block, block === view.chosen);
    }
    context.save();
    context.scale(ratio, ratio);
    const x = this.xOf(view.positionOf(view.event) + (view.axis === "events" ? 0.5 : 0));
    if (x >= MARGIN.left && x <= MARGIN.left + this.width / ratio) {
      context.fillStyle = this.inks.accent;
      context.fillRect(x - 1, MARGIN.top - 4, 2, this.heightPixels / ratio + 8);
    }
    context.restore();
  }

  outline(context, block, strong) {
    const {blockAt, width, heightPixels, ratio} = this;
    const top = new Path2D();
    for (let column = 0; column < width; ++column) {
      for (let y = 0, at = column; y < heightPixels; ++y, at += width) {
        if (blockAt[at] !== block) continue;
        let end = y + 1;
        while (end < heightPixels && blockAt[end * width + column] === block) ++end;
        top.rect(column, y, 1, end - y);
        break;
      }
    }
    context.save();
    context.translate(MARGIN.left * ratio, MARGIN.top * ratio);
    context.fillStyle = this.inks.text;
    context.globalAlpha = strong ? 0.55 : 0.35;
    context.fill(top);
    context.restore();
  }

  // What is at a point of the place: {event, block}; null outside of the drawing.
  at(x, y) {
    const column = Math.floor((x - MARGIN.left) * this.ratio);
    const row = Math.floor((y - MARGIN.top) * this.ratio);
    if (column < 0 || column >= this.width || row < 0 || row >= this.heightPixels) return null;
    if (this.momentAt[column] < 0) return null;
    return {event: this.momentAt[column], block: this.blockAt[row * this.width + column]};
  }
}
