// What programs write, line by line: what is different every time, and what is different with
// cubfc.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cubfc::cli::compare {

// With their ends, so that no byte is lost.
using Lines = std::vector<std::string>;
Lines lines_of(std::string_view text);

// What two runs of the same have written.
class Twice {
 public:
  Twice(Lines bare, Lines again);

  // What is different in `other`, as a diff; empty when there is nothing but what differs between
  // the two, too.
  Lines differences_of(const Lines& other) const;
  // Lines of the first that are different every time.
  std::size_t num_loose() const { return bare_.size() - stable_.size(); }

 private:
  Lines bare_;
  Lines again_;
  Lines stable_;  // that are in both, in their order
};

}  // namespace cubfc::cli::compare
