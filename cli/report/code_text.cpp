#include "cli/report/code_text.h"

#include <algorithm>

#include "cli/recordings/file_name.h"
#include "cli/recordings/own_code.h"
#include "cli/report/wording.h"

namespace cubfc::report {
namespace {

using recordings::Path;

constexpr std::size_t kNameWidth = 38;
constexpr std::size_t kRows = 8;
constexpr std::size_t kMostRows = 14;  // with lines added for what they hold at the end
// Lines are added until the shown lines hold this share of what is in use at the end.
constexpr double kTold = 0.95;
constexpr std::size_t kWidth = 80;

std::string columns_of(const HeldByCode& held, bool is_state) {
  return right(bytes_text(held.at_peak.bytes), 12) + right(count_text(held.at_peak.blocks), 8) +
         (is_state ? ""
                   : right(bytes_text(held.at_end.bytes), 12) +
                         right(count_text(held.at_end.blocks), 8));
}

// Makes "MmBackward0::apply" of "torch::autograd::generated::MmBackward0::apply".
std::string without_namespaces(const std::string& name) {
  const std::size_t last = name.rfind("::");
  const std::size_t before =
      last == std::string::npos || last == 0 ? last : name.rfind("::", last - 1);
  return before == std::string::npos ? name : name.substr(before + 2);
}

// A chain of calls, as "train.py:31 > train.py:12 > model.py:12 (forward)"; of a chain that is too
// long, the first and the last call. The last is the innermost of the program's own, since calls
// further in say little.
std::string chain_text(const recordings::Recording& recording,
                       const std::vector<std::uint32_t>& frames, std::size_t width) {
  const auto place = [&](std::uint32_t number) {
    const recordings::Frame& frame = recording.frames[number];
    return frame.file.empty() || frame.line == 0
               ? without_namespaces(recordings::function_text(frame, Path::kName))
               : std::string(recordings::file_name(frame.file)) + ":" + std::to_string(frame.line);
  };
  const std::vector<std::uint32_t> innermost_first(frames.rbegin(), frames.rend());
  const std::uint32_t own = recordings::own_line_of(recording, innermost_first).frame;
  const std::uint32_t told = own == kNone ? frames.back() : own;
  const std::string last = printable(recordings::line_text(recording.frames[told], Path::kName));
  std::string all;
  for (std::size_t n = 0; n < frames.size() && frames[n] != told; ++n) {
    all += place(frames[n]) + " > ";
  }
  all = printable(all) + last;
  if (characters_of(all) <= width || frames.front() == told) {
    return beginning_of(all, width);
  }
  const std::string head = printable(place(frames.front())) + " > ";
  for (const std::string_view between : {"... > ", ""}) {
    std::string text = head + std::string(between) + last;
    if (characters_of(text) <= width) {
      return text;
    }
  }
  return beginning_of(head + last, width);
}

// Whether PyTorch asked for segments of its cache: then all its blocks are multiples of 2 MiB.
// Without its cache PyTorch asks for each tensor.
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

// Adds one row for all lines that are not shown.
void add_others(const CodeLines& lines, const std::vector<std::uint32_t>& shown, bool is_state,
                TextTable& table) {
  HeldByCode others;
  std::size_t count = 0;
  for (const std::uint32_t line : lines.by_peak) {
    const HeldByCode& held = lines.held[line];
    if (std::ranges::find(shown, line) == shown.end() &&
        held.at_peak.blocks + held.at_end.blocks > 0) {
      others.at_peak += held.at_peak;
      others.at_end += held.at_end;
      ++count;
    }
  }
  if (count > 0) {
    table.rows.push_back("  " + left("and " + count_text(count) + " more", kNameWidth) +
                         columns_of(others, is_state));
  }
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
  Share of_end;
  for (const std::uint32_t line : shown) {
    of_end += lines.held[line].at_end;
  }
  const double wanted = kTold * static_cast<double>(told.figures.whole.in_use_at_end);
  for (const std::uint32_t line : by_end) {
    if (shown.size() >= kMostRows || static_cast<double>(of_end.bytes) >= wanted) {
      break;
    }
    if (std::ranges::find(shown, line) == shown.end()) {
      shown.push_back(line);
      of_end += lines.held[line].at_end;
    }
  }
  std::erase_if(shown, [&](std::uint32_t line) {
    return lines.held[line].at_peak.blocks + lines.held[line].at_end.blocks == 0;
  });
  for (const std::uint32_t line : shown) {
    const HeldByCode& held = lines.held[line];
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
  add_others(lines, shown, is_state, table);
  return table;
}

TextTable call_tree_table(const Told& told) {
  constexpr std::size_t kMostNodes = 20;
  constexpr std::size_t kDeepest = 10;
  constexpr double kLeastShare = 0.03;
  TextTable table;
  const CallTree tree = call_tree_of(told.recording, told.lines);
  const std::uint64_t whole = told.figures.whole.in_use.bytes;
  const std::uint64_t with_stack = tree.nodes[0].held.bytes;
  if (with_stack == 0) {
    return table;
  }
  const auto row = [&](std::uint64_t bytes, const std::string& text) {
    table.rows.push_back("  " + right(share_text(bytes, whole), 7) + right(bytes_text(bytes), 11) +
                         "  " + text);
  };
  if (with_stack < whole) {
    row(whole - with_stack, "without a stack");
  }
  row(with_stack, "all that have a stack");
  table.title = told.recording.is_state
                    ? "Through which functions, the outermost first"
                    : "Through which functions, at the peak, the outermost first";
  struct Open {
    std::uint32_t node;
    std::size_t depth;
  };
  std::vector<Open> open{{0, tree.nodes[0].frames.empty() ? 0U : 1U}};
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
    if (!node.frames.empty()) {
      const std::string indent(2 * depth, ' ');
      row(node.held.bytes,
          indent + chain_text(told.recording, node.frames, kWidth - 22 - indent.size()));
    }
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
