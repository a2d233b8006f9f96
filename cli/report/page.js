// The page: makes its parts, and draws them when the view has changed.
"use strict";

const TABLE_PAUSE_MS = 120;  // the tables are drawn so long after a change of the view

class Page {
  constructor(recording) {
    this.recording = recording;
    this.moments = new Moments(recording);
    this.view = new View(recording, this.moments, () => this.draw());
    this.groupings = groupingsOf(recording);
    this.tellsTaken = recording.report.peak_taken_bytes > 0;
    this.chooseGrouping();
    this.timeline = new Timeline(byId("timeline"), this.view);
    this.overview = new Overview(byId("overview"), this.view);
    this.pieces = new Pieces(byId("pieces"), this.overview);
    byId("pieces").hidden = !this.tellsTaken;
    this.map = new AddressMap(byId("map"), this.view);
    this.list = new Uint32Array(recording.blocks.count);
    this.flame = new FlameGraph(byId("flame"), this.view, (event, text) => this.tip(event, text));
    this.failures = new Failures(byId("failures"), byId("failure-report"), this.view);
    this.fillFacts();
    this.fillTables();
    this.setUpControls();
    this.setUpMap();
    this.keys = new Keys(this.view, this.timeline, this.actions());
    new ResizeObserver(() => this.resize()).observe(byId("timeline"));
    this.resize();
  }

  // By line, if there are stacks; else by caller, if that tells blocks apart; else the first grouping
  // that does.
  chooseGrouping() {
    const lines = this.groupings.filter(({key}) => key === "line");
    for (const grouping of [...lines, ...this.groupings, this.groupings[0]]) {
      this.grouping = grouped(this.recording, this.moments, grouping);
      if (this.grouping.groups.length > 1) return;
    }
  }

  resize() {
    this.inks = new Inks();
    this.timeline.resize();
    this.overview.resize();
    this.pieces.resize();
    this.map.resize();
    this.drawn = "";
    this.view.changed();
  }

  fillFacts() {
    const {report} = this.recording;
    const {recording, peak, totals} = report;
    byId("title").textContent = document.title;
    byId("source").textContent = plain(`${recording.path} \u00b7 ${recording.format} \u00b7 ` +
      (recording.state ? "what was there when it was written"
        : counted(recording.events, "event") + (recording.has_times ? ` in ${timeText(recording.duration_ns)}` : ", without times")));
    const facts = [
      ["Peak in use", exactBytes(peak.in_use_bytes)],
      ...(peak.asked_bytes === peak.in_use_bytes ? [] : [["asked for, without padding", exactBytes(peak.asked_bytes)]]),
      ...(recording.state ? [] : [["when", peak.event === null ? "never" : momentText(this.recording, peak.event)]]),
      ...(peak.waiting_bytes === 0 ? [] : [["of it waiting", exactBytes(peak.waiting_bytes)]]),
      ["most by", this.mostText()],
      ["Taken from the device, at most",
       this.tellsTaken ? exactBytes(report.peak_taken_bytes) : "the recording does not tell"],
      ...(this.tellsTaken ? [["Free of it, at the peak", freeText(peak)], ["and at the end", freeText(report.end)]] : []),
      ...(recording.has_before ? [["Before the recording",
                                   `${exactBytes(totals.before_bytes)} in ${counted(totals.before_blocks, "block")}` + this.unknownText()]] : []),
      ["Allocations", `${countText(totals.allocations)}, ${countText(totals.failures)} failed`],
      ["Left at the end", `${exactBytes(totals.left_at_end_bytes)} in ${counted(totals.left_at_end_blocks, "block")}`],
    ];
    const segments = recording.tensors_for_segments;
    if (segments !== null) {
      facts.push(["PyTorch's tensors", `in the place of ${countText(segments.blocks)} segments of its cache, of at most ` +
        `${exactBytes(segments.peak_bytes)} (cubfc report --segments shows these)`]);
    }
    byId("facts").append(...facts.map(([term, text]) => make("div", makeFacts([[term, text]]))));
    const warnings = [];
    if (recording.has_times && !recording.state && this.view.axis === "events") {
      warnings.push(`Shown over the events, and not over time: the longest pause is ${timeText(recording.longest_pause_ns)} of ${timeText(recording.duration_ns)}.`);
    }
    if (recording.state) {
      byId("timeline-title").textContent = "What was there";
      warnings.push("Of what happened before the snapshot was written nothing was recorded: the blocks stand in the order of their addresses.");
    }
    if (recording.reached_limit) warnings.push("The file reached its limit: nothing was recorded after that.");
    if (recording.cut) warnings.push("The file is not whole: what came after the last event is not in it.");
    if (!recording.closed && recording.format === "cubfc trace") warnings.push("The recording has no end: the process was killed, or went on.");
    byId("warnings").hidden = warnings.length === 0;
    byId("warnings").textContent = warnings.join(" ");
  }

  // How much of what is in use at the peak is from before the recording and has no stack.
  unknownText() {
    const {lines} = this.recording.report;
    const line = lines.find(({line: text}) => text === this.recording.lines[this.recording.lineWithoutStackBefore]);
    return line === undefined ? "" : `; of ${bytesText(line.at_peak.bytes)} of it the file does not tell the stack`;
  }

  // The line, or the caller, that held most at the peak.
  mostText() {
    const {lines, peak} = this.recording.report;
    const holders = lines.length > 0 ? lines.map(({line, at_peak: {bytes}}) => ({name: line, bytes}))
      : peak.by_caller.map(({caller, bytes}) => ({name: caller, bytes}));
    holders.sort((a, b) => b.bytes - a.bytes);
    const isKnown = ({name}) => name !== "" && !name.startsWith("(");
    const told = holders.length > 0 && !isKnown(holders[0]) ? [holders[0], ...holders.filter(isKnown).slice(0, 1)] : holders.slice(0, 1);
    return told.length === 0 ? "nobody"
      : told.map(({name, bytes}) => `${shortName(name) || "(not known)"}, ${shareText(bytes, peak.in_use_bytes)}`).join("; then ");
  }

  fillTables() {
    const {report} = this.recording;
    byId("sizes").append(sizesTable(report));
    byId("lifetimes").append(lifetimesTable(report));
    byId("lifetimes").parentElement.hidden = report.lifetimes.length === 0;
    byId("places").append(placesTable(report));
    byId("program").append(programTable(this.recording));
    const faults = faultsTable(report);
    byId("faults-section").hidden = faults === null;
    if (faults !== null) byId("faults").append(faults);
    byId("keys").append(...makeFacts(KEYS));
  }

  setUpControls() {
    const {view, recording} = this;
    const {places, devices} = recording.report;
    const scopes = [["the whole process", () => true],
      ...devices.map(({label, number}) => [label, (place) => place.device === number]),
      ...places.map((one) => [one.name, (place) => place === one])];
    byId("scope").append(...scopes.map(([name], n) => make("option", name, {value: n})));
    byId("scope").addEventListener("change", (event) => {
      this.moments.setScope(scopes[event.target.value][1]);
      view.setHeight(view.height);
      this.regroup();
    });
    byId("grouping").append(...this.groupings.map(({name}, n) => make("option", name, {value: n})));
    byId("grouping").value = this.groupings.findIndex(({key}) => key === this.grouping.key);
    byId("grouping").addEventListener("change", () => this.regroup());
    byId("axis").value = view.axis;
    byId("axis").parentElement.hidden = !recording.report.recording.has_times;
    byId("axis").addEventListener("change", (event) => {
      const [from, to] = [view.from, view.to].map((at) => Math.max(0, view.eventAt(at)));
      view.axis = event.target.value;
      view.show(view.positionOf(from), to >= recording.events - 1 ? view.extent[1] : view.positionOf(to));
    });
    byId("height").addEventListener("change", (event) => {
      view.setHeight(event.target.value);
      view.changed();
    });
    byId("moment").addEventListener("input", (event) => view.goToShare(Number(event.target.value)));
    byId("event").max = Math.max(0, recording.events - 1);
    byId("event").addEventListener("input", (event) => view.goTo(Number(event.target.value)));
    byId("event").addEventListener("change", (event) => (event.target.value = view.event));
    this.setUpButtons();
  }

  setUpButtons() {
    const actions = this.actions();
    const {view} = this;
    const clicks = {
      "zoom-in": () => view.zoom(0.5, view.positionOf(view.event)),
      "zoom-out": () => view.zoom(2, view.positionOf(view.event)),
      whole: actions.whole, "to-peak": actions.peak, "to-end": () => view.goTo(this.recording.events - 1), "to-failure": actions.failure, "help-button": actions.help,
    };
    for (const [id, does] of Object.entries(clicks)) byId(id).addEventListener("click", does);
    byId("to-failure").disabled = this.recording.report.out_of_memory.length === 0;
    byId("theme").addEventListener("change", (event) => this.setTheme(event.target.value));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.resize());
  }

  setTheme(theme) {
    byId("theme").value = theme;
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    this.resize();
  }

  regroup() {
    this.view.marked = -1;
    this.grouping = grouped(this.recording, this.moments, this.groupings[byId("grouping").value]);
    this.map.refresh();
    this.drawn = "";
    this.view.changed();
  }

  setUpMap() {
    const {place} = this.map;
    place.addEventListener("pointermove", (event) => {
      const box = place.getBoundingClientRect();
      const there = this.map.at(event.clientX - box.left, event.clientY - box.top);
      this.hoverBlock(there === null || there.block === undefined ? -1 : there.block);
      this.tip(event, there === null ? null : this.mapWords(there));
    });
    place.addEventListener("pointerleave", () => {
      this.hoverBlock(-1);
      this.tip(null, null);
    });
    place.addEventListener("click", () => {
      if (this.view.hovered >= 0) this.view.choose(this.view.hovered);
    });
  }

  mapWords({stretch, block, gap}) {
    const place = this.recording.report.places[stretch.place].name;
    if (block !== undefined) return `${this.blockWords(block)} \u00b7 ${place}`;
    const hex = `0x${BigInt(gap[0]).toString(16)}`;
    const state = stretch.seenOnly ? "no block" : "free";
    return `${state}: ${exactBytes(gap[1] - gap[0])} at ${hex} \u00b7 ${place}`;
  }

  blockWords(block) {
    const {blocks} = this.recording;
    const caller = callerText(this.recording, block);
    const state = blocks.freed[block] <= this.view.event ? ", waiting" : "";
    return `block ${countText(block)}: ${exactBytes(blocks.held[block])} \u00b7 ${shortName(caller)}${state}`;
  }

  actions() {
    const {view} = this;
    return {
      whole: () => {
        view.showWhole();
        view.changed();
      },
      peak: () => view.goTo(this.moments.peakEvent),
      failure: () => this.failures.next(),
      theme: () => this.setTheme(this.isDark() ? "light" : "dark"),
      help: () => {
        const {hidden} = byId("help");
        byId("help").hidden = !hidden;
        byId("help-button").setAttribute("aria-expanded", String(hidden));
      },
      nothing: () => {
        view.marked = -1;
        view.choose(-1);
      },
      hover: (there, event) => this.hoverTimeline(there, event),
      select: (from, to) => this.drawSelection(from, to),
    };
  }

  isDark() {
    const chosen = document.documentElement.dataset.theme;
    return chosen === undefined ? matchMedia("(prefers-color-scheme: dark)").matches : chosen === "dark";
  }

  hoverBlock(block) {
    if (this.view.hovered === block) return;
    this.view.hovered = block;
    this.view.changed();
  }

  hoverTimeline(there, event) {
    this.hoverBlock(there === null ? -1 : Math.max(-1, there.block));
    if (there === null || there.block === NOTHING) {
      this.tip(event, there === null ? null : `nothing \u00b7 ${momentText(this.recording, there.event)}`);
    } else if (there.block <= SMALL_BAND) {
      this.tip(event, this.smallWords(there.event, SMALL_BAND - there.block));
    } else {
      this.tip(event, `${this.blockWords(there.block)} \u00b7 ${momentText(this.recording, there.event)}`);
    }
  }

  smallWords(event, level) {
    const {list, moments, timeline, grouping} = this;
    const {held} = this.recording.blocks;
    const {length} = moments.liveAt(event, list);
    let bytes = 0;
    let count = 0;
    for (let n = 0; n < length; ++n) {
      if (held[list[n]] >= timeline.atLeast || Math.min(grouping.of[list[n]], LEVELS - 1) !== level) continue;
      bytes += held[list[n]];
      ++count;
    }
    return `${counted(count, "block")} of less than ${bytesText(Math.ceil(timeline.atLeast))} each: ` +
      `${bytesText(bytes)} \u00b7 ${timeline.nameOfSmall(SMALL_BAND - level)} \u00b7 zoom in to tell them apart`;
  }

  tip(event, text) {
    const tip = byId("tip");
    tip.hidden = text === null;
    if (text === null || event === null) return;
    tip.textContent = plain(text);
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(innerWidth - box.width - 8, event.clientX + 14))}px`;
    tip.style.top = `${event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 10 : event.clientY + 18}px`;
  }

  drawSelection(from, to) {
    this.timeline.drawMarks();
    if (from === null) return;
    const {marks, ratio} = this.timeline;
    const context = marks.getContext("2d");
    context.fillStyle = this.inks.accent;
    context.globalAlpha = 0.25;
    context.fillRect(Math.min(from, to) * ratio, MARGIN.top * ratio, Math.abs(to - from) * ratio, this.timeline.heightPixels);
    context.globalAlpha = 1;
  }

  // Draws the parts that have changed.
  draw() {
    const {view, timeline} = this;
    const shown = [view.from, view.to, view.low, view.high, view.axis, view.marked, this.grouping.key].join(" ");
    if (shown !== this.drawn) timeline.draw(this.inks, this.grouping);
    this.drawn = shown;
    timeline.drawMarks();
    this.tellShown();
    this.overview.draw(this.inks);
    if (this.tellsTaken) this.pieces.draw(this.inks);
    this.tellMoment(this.map.draw(this.inks, this.grouping));
    this.tellBlock();
    if (this.tablesAfter === undefined) {
      this.tablesAfter = setTimeout(() => this.drawTables(), TABLE_PAUSE_MS);
    }
  }

  tellShown() {
    const {view, recording} = this;
    if (recording.events === 0) return;
    const first = Math.max(0, view.eventAt(view.from));
    const last = Math.max(first, view.eventAt(view.to - (view.axis === "events" ? 0.001 : 0)));
    const {times} = recording;
    const hasTimes = recording.report.recording.has_times;
    const takenWords = this.moments.mostTaken > view.high && view.height !== "taken"
      ? ` What is taken from the device, at most ${bytesText(this.moments.mostTaken)}, is partly above what is drawn: choose "Up to: what is taken".`
      : " Dashed line: taken from the device.";
    if (!recording.report.recording.state) byId("timeline-title").textContent = view.axis === "time" ? "Memory over time" : "Memory over the events";
    byId("shown").textContent = `Shown: events ${countText(first)} to ${countText(last)}` +
      (hasTimes ? ` (${clockText(times[first])} to ${clockText(times[last])})` : "") + `, up to ${bytesText(Math.round(view.high))}.` +
      (this.tellsTaken ? `${takenWords} Under the whole: what is free, and as a line its largest piece.` : "");
  }

  tellMoment(look) {
    const {view, recording, moments} = this;
    byId("moment").value = view.share;
    byId("moment").setAttribute("aria-valuetext", recording.events === 0 ? "" : momentText(recording, view.event));
    if (document.activeElement !== byId("event")) byId("event").value = view.event;
    if (recording.events === 0) {
      byId("status").textContent = "The recording has no events.";
      return;
    }
    const e = view.event;
    const words = [
      `${upper(e === 0 && recording.report.recording.has_before ? momentText(recording, e) : `at ${momentText(recording, e)}`)}: in use ${exactBytes(moments.inUse[e])} in ${counted(look.blocks, "block")}`,
      ...(moments.waiting[e] === 0 ? [] : [`waiting ${exactBytes(moments.waiting[e])}`]),
      ...(this.tellsTaken ? [
        `taken ${exactBytes(moments.taken[e])}`,
        `free ${exactBytes(look.freeBytes)} in ${counted(look.pieces, "piece")}, the largest ${exactBytes(look.largest)}`,
      ] : ["the recording does not tell what was taken from the device"]),
    ];
    byId("status").textContent = words.join(" \u00b7 ");
    byId("map-legend").textContent = "Rows: what each place has of the device. Plain: free. " +
      "Broad stripes: freed by the program, waiting for the device. Grey: blocks too small to tell apart." +
      (look.stretches.some((one) => one.seenOnly)
        ? " Places that do not tell what they take are drawn where their blocks were; what is free there is not counted." : "");
    byId("map-status").textContent = look.handles === 0 ? "" :
      `Not drawn, without addresses: ${counted(look.handles, "block")} of arrays and physical memory, ${exactBytes(look.handleBytes)}.`;
  }

  tellBlock() {
    const block = this.view.hovered >= 0 ? this.view.hovered : this.view.chosen;
    const told = `${block} ${this.view.allFunctions}`;
    if (told === this.toldBlock) return;
    this.toldBlock = told;
    byId("block-title").textContent = block < 0 ? "Block" : `Block ${countText(block)}`;
    byId("block").replaceChildren(...(block < 0
      ? [make("p", "Point at a band, or press \u2191 and \u2193 in the timeline.", {className: "quiet"})]
      : blockFacts(this.recording, block, this.view.stacks)));
  }

  drawTables() {
    this.tablesAfter = undefined;
    const {view} = this;
    const key = [view.event, view.marked, view.sort, this.grouping.key, this.moments.peakEvent, this.inks.surface].join(" ");
    this.flame.draw(this.inks);
    if (key === this.tablesOf || this.recording.events === 0) return;
    this.tablesOf = key;
    const {now, length} = holdersAt(view, this.grouping, this.list);
    byId("legend").replaceChildren(...legendOf(view, this.inks, this.grouping, now));
    byId("holders").replaceChildren(holdersTable(view, this.inks, this.grouping, now));
    byId("biggest").replaceChildren(biggestTable(view, this.list, length));
  }
}

async function main() {
  try {
    const recording = await readRecording();
    byId("page").hidden = false;
    byId("loading").remove();
    new Page(recording);
  } catch (error) {
    const words = typeof DecompressionStream === "undefined"
      ? "This browser is too old for this page: it lacks DecompressionStream."
      : `This page could not be shown: ${error.message}`;
    document.body.prepend(make("p", words, {role: "alert"}));
    throw error;
  }
}

main();
