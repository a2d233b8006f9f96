// The report for a terminal: lines of at most 80 characters.
#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "cli/report/chart.h"
#include "cli/report/code_text.h"
#include "cli/report/forms.h"
#include "cli/report/wording.h"

namespace cubfc::report {
namespace {

constexpr std::size_t kNameWidth = 38;
constexpr std::size_t kRows = 10;  // of a table
constexpr std::size_t kFailuresShown = 5;

// The value of a setting in lines such as "CUBFC_GROUP=job (CUBFC_GROUP)": "job". Empty if it has
// its default.
std::string value_of(std::string_view settings, std::string_view name) {
  for (std::size_t start = 0; start < settings.size();) {
    const std::size_t end = std::min(settings.find('\n', start), settings.size());
    const std::string_view line = settings.substr(start, end - start);
    start = end + 1;
    if (line.size() > name.size() && line.starts_with(name) && line[name.size()] == '=' &&
        !line.ends_with("(default)")) {
      const std::string_view rest = line.substr(name.size() + 1);
      return std::string(rest.substr(0, rest.find(' ')));
    }
  }
  return {};
}
// A name from the recording, cut to fit its column: of a path the end is kept, of any other name
// the beginning.
std::string name_column(const std::string& name) {
  return (name.starts_with('/') ? end_in : beginning_in)(printable(name), kNameWidth);
}

class Text {
 public:
  Text(const Told& told, bool bold)
      : told_(told),
        recording_(told.recording),
        history_(told.history),
        figures_(told.figures),
        peak_(told.figures.at_peak),
        at_peak_(told.recording.is_state ? "" : ", at the peak"),
        has_before_(told.recording.before > 0),
        bold_(bold) {}

  std::string all() {
    heading();
    peak();
    table(lines_table(told_));
    table(chart_of(told_));
    shares(
        "By kind of memory" + at_peak_, peak_.by_memory.size(),
        [&](std::size_t n) { return std::string(memory_name(recording_, static_cast<Memory>(n))); },
        [&](std::size_t n) { return peak_.by_memory.at(n); });
    if (recording_.callers_are != "line" || !told_.lines.are_known()) {  // else in lines_table()
      shares(
          "By " + recording_.callers_are + at_peak_, peak_.by_caller.size(),
          [&](std::size_t n) { return caller_name(recording_, static_cast<std::uint8_t>(n)); },
          [&](std::size_t n) { return peak_.by_caller[n]; });
    }
    if (recording_.threads_are == "stream" && recording_.threads.size() > 2) {
      shares(
          "By stream" + at_peak_, peak_.by_thread.size(),
          [&](std::size_t n) { return thread_name(recording_, static_cast<std::uint16_t>(n)); },
          [&](std::size_t n) { return peak_.by_thread[n]; });
    }
    table(call_tree_table(told_));
    devices();
    biggest();
    sizes();
    growth();
    failures();
    faults();
    return std::move(text_);
  }

 private:
  void line(const std::string& text) {
    text_ += text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  }
  void title(const std::string& text) {
    line("");
    line(bold_ ? "\x1b[1m" + text + "\x1b[0m" : text);
  }
  void table(const TextTable& table) {
    if (!table.rows.empty()) {
      title(table.title);
    }
    for (const std::string& row : table.rows) {
      line(row);
    }
  }
  static std::string free_text(const Gaps& gaps) {
    return bytes_text(gaps.free_bytes) + " in " + counted(gaps.pieces, "piece") +
           (gaps.pieces == 0 ? "" : ", the largest " + bytes_text(gaps.largest_bytes));
  }
  // Writes a text, with a word in a column of its own before it.
  void fact(const std::string& word, const std::string& text) {
    line("  " + left(word, 10) + text);
  }

  [[nodiscard]] std::string at(std::uint32_t event) const {
    return event == kNever ? "never"
           : event == 0 && has_before_
               ? "before the recording began (event 0)"
               : "at " + (recording_.has_times ? clock_text(history_.times_ns[event]) + ", " : "") +
                     "event " + count_text(event);
  }

  void heading() {
    const std::string of = printable(title_of(recording_));
    // substr() may cut a character of UTF-8 in two; printable() makes a '?' of what is left of it.
    const std::string text =
        printable("GPU memory of " + (of.size() > 60 ? of.substr(0, 57) + "..." : of));
    line(bold_ ? "\x1b[1m" + text + "\x1b[0m" : text);
    fact("from", end_of(printable(recording_.path), 42) + " (" +
                     end_of(printable(recording_.format), 20) + ")");
    if (recording_.pid != 0) {
      fact("process", std::to_string(recording_.pid));
    }
    const std::uint64_t duration = history_.times_ns.empty() ? 0 : history_.times_ns.back();
    if (recording_.is_state) {
      fact("state", "when it was written; of what happened before nothing was recorded");
      fact("blocks", count_text(history_.left_at_end) + " (" +
                         bytes_text(figures_.whole.in_use_at_end) + ")");
      return;
    }
    if (has_before_) {
      before();
    }
    fact("events", count_text(recording_.events.size() - recording_.before) +
                       (recording_.has_times ? " in " + time_text(duration) : ", without times") +
                       (recording_.closed                    ? "; the process ended in order"
                        : recording_.format == "cubfc trace" ? "; killed, or still running"
                                                             : ""));
    fact("blocks", count_text(history_.allocations) + " allocated, " + count_text(history_.frees) +
                       " freed, " + count_text(history_.left_at_end) + " left at the end (" +
                       bytes_text(figures_.whole.in_use_at_end) + ")");
    if (history_.waits > 0) {
      fact("waits", time_text(history_.waited_ns) + " for the device, in " +
                        counted(history_.waits, "call"));
    }
    if (const Asleep& asleep = history_.asleep; asleep.times > 0) {
      fact("asleep", counted(asleep.times, "time") + ", " + time_text(asleep.ns) +
                         " in all, with " + bytes_text(asleep.most_bytes) + " on the host" +
                         (asleep.bytes > 0 ? "; still asleep at the end" : ""));
    }
    if (const std::string group = value_of(recording_.settings, "CUBFC_GROUP"); !group.empty()) {
      fact("group", end_of(printable(group), 30) + ": " +
                        end_of(printable(value_of(recording_.settings, "CUBFC_GROUP_LIMIT")), 12) +
                        " for all its processes");
    }
    if (recording_.segments) {
      fact("tensors", "PyTorch's, in the place of " + count_text(recording_.segments->blocks) +
                          " segments of its cache, of at");
      fact("", "most " + bytes_text(recording_.segments->peak_bytes) +
                   "; --segments shows these, as the device sees them");
    }
    notes();
    if (recording_.reached_limit) {
      fact("limit", "the file reached its limit: nothing was recorded after that");
    }
    if (recording_.is_cut) {
      fact("cut", "the file is not whole: what came after the last event is not in it");
    }
  }

  // What was there before the recording. There are such blocks if the recording was switched on
  // late, or has dropped its oldest entries.
  void before() {
    const std::uint32_t line = told_.lines.without_stack_before;
    const std::uint64_t unknown = line == kNone ? 0 : told_.lines.held[line].at_peak.bytes;
    wrapped("before",
            counted(history_.blocks_before, "block") + " (" + bytes_text(history_.bytes_before) +
                ") were there when the recording began" +
                (unknown == 0 ? ""
                              : "; of " + bytes_text(unknown) +
                                    " of it, at the peak, the file does not tell the stack"));
  }

  // The recording's notes, each once, in lines that fit; at most kRows of them.
  void notes() {
    std::vector<std::uint32_t> told;
    for (const recordings::Event& event : recording_.events) {
      if (event.kind == trace::Kind::kNote && event.text < recording_.texts.size() &&
          told.size() < kRows && std::ranges::find(told, event.text) == told.end()) {
        told.push_back(event.text);
        wrapped("note", printable(recording_.texts[event.text]));
      }
    }
  }

  void wrapped(std::string word, std::string text) {
    constexpr std::size_t kTextWidth = 68;
    while (text.size() > kTextWidth) {
      const std::size_t space = text.rfind(' ', kTextWidth);
      const std::size_t end = space == std::string::npos ? kTextWidth : space;
      fact(word, text.substr(0, end));
      text.erase(0, end + (space == std::string::npos ? 0 : 1));
      word.clear();
    }
    fact(word, text);
  }

  void peak() {
    title(recording_.is_state ? "There" : "Peak");
    fact("in use", bytes_text(figures_.whole.in_use.bytes) + " (" +
                       count_text(figures_.whole.in_use.bytes) + " bytes) in " +
                       counted(peak_.in_use.blocks, "block"));
    if (peak_.asked_bytes != peak_.in_use.bytes) {
      fact("asked for", bytes_text(peak_.asked_bytes) + " (" + count_text(peak_.asked_bytes) +
                            " bytes); the rest is padding");
    }
    if (!recording_.is_state) {
      fact("when", at(figures_.whole.in_use.event));
    }
    if (peak_.waiting.blocks > 0) {
      fact("waiting",
           bytes_text(peak_.waiting.bytes) + " of it, freed by the program but not free yet");
    }
    if (figures_.whole.taken.bytes > 0) {
      fact("taken",
           bytes_text(peak_.taken_bytes) + " from the device in " +
               counted(peak_.taken_pieces, "piece") +
               (recording_.is_state ? "" : "; at most " + bytes_text(figures_.whole.taken.bytes)));
      fact("free", free_text(peak_.gaps));
    }
  }

  void shares(const std::string& heading, std::size_t count,
              const std::function<std::string(std::size_t)>& name,
              const std::function<Share(std::size_t)>& share) {
    std::vector<std::size_t> order(count);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::erase_if(order, [&](std::size_t n) { return share(n).blocks == 0; });
    if (order.empty()) {
      return;
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return share(a).bytes > share(b).bytes; });
    title(heading);
    for (std::size_t n = 0; n < std::min(order.size(), kRows); ++n) {
      const Share here = share(order[n]);
      line("  " + name_column(name(order[n])) + right(bytes_text(here.bytes), 12) +
           right(share_text(here.bytes, figures_.whole.in_use.bytes), 9) +
           right(count_text(here.blocks), 10) + (here.blocks == 1 ? " block" : " blocks"));
    }
    if (order.size() > kRows) {
      line("  and " + count_text(order.size() - kRows) + " more");
    }
  }

  void devices() {
    title("Devices                                   peak in use    most taken   failed");
    for (std::size_t n = 0; n < figures_.devices.size(); ++n) {
      const Course& course = figures_.devices[n];
      std::string name = device_label(recording_, figures_.device_numbers[n]);
      if (figures_.device_names[n] != kNone &&
          recording_.devices[figures_.device_names[n]].label.empty()) {
        name += " " + recording_.devices[figures_.device_names[n]].name;
      }
      line("  " + name_column(name) + right(bytes_text(course.in_use.bytes), 13) +
           right(bytes_text(course.taken.bytes), 14) + right(count_text(course.failures), 9));
    }
  }

  // The line that asked for a block; its caller, if no line is known.
  [[nodiscard]] std::string name_of(std::uint32_t index) const {
    const std::uint32_t line = told_.lines.of_block(history_, index);
    if (line == kNone || told_.lines.own[line].frame == kNone) {
      return caller_name(recording_, history_.blocks[index].caller);
    }
    return recordings::line_text(recording_.frames[told_.lines.own[line].frame],
                                 recordings::Path::kName);
  }

  [[nodiscard]] std::string since(const Block& block) const {
    const bool is_of_before = block.begin == 0 && has_before_;
    return recording_.is_state ? ""
           : is_of_before      ? "  since       before"
           : recording_.has_times
               ? "  since " + right(clock_text(history_.times_ns[block.begin]), 12)
               : "  since " + right("event " + count_text(block.begin), 12);
  }

  void biggest() {
    if (peak_.biggest.empty()) {
      return;
    }
    title("The biggest blocks" + at_peak_);
    for (std::size_t n = 0; n < std::min(peak_.biggest.size(), kRows); ++n) {
      const Block& block = history_.blocks[peak_.biggest[n]];
      line("  " + right(bytes_text(block.held()), 11) + "  " +
           name_column(name_of(peak_.biggest[n])) + since(block) +
           (block.waits_at(figures_.whole.in_use.event) ? " waits" : ""));
    }
  }

  void sizes() {
    if (figures_.sizes.empty() || recording_.is_state) {
      return;
    }
    title("Sizes            allocated     at peak      in all     median life      left");
    for (std::size_t n = 0; n < figures_.sizes.size(); ++n) {
      const SizeClass& size = figures_.sizes[n];
      if (size.all.blocks + size.at_peak.blocks + size.at_end.blocks == 0) {
        continue;
      }
      line(
          "  from " + left(bytes_text(n == 0 ? 0 : std::uint64_t{1} << n), 11) +
          right(count_text(size.all.blocks), 10) + right(count_text(size.at_peak.blocks), 12) +
          right(bytes_text(size.all.bytes), 12) +
          right(size.freed == 0 || !recording_.has_times ? "-" : time_text(size.median_lifetime_ns),
                16) +
          right(count_text(size.at_end.blocks), 10));
    }
  }

  void growth() {
    if (figures_.whole.taken.bytes == 0 || recording_.is_state) {
      return;
    }
    title("Taken from the device");
    fact("grown",
         counted(history_.grows, "time") + ", shrunk " + counted(history_.shrinks, "time"));
    fact("most", bytes_text(figures_.whole.taken.bytes) + " " + at(figures_.whole.taken.event));
    fact("at end", bytes_text(figures_.whole.taken_at_end));
    fact("free then", free_text(figures_.at_end.gaps));
  }

  void failures() {
    const std::size_t count = figures_.failures.size();
    if (count == 0) {
      return;
    }
    title("Out of memory, " + counted(count, "time"));
    for (std::size_t n = 0; n < std::min(count, kFailuresShown); ++n) {
      const Failure& failure = figures_.failures[n];
      const recordings::Event& event = recording_.event(failure.event);
      line("  " + bytes_text(failure.asked_bytes) + " asked " + at(failure.event) + ", of " +
           place_name(recording_, event.place));
      line("    in use " + bytes_text(failure.in_use_bytes) + " of " +
           bytes_text(failure.taken_bytes) + " taken" +
           (failure.gaps ? "; free " + bytes_text(failure.gaps->free_bytes) + ", largest piece " +
                               bytes_text(failure.gaps->largest_bytes)
                         : ""));
    }
    if (count > kFailuresShown) {
      line("  and " + count_text(count - kFailuresShown) + " more");
    }
    const recordings::Event& last = recording_.event(figures_.failures.back().event);
    if (last.text < recording_.texts.size()) {
      title("The last report");
      text_ += printable(recording_.texts[last.text], /*lines=*/true);
      line("");
    }
  }

  void faults() {
    const Faults& faults = history_.faults;
    if (faults.all() == 0) {
      return;
    }
    title("What makes no sense in the recording");
    const std::array<std::pair<std::uint64_t, const char*>, 10> all{{
        {faults.frees_of_nothing, "frees of what was not allocated in it"},
        {faults.reclaims_of_nothing, "blocks reclaimed that were not retired"},
        {faults.two_at_one_address, "blocks where another still was"},
        {faults.overlapping, "blocks that overlap another"},
        {faults.outside_taken, "blocks outside of what was taken from the device"},
        {faults.other_sizes, "frees that tell another size"},
        {faults.shrinks_of_nothing, "stretches given back that were not taken"},
        {faults.grown_twice, "stretches taken that were there already"},
        {faults.impossible_numbers, "events left out, with impossible numbers"},
        {faults.times_going_back, "times before that of the event before"},
    }};
    for (const auto& [count, what] : all) {
      if (count > 0) {
        line("  " + right(count_text(count), 12) + "  " + what);
      }
    }
  }

  const Told& told_;
  const recordings::Recording& recording_;
  const History& history_;
  const Figures& figures_;
  const Moment& peak_;
  const std::string at_peak_;  // the end of a heading
  const bool has_before_;      // event 0 stands for what was there before the recording
  bool bold_;
  std::string text_;
};

}  // namespace

std::string text_of(const Told& told, bool bold) {
  return Text{told, bold}.all();
}

}  // namespace cubfc::report
