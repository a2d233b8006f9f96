// Writes amounts and times, and puts text into the page: as text, never as HTML, because names and
// texts come from files.
"use strict";

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const NEVER = 0xffffffff;

function bytesText(bytes) {
  let unit = 0;
  let value = bytes;
  while (value >= 1024 && unit + 1 < UNITS.length) {
    value /= 1024;
    ++unit;
  }
  return unit === 0 ? `${bytes} B` : `${value.toFixed(value < 100 ? 2 : 1)} ${UNITS[unit]}`;
}

function countText(count) {
  return String(count).replace(/\B(?=(\d{3})+$)/g, ",");
}

function upper(text) {
  return text[0].toUpperCase() + text.slice(1);
}

// "1 block", "2 blocks"
function counted(count, what) {
  return `${countText(count)} ${what}${count === 1 ? "" : "s"}`;
}

// What is free at a moment of the report.
function freeText({free_bytes: bytes, free_pieces: pieces, largest_free_bytes: largest}) {
  return `${bytesText(bytes)} in ${counted(pieces, "piece")}` + (pieces === 0 ? "" : `, the largest ${bytesText(largest)}`);
}

function exactBytes(bytes) {
  return `${bytesText(bytes)} (${countText(bytes)} bytes)`;
}

function timeText(nanoseconds) {
  const digits = (value) => value.toFixed(value < 100 ? 2 : 1);
  if (nanoseconds < 1e3) return `${nanoseconds} ns`;
  if (nanoseconds < 1e6) return `${digits(nanoseconds / 1e3)} \u00b5s`;
  if (nanoseconds < 1e9) return `${digits(nanoseconds / 1e6)} ms`;
  return `${digits(nanoseconds / 1e9)} s`;
}

// A moment, to a microsecond, so that moments that are close to each other can be told apart.
function clockText(nanoseconds) {
  return nanoseconds < 1e6 ? timeText(nanoseconds) : `${(nanoseconds / 1e9).toFixed(6)} s`;
}

// A time on an axis that ends at `most`, with as many digits as tell two marks apart.
function axisTime(nanoseconds, step, most) {
  const [unit, size] = most < 1e3 ? ["ns", 1] : most < 1e6 ? ["\u00b5s", 1e3] : most < 1e9 ? ["ms", 1e6] : ["s", 1e9];
  const digits = Math.max(0, Math.min(9, Math.ceil(-Math.log10(step / size) - 1e-9)));
  return `${(nanoseconds / size).toFixed(digits)} ${unit}`;
}

function shareText(part, whole) {
  return whole === 0 ? "0.0 %" : `${((100 * part) / whole).toFixed(1)} %`;
}

// Replaces controls and characters that change the direction of text by U+FFFD.
function plain(text) {
  return text.replace(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g, "\ufffd");
}

// Makes "b.py:3 (f) < d.py:5 (g)" of "/a/b.py:3 (f), from /c/d.py:5 (g)", and "libx.so" of
// "/lib/libx.so".
function shortName(name) {
  return name.split(", from ").map((part) => part.split("/").pop()).join(" < ");
}

// Makes "torch/x.py:3 (f)" of "/a/lib/python3.11/site-packages/torch/x.py:3 (f)", for a table. A
// cell of nameCell() shows the whole when the pointer is on it.
function withoutFolders(name) {
  return name.replace(/[^ ]*\/(site-packages|dist-packages|lib\/python3\.\d+)\//g, "");
}
function nameCell(name) {
  return make("span", withoutFolders(name), {title: plain(name)});
}

function byId(id) {
  return document.getElementById(id);
}

// Makes an element: make("td", "text", {className: "number"}); or with a list of elements instead
// of the text.
function make(name, content = "", properties = {}) {
  const element = document.createElement(name);
  if (Array.isArray(content)) {
    element.append(...content);
  } else {
    element.textContent = plain(String(content));
  }
  return Object.assign(element, properties);
}

// A table; a cell is a text or an element. A column with `number: true` is aligned as numbers are.
// The head of a column with a function `sort` is a button that calls it; `sorted` marks the column
// by which the rows are sorted.
function makeTable(columns, rows) {
  const head = make("tr", columns.map((column) => {
    const cell = make("th", column.name, {scope: "col", className: column.number ? "number" : ""});
    if (column.sort === undefined) return cell;
    const button = make("button", column.name + (column.sorted ? " \u25be" : ""), {type: "button", title: "Sort by this"});
    button.addEventListener("click", column.sort);
    cell.replaceChildren(button);
    cell.setAttribute("aria-sort", column.sorted ? "descending" : "none");
    return cell;
  }));
  const body = rows.map((cells) => make("tr", cells.map((cell, n) => {
    const properties = {className: columns[n].number ? "number" : ""};
    return cell instanceof Node ? make("td", [cell], properties) : make("td", cell, properties);
  })));
  return make("table", [make("thead", [head]), make("tbody", body)]);
}

// Elements for a list of [term, text].
function makeFacts(pairs) {
  return pairs.flatMap(([term, text]) => [make("dt", term), make("dd", text)]);
}
