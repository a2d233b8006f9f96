// Unpacks the recording in the page (packed.h, page.cpp) into typed arrays. Events and blocks are
// numbers everywhere.
"use strict";

async function unpacked(base64) {
  const text = atob(base64.trim());
  const bytes = new Uint8Array(text.length);
  for (let n = 0; n < text.length; ++n) bytes[n] = text.charCodeAt(n);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

function readVarints(bytes, count) {
  const numbers = new Float64Array(count);
  let at = 0;
  for (let n = 0; n < count; ++n) {
    let byte = bytes[at++];
    let value = byte & 127;
    for (let scale = 128; byte >= 128; scale *= 128) {
      byte = bytes[at++];
      value += (byte & 127) * scale;
    }
    numbers[n] = value;
  }
  return numbers;
}

function readColumns(buffer, list, from) {
  const columns = {};
  for (const {name, kind, count, bytes} of list) {
    columns[name] = kind === "u32" ? new Uint32Array(buffer, from, count)
                                   : readVarints(new Uint8Array(buffer, from, bytes), count);
    from += bytes;
  }
  return columns;
}

function summed(differences) {
  for (let n = 1; n < differences.length; ++n) differences[n] += differences[n - 1];
  return differences;
}

// Turns a column of differences into events. page.cpp writes 0 for never; for any other event, it
// writes the event minus the event in `before`, plus 1.
function laterThan(before, differences) {
  return Uint32Array.from(differences, (later, n) => (later === 0 ? NEVER : before[n] + later - 1));
}

function addressesOf(low, high) {
  return Float64Array.from(low, (value, n) => high[n] * 4294967296 + value);
}

function blocksOf(columns) {
  const count = columns.begin.length;
  const begin = Uint32Array.from(summed(columns.begin));
  const freed = laterThan(begin, columns.freed);
  const held = columns.bytes.map((bytes, n) => bytes + columns.padding[n]);
  return {
    count, begin, freed, held,
    end: laterThan(freed, columns.end),
    bytes: columns.bytes,
    padding: columns.padding,
    addressLow: columns.addressLow,
    addressHigh: columns.addressHigh,
    address: addressesOf(columns.addressLow, columns.addressHigh),
    place: Uint32Array.from(columns.place),
    thread: Uint16Array.from(columns.thread),
    caller: Uint8Array.from(columns.caller),
    stack: Int32Array.from(columns.stack, (stack) => stack - 1),
  };
}

// The regions, sorted by place and address.
function regionsOf(columns) {
  const address = addressesOf(columns.regionAddressLow, columns.regionAddressHigh);
  const begin = columns.regionBegin;
  const end = laterThan(begin, columns.regionEnd);
  const regions = Array.from(address, (start, n) => ({
    address: start,
    low: columns.regionAddressLow[n],
    high: columns.regionAddressHigh[n],
    bytes: columns.regionBytes[n],
    begin: begin[n],
    end: end[n],
    place: columns.regionPlace[n],
    seenOnly: columns.regionSeenOnly[n] === 1,
    apart: columns.regionApart[n] === 1,
  }));
  return regions.sort((a, b) => a.place - b.place || a.address - b.address);
}

async function readRecording() {
  const element = byId("data");
  const buffer = await unpacked(element.textContent);
  element.remove();
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const columns = readColumns(buffer, header.columns, 4 + length);
  return {
    report: header.report,
    threads: header.threads,
    frames: header.frames,
    frameNames: header.frameNames,
    frameKinds: header.frameKinds,
    stacks: header.stacks,
    outlines: header.outlines.map((outline, n) => outline || header.stacks[n]),
    hasOutlines: header.outlines.some((outline) => outline !== null),
    lines: header.lines,
    lineOfStack: header.lineOfStack,
    lineWithoutStack: header.lineWithoutStack,
    lineWithoutStackBefore: header.lineWithoutStackBefore,
    blocksBefore: header.report.totals.before_blocks,
    notes: header.notes,
    times: summed(columns.time),
    events: columns.time.length,
    blocks: blocksOf(columns),
    regions: regionsOf(columns),
  };
}

function hexAddress(high, low) {
  return `0x${((BigInt(high) << 32n) | BigInt(low)).toString(16)}`;
}
