#include "cli/report/lines.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <span>
#include <utility>

namespace cubfc::report {
CodeLines lines_of(const recordings::Recording& recording, const History& history,
                   const Figures& figures) {
  CodeLines lines;
  if (recording.stacks.empty()) {
    return lines;
  }
  std::map<std::string, std::uint32_t> known;
  const auto line_of = [&](const std::string& text, const recordings::OwnLine& own) {
    const auto [line, is_new] =
        known.try_emplace(text, static_cast<std::uint32_t>(lines.texts.size()));
    if (is_new) {
      lines.texts.push_back(text);
      lines.own.push_back(own);
    }
    return line->second;
  };
  for (const std::vector<std::uint32_t>& stack : recording.stacks) {
    const recordings::OwnLine own = recordings::own_line_of(recording, stack);
    const std::string text = recordings::text_of(recording, own, recordings::Path::kWhole);
    lines.of_stack.push_back(line_of(text.empty() ? "(not known)" : text, own));
  }
  lines.held_by_stack.resize(recording.stacks.size());
  const std::uint32_t peak = figures.whole.in_use.event;
  const std::uint32_t end = history.last_event();
  HeldByCode without_stack;
  HeldByCode without_stack_before;
  for (std::size_t index = 0; index < history.blocks.size(); ++index) {
    const Block& block = history.blocks[index];
    const bool is_of_before = index < history.blocks_before;
    HeldByCode& held = block.stack < lines.held_by_stack.size() ? lines.held_by_stack[block.stack]
                       : is_of_before                           ? without_stack_before
                                                                : without_stack;
    if (!is_of_before) {
      held.all += block;
    }
    if (block.lives_at(peak)) {
      held.at_peak += block;
    }
    if (block.lives_at(end)) {
      held.at_end += block;
    }
    if (&held == &without_stack && lines.without_stack == kNone) {
      lines.without_stack = line_of(std::string(recordings::kNoStack), {});
    } else if (&held == &without_stack_before && lines.without_stack_before == kNone) {
      lines.without_stack_before = line_of(std::string(recordings::kNoStackOfBefore), {});
    }
  }
  lines.held.resize(lines.texts.size());
  if (lines.without_stack != kNone) {
    lines.held[lines.without_stack] = without_stack;
  }
  if (lines.without_stack_before != kNone) {
    lines.held[lines.without_stack_before] = without_stack_before;
  }
  for (std::size_t stack = 0; stack < recording.stacks.size(); ++stack) {
    HeldByCode& held = lines.held[lines.of_stack[stack]];
    held.at_peak += lines.held_by_stack[stack].at_peak;
    held.at_end += lines.held_by_stack[stack].at_end;
    held.all += lines.held_by_stack[stack].all;
  }
  lines.by_peak.resize(lines.texts.size());
  std::iota(lines.by_peak.begin(), lines.by_peak.end(), 0U);
  std::ranges::stable_sort(lines.by_peak, [&](std::uint32_t a, std::uint32_t b) {
    const HeldByCode& of_a = lines.held[a];
    const HeldByCode& of_b = lines.held[b];
    return std::pair(of_a.at_peak.bytes, of_a.at_end.bytes) >
           std::pair(of_b.at_peak.bytes, of_b.at_end.bytes);
  });
  return lines;
}

namespace {

class TreeMaker {
 public:
  TreeMaker() {
    tree_.nodes.emplace_back();
    child_of_.emplace_back();
  }

  void add_stack(std::span<const std::uint32_t> stack, const Share& held) {
    std::uint32_t node = 0;
    tree_.nodes[0].held += held;
    for (std::size_t n = stack.size(); n-- > 0;) {
      node = child(node, stack[n]);
      tree_.nodes[node].held += held;
    }
  }

  CallTree take() {
    CallTree folded;
    fold(0, folded);
    return folded;
  }

 private:
  std::uint32_t child(std::uint32_t node, std::uint32_t frame) {
    const auto [known, is_new] =
        child_of_[node].try_emplace(frame, static_cast<std::uint32_t>(tree_.nodes.size()));
    const std::uint32_t number = known->second;  // a copy: child_of_ grows below
    if (is_new) {
      tree_.nodes[node].children.push_back(number);
      tree_.nodes.emplace_back().frames = {frame};
      child_of_.emplace_back();
    }
    return number;
  }

  // Makes one node of frames that follow each other without a branch. Does not recurse, since the
  // stacks in a file may have any depth.
  void fold(std::uint32_t root, CallTree& folded) {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> open{{root, kNone}};  // node and parent
    while (!open.empty()) {
      auto [node, parent] = open.back();
      open.pop_back();
      const auto number = static_cast<std::uint32_t>(folded.nodes.size());
      CallTree::Node& made = folded.nodes.emplace_back();
      made.frames = tree_.nodes[node].frames;
      made.held = tree_.nodes[node].held;
      while (tree_.nodes[node].children.size() == 1 &&
             tree_.nodes[tree_.nodes[node].children[0]].held.blocks == made.held.blocks) {
        node = tree_.nodes[node].children[0];
        made.frames.push_back(tree_.nodes[node].frames[0]);
      }
      if (parent != kNone) {
        folded.nodes[parent].children.push_back(number);
      }
      std::vector<std::uint32_t>& children = tree_.nodes[node].children;
      std::ranges::stable_sort(children, [&](std::uint32_t a, std::uint32_t b) {
        return tree_.nodes[a].held.bytes > tree_.nodes[b].held.bytes;
      });
      for (std::size_t n = children.size(); n-- > 0;) {
        open.emplace_back(children[n], number);
      }
    }
  }

  CallTree tree_;
  std::vector<std::map<std::uint32_t, std::uint32_t>> child_of_;  // by frame
};

}  // namespace

CallTree call_tree_of(const recordings::Recording& recording, const CodeLines& lines) {
  TreeMaker maker;
  for (std::size_t n = 0; n < recording.stacks.size(); ++n) {
    if (lines.held_by_stack[n].at_peak.blocks > 0) {
      const std::vector<std::uint32_t>& stack = recording.stacks[n];
      maker.add_stack(recordings::outline_of(recording, stack), lines.held_by_stack[n].at_peak);
    }
  }
  return maker.take();
}

}  // namespace cubfc::report
