// Compares what a program writes in several runs, line by line. Tells lines that differ in every
// run from those that differ under cubfc.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cubfc::cli::compare {

// The lines of a text, each with its line end, so that no byte is lost.
using Lines = std::vector<std::string>;
Lines lines_of(std::string_view text);

// What two runs of the same program have written to the same stream.
class Twice {
 public:
  Twice(Lines bare, Lines again);

  // The differences between the first run and `other`, as a diff. Empty where `other` equals one of
  // the two runs. If these two differ, also empty where `other` has the lines that both have, in
  // their order, and as many other lines as one of them, or a number between.
  Lines differences_of(const Lines& other) const;
  // How many lines of the first run are not in the second: lines that are different every time.
  std::size_t num_loose() const { return bare_.size() - stable_.size(); }

 private:
  Lines bare_;
  Lines again_;
  Lines stable_;  // the lines that both have, in their order
};

}  // namespace cubfc::cli::compare
