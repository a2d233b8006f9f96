#include "cli/report/code_text.h"

#include <algorithm>
#include <numeric>

#include "cli/recordings/own_code.h"
#include "cli/report/wording.h"

namespace cubfc::report {
namespace {

using recordings::Path;

constexpr std::size_t kNameWidth = 38;
constexpr std::size_t kRows = 8;
constexpr std::size_t kRowsLeft = 3;  // of these only what is left at the end counts
constexpr std::size_t kWidth = 80;

std::string columns_of(const HeldByCode& held, bool is_state) {
  return right(bytes_text(held.at_peak.bytes), 12) + right(count_text(held.at_peak.blocks), 8) +
         (is_state ? ""
                   : right(bytes_text(held.at_end.bytes), 12) +
                         right(count_text(held.at_end.blocks), 8));
}

// "main:31 > step:12 > forward (model.py:12)"; of what is longer the ends, or the last alone.
std::string chain_text(const recordings::Recording& recording,
                       const std::vector<std::uint32_t>& frames, std::size_t width) {
  const auto short_text = [&](std::uint32_t number) {
    const recordings::Frame& frame = recording.frames[number];
    return recordings::function_text(frame, Path::kName) +
           (frame.line == 0 || frame.function.empty() ? "" : ":" + std::to_string(frame.line));
  };
  const std::string last = recordings::line_text(recording.frames[frames.back()], Path::kName);
  std::string all;
  for (std::size_t n = 0; n + 1 < frames.size(); ++n) {
    all += short_text(frames[n]) + " > ";
  }
  all = printable(all + last);
  if (characters_of(all) <= width || frames.size() == 1) {
    return end_of(all, width);
  }
  const std::string ends = printable(short_text(frames.front()) + " > ... > " + last);
  return characters_of(ends) <= width ? ends : end_of(printable(last), width);
}

// Whether PyTorch asked for blocks that it shares out by itself: whole multiples of 2 MiB, all of
// them. Without its cache it asks for each tensor.
bool asks_for_a_cache(const Told& told) {
  constexpr std::uint64_t kSegments = std::uint64_t{2} << 20U;
  std::size_t of_torch = 0;
  for (const Block& block : told.history.blocks) {
    if (told.recording.callers[block.caller].find("libc10_cuda") != std::string::npos) {
      if (block.bytes % kSegments != 0) {
        return false;
      }
      ++of_torch;
    }
  }
  return of_torch > 0;
}

}  // namespace

TextTable lines_table(const Told& told) {
  const CodeLines& lines = told.lines;
  TextTable table;
  if (!lines.are_known()) {
    return table;
  }
  const bool is_state = told.recording.is_state;
  table.title = "Which line" + std::string(kNameWidth - 8, ' ') +
                right(is_state ? "there" : "at the peak", 12) + right("blocks", 8) +
                (is_state ? "" : right("left at end", 12) + right("blocks", 8));
  std::vector<std::uint32_t> shown(
      lines.by_peak.begin(),
      lines.by_peak.begin() + static_cast<std::ptrdiff_t>(std::min(lines.by_peak.size(), kRows)));
  std::vector<std::uint32_t> by_end = lines.by_peak;
  std::ranges::stable_sort(by_end, [&](std::uint32_t a, std::uint32_t b) {
    return lines.held[a].at_end.bytes > lines.held[b].at_end.bytes;
  });
  by_end.resize(std::min(by_end.size(), kRowsLeft));
  for (const std::uint32_t line : by_end) {
    if (lines.held[line].at_end.bytes > 0 && std::ranges::find(shown, line) == shown.end()) {
      shown.push_back(line);
    }
  }
  for (const std::uint32_t line : shown) {
    const HeldByCode& held = lines.held[line];
    if (held.at_peak.blocks + held.at_end.blocks == 0) {
      continue;
    }
    const recordings::OwnLine& own = lines.own[line];
    const std::string name =
        own.frame == kNone ? lines.texts[line]
                           : recordings::line_text(told.recording.frames[own.frame], Path::kName);
    table.rows.push_back("  " + beginning_in(printable(name), kNameWidth) +
                         columns_of(held, is_state));
    if (own.from != kNone) {
      const std::string from = recordings::line_text(told.recording.frames[own.from], Path::kName);
      table.rows.push_back("    from " + beginning_in(printable(from), kWidth - 9));
    }
  }
  if (told.recording.left_out_tensors) {
    table.rows.push_back(
        "  (PyTorch's cache asked: a line is what made it grow. Without --segments this");
    table.rows.push_back("  tells what keeps each tensor)");
  } else if (asks_for_a_cache(told)) {
    table.rows.push_back(
        "  (PyTorch's cache asked: a line is what made it grow. What keeps each tensor is");
    table.rows.push_back("  recorded with CUBFC_TRACE_TENSORS=true)");
  }
  if (lines.by_peak.size() > shown.size()) {
    table.rows.push_back("  and " + count_text(lines.by_peak.size() - shown.size()) + " more");
  }
  return table;
}

TextTable call_tree_table(const Told& told) {
  constexpr std::size_t kMostNodes = 20;
  constexpr std::size_t kDeepest = 10;
  constexpr double kLeastShare = 0.03;
  TextTable table;
  const CallTree tree = call_tree_of(told.recording, told.lines);
  const std::uint64_t whole = tree.nodes[0].held.bytes;
  if (whole == 0) {
    return table;
  }
  table.title = told.recording.is_state
                    ? "Through which functions, the outermost first"
                    : "Through which functions, at the peak, the outermost first";
  struct Open {
    std::uint32_t node;
    std::size_t depth;
  };
  std::vector<Open> open{{0, 0}};
  std::size_t left_out = 0;
  while (!open.empty()) {
    const auto [number, depth] = open.back();
    open.pop_back();
    const CallTree::Node& node = tree.nodes[number];
    const bool is_big =
        static_cast<double>(node.held.bytes) >= kLeastShare * static_cast<double>(whole);
    if (table.rows.size() >= kMostNodes || !is_big || depth > kDeepest) {
      ++left_out;
      continue;
    }
    const std::string indent(2 * depth, ' ');
    const std::size_t width = kWidth - 22 - indent.size();
    table.rows.push_back("  " + right(share_text(node.held.bytes, whole), 7) +
                         right(bytes_text(node.held.bytes), 11) + "  " + indent +
                         (node.frames.empty() ? "all that have a stack"
                                              : chain_text(told.recording, node.frames, width)));
    for (std::size_t n = node.children.size(); n-- > 0;) {
      open.push_back({node.children[n], depth + 1});
    }
  }
  if (left_out > 0) {
    table.rows.push_back("  and " + count_text(left_out) + " smaller ones");
  }
  return table;
}

}  // namespace cubfc::report
