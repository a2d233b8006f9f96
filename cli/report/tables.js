// The tables: who holds what, the biggest blocks, sizes, lifetimes, places, the program. Page makes
// the tables of the moment anew when the moment changes, after a pause.
"use strict";

const MOST_ROWS_OF_TABLE = 60;
const BIGGEST_SHOWN = 20;

// What each group holds at the view's moment, as {bytes, blocks}; the live blocks are put into
// `list`.
function holdersAt(view, grouping, list) {
  const {held} = view.recording.blocks;
  const {length} = view.moments.liveAt(view.event, list);
  const now = grouping.groups.map(() => ({bytes: 0, blocks: 0}));
  for (let n = 0; n < length; ++n) {
    const group = now[grouping.of[list[n]]];
    group.bytes += held[list[n]];
    ++group.blocks;
  }
  return {now, length};
}

function markButton(view, name, group) {
  const on = view.marked === group;
  const button = make("button", on ? "marked" : "mark", {type: "button", className: on ? "on" : ""});
  button.setAttribute("aria-pressed", String(on));
  button.setAttribute("aria-label", `Mark the blocks of ${plain(name)}`);
  button.addEventListener("click", () => {
    view.marked = on ? -1 : group;
    view.changed();
  });
  return button;
}

function holdersTable(view, inks, grouping, now) {
  const bytesBy = {now: (n) => now[n].bytes, peak: (n) => grouping.groups[n].peakBytes,
                   end: (n) => grouping.groups[n].endBytes, all: (n) => grouping.groups[n].allBytes};
  const sortable = (name, key) => ({name, number: true, sorted: view.sort === key, sort: () => {
    view.sort = key;
    view.changed();
  }});
  const number = (name) => ({name, number: true});
  const columns = [
    {name: ""}, {name: ""}, {name: grouping.name},
    sortable("now", "now"), number("of all"), number("blocks"),
    sortable("at the peak", "peak"), number("of all"), number("blocks"),
    sortable("at the end", "end"), number("of all"), number("blocks"),
    sortable("allocated in all", "all"), number("blocks"),
  ];
  const {moments} = view;
  const inUse = view.recording.events === 0 ? 0 : moments.inUse[view.event];
  const bytesOf = bytesBy[view.sort];
  const order = grouping.groups.map((_, n) => n).filter((n) => grouping.groups[n].blocks > 0)
    .sort((a, b) => bytesOf(b) - bytesOf(a) || a - b);
  const rows = order.slice(0, MOST_ROWS_OF_TABLE).map((n) => {
    const group = grouping.groups[n];
    return [
      markButton(view, group.name, n), swatch(inks, n), nameCell(group.name),
      bytesText(now[n].bytes), shareText(now[n].bytes, inUse), countText(now[n].blocks),
      bytesText(group.peakBytes), shareText(group.peakBytes, moments.peak), countText(group.peakBlocks),
      bytesText(group.endBytes), shareText(group.endBytes, moments.inUse[view.recording.events - 1]), countText(group.endBlocks),
      bytesText(group.allBytes), countText(group.allBlocks),
    ];
  });
  const left = order.length - rows.length;
  const table = makeTable(columns, rows);
  return left === 0 ? table : make("div", [table, make("p", `and ${countText(left)} more`, {className: "quiet"})]);
}

// The legend of the drawing: the groups that have colours of their own and what each holds at the
// moment, then all others in one row.
function legendOf(view, inks, grouping, now) {
  const {groups} = grouping;
  const own = groups.length > LEVELS ? LEVELS - 1 : groups.length;
  const row = (n, name, title, bytes) =>
    make("li", [swatch(inks, n), make("span", name, {className: "name", title: plain(title)}),
                make("span", bytesText(bytes), {className: "number"})]);
  const rows = groups.slice(0, own).map((group, n) => [group, n]).filter(([group]) => group.blocks > 0)
    .map(([group, n]) => row(n, shortName(group.name), group.name, now[n].bytes));
  const others = groups.slice(own);
  if (others.length > 0) {
    rows.push(row(own, counted(others.length, "other"), "They are told apart in the table below", now.slice(own).reduce((sum, {bytes}) => sum + bytes, 0)));
  }
  return rows;
}

// At most BIGGEST_SHOWN blocks of a list, the biggest first; of equal ones the older first.
function biggestOf(list, held) {
  const biggest = [];
  for (const block of list) {
    if (biggest.length === BIGGEST_SHOWN && held[biggest[BIGGEST_SHOWN - 1]] >= held[block]) continue;
    let at = biggest.length;
    while (at > 0 && held[biggest[at - 1]] < held[block]) --at;
    biggest.splice(at, 0, block);
    biggest.length = Math.min(biggest.length, BIGGEST_SHOWN);
  }
  return biggest;
}

function biggestTable(view, list, length) {
  const {blocks, report, threads} = view.recording;
  const order = biggestOf(list.subarray(0, length), blocks.held);
  const columns = [
    {name: "block", number: true}, {name: "size", number: true}, {name: "bytes", number: true}, {name: report.recording.callers_are},
    {name: report.recording.threads_are}, {name: "place"}, {name: "allocated at", number: true}, {name: "state"},
  ];
  return makeTable(columns, order.map((b) => {
    const button = make("button", countText(b), {type: "button"});
    button.addEventListener("click", () => view.choose(b));
    return [button, bytesText(blocks.held[b]), countText(blocks.held[b]),
            nameCell(callerText(view.recording, b)), threads[blocks.thread[b]],
            report.places[blocks.place[b]].name, beginningText(view.recording, blocks.begin[b]),
            blocks.freed[b] <= view.event ? "waiting" : "in use"];
  }));
}

function sizesTable(report) {
  const columns = [
    {name: "size"}, {name: "blocks", number: true}, {name: "bytes in all", number: true},
    {name: "at the peak", number: true}, {name: "left at the end", number: true},
    {name: "median life", number: true}, {name: "longest", number: true},
  ];
  return makeTable(columns, report.sizes.map((size) => [
    `from ${bytesText(size.from_bytes)}`, countText(size.blocks), bytesText(size.bytes),
    size.at_peak_blocks === 0 ? "\u2013" : `${bytesText(size.at_peak_bytes)} in ${countText(size.at_peak_blocks)}`,
    countText(size.at_end_blocks),
    size.freed === 0 || size.median_lifetime_ns === null ? "\u2013" : timeText(size.median_lifetime_ns),
    size.freed === 0 || size.longest_lifetime_ns === null ? "\u2013" : timeText(size.longest_lifetime_ns),
  ]));
}

function lifetimesTable(report) {
  const columns = [{name: "freed after"}, {name: "blocks", number: true}, {name: "bytes in all", number: true}];
  const name = (from) => (from === null ? "never" : from === 0 ? "less than 10 ns" : `${timeText(from)} and more`);
  return makeTable(columns, report.lifetimes.map((one) =>
    [name(one.from_ns), countText(one.blocks), bytesText(one.bytes)]));
}

function placesTable(report) {
  const columns = [
    {name: "of"}, {name: "peak in use", number: true}, {name: "most taken", number: true},
    {name: "allocations", number: true}, {name: "failed", number: true},
  ];
  const row = (name, course) => [name, bytesText(course.peak_in_use_bytes), bytesText(course.peak_taken_bytes),
                                 countText(course.allocations), countText(course.failures)];
  const nameOf = (device) => {
    const total = device.total_bytes ? `, ${bytesText(device.total_bytes)}` : "";
    const limit = device.limit_bytes ? `, limit ${bytesText(device.limit_bytes)}` : "";
    return `${device.label} ${device.name || ""}${total}${limit}`;
  };
  return makeTable(columns, [...report.devices.map((device) => row(nameOf(device), device)),
                             ...report.places.map((place) => row(place.name, place))]);
}

function programTable({report, notes}) {
  const {recording, totals} = report;
  const settings = recording.settings.split("\n").filter((line) => line !== "");
  const isDefault = (line) => line.endsWith("(default)");
  const defaults = settings.filter(isDefault);
  const rows = [
    ...(recording.command_line.length === 0 ? [] : [["command", recording.command_line.join(" ")]]),
    ...(recording.pid === 0 ? [] : [["process", String(recording.pid)]]),
    ["started", recording.start_unix_ns === 0 ? "(not known)"
      : new Date(recording.start_unix_ns / 1e6).toISOString()],
    ["recording", `${recording.path} (${recording.format})`],
    ["grown, shrunk", `${countText(totals.grows)} and ${counted(totals.shrinks, "time")}`],
    ...(totals.waits === 0 ? [] : [["waited for the device", `${timeText(totals.waited_ns)} in ${counted(totals.waits, "call")}`]]),
    ...(totals.sleeps === 0 ? [] : [["asleep", `${counted(totals.sleeps, "time")}, ${timeText(totals.asleep_ns)} in all, with ${bytesText(totals.most_asleep_bytes)} on the host`]]),
    ...settings.filter((line) => !isDefault(line)).map((line) => ["setting", line]),
    ...(defaults.length === 0 ? [] : [["settings that are defaults", make("details", [
      make("summary", countText(defaults.length)), make("pre", defaults.join("\n"))])]]),
    ...notes.slice(0, 200).map((note) => [`note at event ${countText(note.event)}`, note.text]),
  ];
  return makeTable([{name: ""}, {name: ""}], rows);
}

const FAULT_NAMES = {
  frees_of_nothing: "frees of what was not allocated in the recording",
  reclaims_of_nothing: "blocks reclaimed that were not retired",
  two_at_one_address: "blocks where another still was",
  overlapping: "blocks that overlap another",
  outside_taken: "blocks outside of what was taken from the device",
  other_sizes: "frees that tell another size",
  shrinks_of_nothing: "stretches given back that were not taken",
  grown_twice: "stretches taken that were there already",
  impossible_numbers: "events left out, with impossible numbers",
  times_going_back: "times before that of the event before",
};

function faultsTable(report) {
  const rows = Object.entries(report.faults).filter(([, count]) => count > 0)
    .map(([key, count]) => [FAULT_NAMES[key], countText(count)]);
  return rows.length === 0 ? null : makeTable([{name: "what"}, {name: "times", number: true}], rows);
}
