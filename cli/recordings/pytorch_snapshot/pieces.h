// A set of addresses. Knows nothing of what lies there.
#pragma once

#include <cstdint>
#include <map>

namespace cubfc::recordings {

// Addresses that are in use, in pieces that do not overlap.
class Pieces {
 public:
  void add(std::uint64_t begin, std::uint64_t end);
  void remove(std::uint64_t begin, std::uint64_t end);
  // Where each piece ends, by where it begins.
  const std::map<std::uint64_t, std::uint64_t>& ends() const { return ends_; }

 private:
  std::map<std::uint64_t, std::uint64_t> ends_;
};

}  // namespace cubfc::recordings
