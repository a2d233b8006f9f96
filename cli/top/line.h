// A line of what `cubfc top` shows: its text, and the styles of its parts on a terminal. A style
// only repeats what the text says, too. Knows nothing of terminals.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace cubfc::cli::top {

struct Gpu;
struct Row;

enum class Style {
  kMarked,   // the title of the column that the rows are sorted by
  kAlarm,    // what needs a look soon
  kWarning,  // what needs a look
  kUsed,     // parts of a bar
  kUnused,
  kOthers
};

// Bytes of the text, from and up to. Spans are in their order and do not overlap.
struct Span {
  std::size_t from;
  std::size_t to;
  Style style;
};

struct Line {
  enum class Kind { kPlain, kGpu, kTitles, kRow, kProblem } kind = Kind::kPlain;
  std::string text;
  const Row* row = nullptr;  // of kRow
  const Gpu* gpu = nullptr;  // to which the line belongs, if to one
  std::vector<Span> spans = {};
};

}  // namespace cubfc::cli::top
