// The progress of long work, in one line of stderr that is overwritten again and again. Where
// stderr is no terminal nothing is written, or a line now and then.
#pragma once

#include <chrono>
#include <string>

namespace cubfc::cli {

class ProgressLine {
 public:
  enum class Elsewhere : bool { kNothing, kLines };
  explicit ProgressLine(Elsewhere elsewhere = Elsewhere::kNothing);
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine();  // erases the line

  // Whether stderr is a terminal.
  bool is_on() const { return is_on_; }
  // `share`: from 0 to 1. Most calls write nothing: lines have a pause between them.
  void show(const std::string& what, double share);
  // For a step whose share is not known. Writes at once, and only to a terminal.
  void show(const std::string& what);

 private:
  void write(const std::string& text);

  const bool is_on_;
  const bool tells_in_lines_;
  bool is_there_ = false;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace cubfc::cli
