#include "cli/top/paint.h"

#include <algorithm>
#include <string_view>

#include "cli/top/width.h"

namespace cubfc::cli::top {
namespace {

struct Sequences {
  std::string_view begin;
  std::string_view end;
};

Sequences sequences_of(Style style) {
  switch (style) {
    case Style::kMarked:
      return {"\x1b[22;7m", "\x1b[27;2m"};  // within titles, which are faint
    case Style::kAlarm:
      return {"\x1b[31m", "\x1b[39m"};
    case Style::kWarning:
    case Style::kUnused:
      return {"\x1b[33m", "\x1b[39m"};
    case Style::kUsed:
      return {"\x1b[32m", "\x1b[39m"};
    case Style::kOthers:
      return {"\x1b[35m", "\x1b[39m"};
  }
  return {};
}

std::string_view beginning_of(Line::Kind kind) {
  switch (kind) {
    case Line::Kind::kGpu:
      return "\x1b[1m";
    case Line::Kind::kTitles:
      return "\x1b[2m";
    case Line::Kind::kProblem:
      return "\x1b[31m";
    case Line::Kind::kPlain:
    case Line::Kind::kRow:
      break;
  }
  return "";
}

}  // namespace

std::string painted(const Line& line, std::size_t width, bool selected, bool plain) {
  std::string text = cut(line.text, width);
  if (selected && !text.empty()) {
    text[0] = '>';
  }
  if (plain) {
    return text;
  }
  if (selected) {  // one bar, in which colours could not be read
    return "\x1b[7m" + left(text, width);
  }
  std::string result(beginning_of(line.kind));
  std::size_t done = 0;
  for (const Span& span : line.spans) {
    const std::size_t from = std::clamp(span.from, done, text.size());
    const std::size_t to = std::clamp(span.to, from, text.size());
    if (from < to) {
      const Sequences around = sequences_of(span.style);
      result.append(text, done, from - done).append(around.begin);
      result.append(text, from, to - from).append(around.end);
      done = to;
    }
  }
  return result.append(text, done);
}

}  // namespace cubfc::cli::top
