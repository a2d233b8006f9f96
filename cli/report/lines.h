// Which lines of the program's code hold what: at the peak, and of what is left at the end. Of
// recordings with stacks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/recordings/own_code.h"
#include "cli/recordings/recording.h"
#include "cli/report/figures.h"
#include "cli/report/history.h"

namespace cubfc::report {

// What blocks of one stack, or of stacks with the same own line, hold.
struct HeldByCode {
  Share at_peak;
  Share at_end;
  Share all;  // that were ever allocated
};

struct CodeLines {
  std::vector<std::string> texts;  // "train.py:12 (forward)", each line once; with whole paths
  std::vector<recordings::OwnLine> own;  // of the first stack with it
  std::vector<std::uint32_t> of_stack;   // which of them, by Recording::stacks
  // Those of the blocks that have no stack (kNone: all have one), and of those of them that are
  // older than the recording.
  std::uint32_t without_stack = kNone;
  std::uint32_t without_stack_before = kNone;
  std::vector<HeldByCode> held;           // by line
  std::vector<HeldByCode> held_by_stack;  // by Recording::stacks
  // Lines, as numbers, by what they hold at the peak, the most first; then what is left at the end.
  std::vector<std::uint32_t> by_peak;
  bool are_known() const { return !texts.empty(); }
  // Of a block; kNone where no line is known.
  [[nodiscard]] std::uint32_t of_block(const History& history, std::size_t index) const {
    const std::uint32_t stack = history.blocks[index].stack;
    return stack < of_stack.size()         ? of_stack[stack]
           : index < history.blocks_before ? without_stack_before
                                           : without_stack;
  }
};

[[nodiscard]] CodeLines lines_of(const recordings::Recording& recording, const History& history,
                                 const Figures& figures);

// Stacks as a tree, from the outermost function in. A node stands for what its children hold and
// for what it has itself; frames between which nothing branches are one node.
struct CallTree {
  struct Node {
    std::vector<std::uint32_t> frames;  // Recording::frames, the outer first
    Share held;
    std::vector<std::uint32_t> children;  // nodes, those that hold most first
  };
  std::vector<Node> nodes;  // the first is the root, which stands for all stacks
};
// At the peak, of the stacks' outlines (see own_code.h).
[[nodiscard]] CallTree call_tree_of(const recordings::Recording& recording, const CodeLines& lines);

}  // namespace cubfc::report
