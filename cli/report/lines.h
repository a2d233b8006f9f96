// The lines of the program's code, and what each holds at the peak and at the end; for recordings
// with stacks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/recordings/own_code.h"
#include "cli/recordings/recording.h"
#include "cli/report/figures.h"
#include "cli/report/history.h"

namespace cubfc::report {

// What the blocks of one stack hold, or of all stacks with the same own line.
struct HeldByCode {
  Share at_peak;
  Share at_end;
  Share all;  // all that were allocated during the recording
};

struct CodeLines {
  std::vector<std::string> texts;  // "train.py:12 (forward)", each line once; with whole paths
  std::vector<recordings::OwnLine> own;  // of the first stack with the line
  std::vector<std::uint32_t> of_stack;   // which line, by Recording::stacks
  // The lines that stand for blocks without a stack: for blocks that were allocated during the
  // recording, and for blocks from before. kNone: there are no such blocks.
  std::uint32_t without_stack = kNone;
  std::uint32_t without_stack_before = kNone;
  std::vector<HeldByCode> held;           // by line
  std::vector<HeldByCode> held_by_stack;  // by Recording::stacks
  // The indices of the lines, sorted by what each holds at the peak, then at the end, the most
  // first.
  std::vector<std::uint32_t> by_peak;
  bool are_known() const { return !texts.empty(); }
  // The line of a block; kNone where none is known.
  [[nodiscard]] std::uint32_t of_block(const History& history, std::size_t index) const {
    const std::uint32_t stack = history.blocks[index].stack;
    return stack < of_stack.size()         ? of_stack[stack]
           : index < history.blocks_before ? without_stack_before
                                           : without_stack;
  }
};

[[nodiscard]] CodeLines lines_of(const recordings::Recording& recording, const History& history,
                                 const Figures& figures);

// Stacks as a tree, with the outermost functions at the root. A node's `held` is what its children
// hold, and what the node's last frame asked for itself. Frames between which no stack branches off
// are one node.
struct CallTree {
  struct Node {
    std::vector<std::uint32_t> frames;  // indices into Recording::frames, the outermost first
    Share held;
    std::vector<std::uint32_t> children;  // nodes, those that hold most first
  };
  std::vector<Node> nodes;  // the first is the root, which stands for all stacks
};
// The tree of what is in use at the peak, made of the stacks' outlines (see own_code.h).
[[nodiscard]] CallTree call_tree_of(const recordings::Recording& recording, const CodeLines& lines);

}  // namespace cubfc::report
