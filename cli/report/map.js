// Draws the addresses at one moment, in rows: the memory that each place has of the device, with
// the blocks in it. A long stretch goes over several rows. Blocks that have handles instead of
// addresses (arrays, physical memory) are only counted.
"use strict";

const ROW = {height: 16, gap: 5};
const WANTED_ROWS = 16;
const MOST_ROWS = 150;

class AddressMap {
  constructor(place, view) {
    this.place = place;
    this.view = view;
    this.canvas = place.querySelector("canvas");
    const {blocks} = view.recording;
    this.live = new Uint32Array(blocks.count);
    this.orderPlaces(view.recording);
    this.orderBlocks(blocks);
  }

  // rank[place]: the place's position when places are sorted by device, then by number. Sorts regions
  // by the rank of their place, then by address.
  orderPlaces({report, regions}) {
    const order = report.places.map((_, n) => n)
      .sort((a, b) => report.places[a].device - report.places[b].device || a - b);
    this.placesInOrder = order;
    this.rank = new Uint32Array(order.length);
    order.forEach((place, n) => (this.rank[place] = n));
    this.regions = [...regions].sort((a, b) => this.rank[a.place] - this.rank[b.place] || a.address - b.address);
  }

  // slotOf[block]: a number that orders blocks by place, then by address. Blocks at the same address
  // of a place share a slot; only one of them lives at a time.
  orderBlocks(blocks) {
    const ofPlace = this.view.recording.report.places.map(() => []);
    for (let b = 0; b < blocks.count; ++b) ofPlace[blocks.place[b]].push(b);
    this.slotOf = new Uint32Array(blocks.count);
    let first = 0;
    for (const place of this.placesInOrder) {
      const list = ofPlace[place];
      const addresses = Float64Array.from(list, (b) => blocks.address[b]).sort();
      let distinct = 0;
      for (let n = 0; n < addresses.length; ++n) {
        if (n === 0 || addresses[n] !== addresses[n - 1]) addresses[distinct++] = addresses[n];
      }
      for (const b of list) this.slotOf[b] = first + lowerBound(addresses, distinct, blocks.address[b]);
      first += distinct;
    }
    this.blockOf = new Uint32Array(first);
  }

  resize() {
    this.width = Math.max(100, this.place.clientWidth - MARGIN.left - MARGIN.right);
    this.refresh();
  }

  // Called when another part of the recording is shown, or in another size: all is drawn anew.
  refresh() {
    this.fitted = null;
    this.lookedAt = "";
    this.shown = "";
  }

  // The stretches at a moment, each with its blocks in order, and what is free in them.
  look(event) {
    const {view, live, slotOf, blockOf} = this;
    const {blocks, report} = view.recording;
    const {length} = view.moments.liveAt(event, live);
    const slots = new Uint32Array(length);
    let handles = 0;
    let handleBytes = 0;
    let kept = 0;
    for (let n = 0; n < length; ++n) {
      const block = live[n];
      const {memory} = report.places[blocks.place[block]];
      if (memory === "mapped" || memory === "array") {
        ++handles;
        handleBytes += blocks.held[block];
        continue;
      }
      slots[kept++] = slotOf[block];
      blockOf[slotOf[block]] = block;
    }
    const sorted = slots.subarray(0, kept).sort();
    for (let n = 0; n < kept; ++n) sorted[n] = blockOf[sorted[n]];
    const stretches = this.stretchesAt(event);
    this.placeBlocks(stretches, sorted);
    return {stretches, handles, handleBytes, blocks: length, ...freeIn(stretches, blocks)};
  }

  // The stretches at a moment. Regions that touch are one stretch, except where one of them is
  // `apart`: no block begins in it and ends beyond it (cli/report/history.h).
  stretchesAt(event) {
    const {view} = this;
    const {places} = view.recording.report;
    const stretches = [];
    for (const region of this.regions) {
      const {memory} = places[region.place];
      const shown = view.moments.inScope[region.place] && memory !== "mapped" && memory !== "array";
      if (!shown || region.begin > event || region.end <= event) continue;
      const before = stretches[stretches.length - 1];
      const joins = before !== undefined && !before.apart && !region.apart;
      if (joins && before.place === region.place && before.end >= region.address) {
        before.end = Math.max(before.end, region.address + region.bytes);
        continue;
      }
      stretches.push({place: region.place, address: region.address, low: region.low, high: region.high,
                      end: region.address + region.bytes, seenOnly: region.seenOnly, apart: region.apart});
    }
    return stretches;
  }

  // Gives each stretch its blocks; both lists are sorted by place and address. A block outside of
  // all stretches is not drawn.
  placeBlocks(stretches, sorted) {
    const {rank} = this;
    const {blocks} = this.view.recording;
    let next = 0;
    for (const stretch of stretches) {
      const isBefore = (b) => rank[blocks.place[b]] < rank[stretch.place] ||
        (blocks.place[b] === stretch.place && blocks.address[b] < stretch.address);
      while (next < sorted.length && isBefore(sorted[next])) ++next;
      const first = next;
      while (next < sorted.length && blocks.place[sorted[next]] === stretch.place &&
             blocks.address[sorted[next]] < stretch.end) ++next;
      stretch.blocks = sorted.subarray(first, next);
    }
  }

  // How many bytes one pixel stands for: mostly the same at all moments, so that a block which
  // lives on stays where it is.
  bytesPerPixel(stretches) {
    const key = `${this.width} ${this.view.moments.peakEvent} ${this.view.moments.mostTaken}`;
    const here = stretches.reduce((sum, stretch) => sum + stretch.end - stretch.address, 0);
    const most = Math.max(here, this.view.moments.mostTaken);
    if (this.fitted === null || this.fitted.key !== key || here > this.fitted.most) {
      this.fitted = {key, most, bytes: Math.max(1, most / (this.width * (WANTED_ROWS - 2)))};
    }
    return this.fitted.bytes;
  }

  // Pieces of rows: {row, x, length, stretch, from} in pixels and addresses.
  layOut(stretches, perPixel) {
    const pieces = [];
    let row = 0;
    let x = 0;
    for (const stretch of stretches) {
      let left = Math.max(2, Math.round((stretch.end - stretch.address) / perPixel));
      const newPlace = pieces.length > 0 && pieces[pieces.length - 1].stretch.place !== stretch.place;
      if (x > 0 && (newPlace || left > this.width - x)) {
        ++row;
        x = 0;
      }
      let from = stretch.address;
      while (left > 0 && row < MOST_ROWS) {
        const length = Math.min(left, this.width - x);
        pieces.push({row, x, length, stretch, from});
        from += length * perPixel;
        left -= length;
        x += length + 3;
        if (left > 0 || x >= this.width - 3) {
          ++row;
          x = 0;
        }
      }
    }
    return pieces;
  }

  // Draws if anything that the map shows has changed. Returns what look() has found.
  draw(inks, grouping) {
    const {view} = this;
    const at = [view.event, grouping.key, view.moments.peakEvent, view.moments.mostTaken].join(" ");
    if (at !== this.lookedAt) this.seen = this.look(view.event);
    this.lookedAt = at;
    const shown = [at, view.marked, view.chosen, view.hovered, inks.surface, this.width].join(" ");
    if (shown !== this.shown) this.drawLook(this.seen, inks, grouping);
    this.shown = shown;
    return this.seen;
  }

  drawLook(look, inks, grouping) {
    const perPixel = this.bytesPerPixel(look.stretches);
    this.pieces = this.layOut(look.stretches, perPixel);
    this.perPixel = perPixel;
    const rows = this.pieces.length === 0 ? 1 : this.pieces[this.pieces.length - 1].row + 1;
    const height = rows * (ROW.height + ROW.gap) + ROW.gap;
    // The map never becomes lower: else all below it on the page would move when the moment does.
    this.tallest = Math.max(height, this.tallest || 0);
    this.place.style.height = `${this.tallest}px`;
    const ratio = fitCanvas(this.canvas, this.place.clientWidth, height);
    const context = this.canvas.getContext("2d");
    context.scale(ratio, ratio);
    for (const piece of this.pieces) {
      this.drawPiece(context, piece, inks, grouping);
      this.drawSizes(context, piece, inks);
    }
    this.drawNames(context, inks);
  }

  topOf(piece) {
    return ROW.gap + piece.row * (ROW.height + ROW.gap);
  }

  drawNames(context, inks) {
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "right";
    context.textBaseline = "middle";
    let before = -1;
    for (const piece of this.pieces) {
      if (piece.stretch.place === before) continue;
      before = piece.stretch.place;
      const {name} = this.view.recording.report.places[before];
      const room = 17;  // letters; of a longer name the end is kept, which tells more
      context.fillStyle = inks.quiet;
      context.fillText(plain(name.length > room ? `\u2026${name.slice(1 - room)}` : name), MARGIN.left - 6, this.topOf(piece) + ROW.height / 2);
    }
  }

  // Finds for each pixel how much of it blocks cover, and the block that covers most of it.
  drawPiece(context, piece, inks, grouping) {
    const {view, perPixel} = this;
    const {blocks} = view.recording;
    const {length, stretch} = piece;
    const cover = new Float32Array(length);
    const owner = new Int32Array(length).fill(-1);
    const best = new Float32Array(length);
    const to = piece.from + length * perPixel;
    let n = firstEndingAfter(stretch.blocks, blocks, piece.from);
    for (; n < stretch.blocks.length; ++n) {
      const block = stretch.blocks[n];
      const start = (blocks.address[block] - piece.from) / perPixel;
      if (blocks.address[block] >= to) break;
      const end = Math.min(length, start + blocks.held[block] / perPixel);
      for (let x = Math.max(0, Math.floor(start)); x < end; ++x) {
        const part = Math.min(end, x + 1) - Math.max(start, x);
        cover[x] += part;
        if (part > best[x]) {
          best[x] = part;
          owner[x] = block;
        }
      }
    }
    this.putPiece(context, piece, {cover, owner, best}, inks, grouping);
  }

  putPiece(context, piece, {cover, owner, best}, inks, grouping) {
    const {view} = this;
    const {freed} = view.recording.blocks;
    const image = context.createImageData(piece.length, ROW.height);
    const pixels = new Uint32Array(image.data.buffer);
    const groupedShades = (x) => {
      const block = owner[x];
      if (block < 0 || cover[x] < 0.05) return null;
      const waits = freed[block] <= view.event;
      if (best[x] < 0.5) return {base: inks.small[0], mark: inks.small[1], pattern: waits ? WAITING : SMALL};
      const group = grouping.of[block];
      const shade = inks.shadeOf(group, block, view.marked >= 0 && view.marked !== group);
      const lit = block === view.chosen || block === view.hovered;
      const begins = x === 0 || owner[x - 1] !== block;
      if (lit || (begins && cover[x] > 0.9)) return {base: shade.edge, mark: shade.edge, pattern: WAITING};
      return {base: shade.base, mark: waits ? inks.ground : shade.mark,
              pattern: waits ? WAITING : inks.patternOf(group)};
    };
    const first = piece.from === piece.stretch.address;
    const last = piece.from + (piece.length + 1) * this.perPixel >= piece.stretch.end;
    const line = colourNumber(mixed(inks.background, [128, 128, 128], 0.8));
    for (let x = 0; x < piece.length; ++x) {
      const shade = groupedShades(x);
      for (let y = 0; y < ROW.height; ++y) {
        const at = y * piece.length + x;
        const border = y === 0 || y === ROW.height - 1 || (x === 0 && first) || (x === piece.length - 1 && last);
        if (border) pixels[at] = line;
        else if (shade === null) pixels[at] = inks.ground;
        else pixels[at] = (shade.pattern[y & 7] >> (x & 7)) & 1 ? shade.mark : shade.base;
      }
    }
    this.putScaled(context, image, MARGIN.left + piece.x, this.topOf(piece));
  }

  // Writes its size into each block and each gap that is wide enough for the text.
  drawSizes(context, piece, inks) {
    const {blocks} = this.view.recording;
    const {perPixel} = this;
    context.font = "10px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "middle";
    const to = piece.from + piece.length * perPixel;
    const write = (from, end, bytes, word) => {
      const left = Math.max(from, piece.from);
      const right = Math.min(end, to);
      if ((right - left) / perPixel < 90) return;
      const text = `${bytesText(bytes)}${word}`;
      const x = MARGIN.left + piece.x + ((left + right) / 2 - piece.from) / perPixel;
      const y = this.topOf(piece) + ROW.height / 2;
      const width = context.measureText(text).width + 6;
      context.fillStyle = inks.surface;
      context.globalAlpha = 0.72;
      context.fillRect(x - width / 2, y - 6, width, 12);
      context.globalAlpha = 1;
      context.fillStyle = inks.text;
      context.fillText(text, x, y + 0.5);
    };
    const {stretch} = piece;
    let n = firstEndingAfter(stretch.blocks, blocks, piece.from);
    for (; n <= stretch.blocks.length; ++n) {
      const [from, end] = gapBefore(stretch, blocks, n);
      if (end > from && !stretch.seenOnly) write(from, end, end - from, " free");
      const block = stretch.blocks[n];
      if (end >= to || block === undefined) break;
      const waits = blocks.freed[block] <= this.view.event ? " waits" : "";
      write(end, end + blocks.held[block], blocks.held[block], waits);
    }
  }

  // Draws an image in the context's scale, which putImageData() would ignore.
  putScaled(context, image, x, y) {
    this.sheet = this.sheet || document.createElement("canvas");
    this.sheet.width = image.width;
    this.sheet.height = image.height;
    this.sheet.getContext("2d").putImageData(image, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(this.sheet, x, y);
  }

  // What is at a point: {stretch, address, block} or {stretch, address, gap: [from, to]}; null if
  // nothing.
  at(x, y) {
    const row = Math.floor((y - ROW.gap / 2) / (ROW.height + ROW.gap));
    const across = x - MARGIN.left;
    const piece = this.pieces.find((one) => one.row === row && across >= one.x && across < one.x + one.length);
    if (piece === undefined) return null;
    const {blocks} = this.view.recording;
    const address = piece.from + (across - piece.x + 0.5) * this.perPixel;
    const {stretch} = piece;
    const n = firstEndingAfter(stretch.blocks, blocks, address);
    const block = stretch.blocks[n];
    if (block !== undefined && blocks.address[block] <= address) return {stretch, address, block};
    return {stretch, address, gap: gapBefore(stretch, blocks, n)};
  }
}

function lowerBound(sorted, count, value) {
  let low = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

// The first block of a list in the order of addresses that ends after that address.
function firstEndingAfter(list, blocks, address) {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (blocks.address[list[middle]] + blocks.held[list[middle]] <= address) low = middle + 1;
    else high = middle;
  }
  return low;
}

// The addresses [from, to] of the gap before the nth block of a stretch, or after its last block.
function gapBefore(stretch, blocks, n) {
  const before = stretch.blocks[n - 1];
  const after = stretch.blocks[n];
  return [before === undefined ? stretch.address : blocks.address[before] + blocks.held[before],
          after === undefined ? stretch.end : blocks.address[after]];
}

// What is free between the blocks of stretches, but for those that are known only by their blocks.
// Blocks may overlap in a faulty recording.
function freeIn(stretches, {address, held}) {
  let freeBytes = 0;
  let pieces = 0;
  let largest = 0;
  for (const stretch of stretches) {
    if (stretch.seenOnly) continue;
    let free = stretch.address;
    for (let n = 0; n <= stretch.blocks.length; ++n) {
      const block = stretch.blocks[n];
      const to = block === undefined ? stretch.end : address[block];
      if (to > free) {
        freeBytes += to - free;
        ++pieces;
        largest = Math.max(largest, to - free);
      }
      if (block !== undefined) free = Math.max(free, to + held[block]);
    }
  }
  return {freeBytes, pieces, largest};
}
