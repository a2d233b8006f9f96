// The facts about one block, or about one out-of-memory moment.
"use strict";

const MOST_FAILURES_LISTED = 200;

// All that was there before the recording began came by event 0.
function isBefore({report}, event) {
  return event === 0 && report.recording.has_before;
}

function momentText(recording, event) {
  const {has_before: hasBefore, has_times: hasTimes, state} = recording.report.recording;
  if (event === 0 && hasBefore) return state ? "when it was written" : "before the recording began (event 0)";
  return `${hasTimes ? `${clockText(recording.times[event])}, ` : ""}event ${countText(event)}`;
}

function beginningText(recording, event) {
  return isBefore(recording, event) ? "before the recording began" : momentText(recording, event);
}

// `stacks`: whole stacks or their outlines, whichever are to be shown.
function blockFacts(recording, block, stacks) {
  const {blocks, report, threads, frames, times} = recording;
  const freed = blocks.freed[block];
  const end = blocks.end[block];
  const pairs = [
    ["size", `${exactBytes(blocks.held[block])}`],
    ["asked for", `${countText(blocks.bytes[block])} bytes and ${countText(blocks.padding[block])} of padding`],
    [report.recording.callers_are, withoutFolders(callerText(recording, block))],
    [report.recording.threads_are, threads[blocks.thread[block]]],
    ["place", report.places[blocks.place[block]].name],
    ["address", hexAddress(blocks.addressHigh[block], blocks.addressLow[block])],
    ["allocated", beginningText(recording, blocks.begin[block])],
    ["freed", freed === NEVER ? "never" : momentText(recording, freed)],
  ];
  if (freed !== NEVER) {
    const isKnown = report.recording.has_times && !isBefore(recording, blocks.begin[block]);
    if (isKnown) pairs.push(["lived", timeText(times[freed] - times[blocks.begin[block]])]);
    if (end !== freed) pairs.push(["its memory free", end === NEVER ? "never" : momentText(recording, end)]);
  }
  const facts = [make("dl", makeFacts(pairs), {className: "facts-of-block"})];
  if (blocks.stack[block] >= 0) {
    facts.push(make("pre", stacks[blocks.stack[block]].map((frame) => frames[frame]).join("\n")));
  }
  return facts;
}

function failureFacts(report, failure) {
  const device = report.devices.find(({number}) => number === failure.device) || {};
  const pairs = [
    ["asked", exactBytes(failure.asked_bytes)],
    ["for", failure.place],
    ["by", failure.caller],
    [report.recording.threads_are, failure.thread],
    ["when", `${failure.time_ns === null ? "" : `${clockText(failure.time_ns)}, `}event ${countText(failure.event)}`],
    ["in use", exactBytes(failure.in_use_bytes)],
    ["taken", exactBytes(failure.taken_bytes)],
  ];
  if (failure.free_bytes !== undefined) {
    pairs.push(["free in it", `${exactBytes(failure.free_bytes)} in ${counted(failure.free_pieces, "piece")}`],
               ["largest piece", exactBytes(failure.largest_free_bytes)]);
  }
  if (device.limit_bytes) pairs.push(["limit", exactBytes(device.limit_bytes)]);
  if (device.total_bytes) pairs.push(["device", exactBytes(device.total_bytes)]);
  return pairs;
}

// A button for each out-of-memory moment; and the facts and the report of the moment that the user
// chose last.
class Failures {
  constructor(place, reportPlace, view) {
    this.view = view;
    this.report = view.recording.report;
    this.failures = this.report.out_of_memory;
    this.reportPlace = reportPlace;
    this.facts = make("dl", "", {className: "facts-of-block"});
    if (this.failures.length === 0) {
      place.append(make("p", "Memory never ran out in this recording.", {className: "quiet"}));
      return;
    }
    this.buttons = this.failures.slice(0, MOST_FAILURES_LISTED).map((failure, n) => {
      const when = failure.time_ns === null ? `event ${countText(failure.event)}` : clockText(failure.time_ns);
      const words = `${bytesText(failure.asked_bytes)} at ${when}`;
      const button = make("button", `\u2716 ${words}`, {type: "button"});
      button.addEventListener("click", () => this.goTo(n));
      return button;
    });
    const left = this.failures.length - this.buttons.length;
    place.append(make("p", this.words(), {className: "quiet"}),
                 make("ol", this.buttons.map((button) => make("li", [button])), {className: "failures"}),
                 ...(left > 0 ? [make("p", `and ${countText(left)} more: "Next out of memory" goes there`)] : []),
                 this.facts);
  }

  words() {
    const count = this.failures.length;
    return count === 1 ? "Memory ran out once." : `Memory ran out ${countText(count)} times.`;
  }

  goTo(n) {
    const failure = this.failures[n];
    this.facts.replaceChildren(...makeFacts(failureFacts(this.report, failure)));
    this.reportPlace.hidden = failure.text === "";
    this.reportPlace.textContent = plain(failure.text);
    this.buttons.forEach((button, other) => button.classList.toggle("on", other === n));
    if (n < this.buttons.length) this.buttons[n].scrollIntoView({block: "nearest"});
    this.view.goTo(failure.event);
  }

  // Goes to the first out-of-memory moment after the one that is shown; after the last, to the first
  // of all.
  next() {
    if (this.failures.length === 0) return;
    const after = this.failures.findIndex((failure) => failure.event > this.view.event);
    this.goTo(after < 0 ? 0 : after);
  }
}
