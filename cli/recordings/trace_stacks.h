// The stacks in a trace: each is written before the allocation that it is of, as return addresses,
// which what is loaded at that moment gives names.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace cubfc::recordings {

class TraceStacks {
 public:
  // A payload of trace::Kind::kObjects: what is loaded from here on. Lines that cannot be read name
  // nothing.
  void set_objects(std::string_view lines);

  // A payload of trace::Kind::kStack, for the thread's next allocation. Adds it to `stacks` if it
  // is a new one. False where it is not of whole addresses, or all stacks take more than
  // kMostStackText.
  bool add(std::uint16_t thread, std::string_view payload,
           std::vector<std::vector<std::string>>& stacks);
  // Of an allocation of the thread: which of `stacks`, or kNone.
  std::uint32_t take(std::uint16_t thread);

 private:
  struct Object {
    std::uint64_t end = 0;
    std::uint64_t offset = 0;
    std::string path;
  };

  void add_object(std::string_view line);
  std::string frame(std::uint64_t address) const;

  std::map<std::uint64_t, Object> objects_;                     // by where they begin
  std::unordered_map<std::string, std::uint32_t> known_;        // by their addresses
  std::unordered_map<std::uint16_t, std::uint32_t> of_thread_;  // that wait for its allocation
  std::uint64_t text_bytes_ = 0;
};

}  // namespace cubfc::recordings
