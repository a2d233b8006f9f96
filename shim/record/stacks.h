// The stacks of allocations that are recorded: captured before the arena's lock is taken, written
// down under it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "shim/loader/exported_symbols.h"

namespace cubfc {

// Thread-safe.
class Stacks {
 public:
  static constexpr std::size_t kMostFrames = 64;

  // `depth`: frames of each stack, at most; 0: none are captured.
  explicit Stacks(std::uint32_t depth)
      : depth_(depth < kMostFrames ? depth : std::uint32_t{kMostFrames}) {}
  std::uint32_t depth() const noexcept { return depth_; }

  // Captures the calling thread's stack, from where the program's call returns to, until take()
  // takes it. Must not be called under a lock that a library's constructor may wait for: finding
  // the way up may take the dynamic linker's. `wanted`: also says whether a function of the whole
  // stack, however deep, lies there.
  struct Capture {
    std::span<const std::uintptr_t> frames;
    bool is_in_wanted;
  };
  Capture capture(const void* return_address, const ObjectRange& wanted) noexcept;
  // What the calling thread has captured last; empty when that was taken before. Valid until the
  // thread captures again.
  std::span<const std::uintptr_t> take() noexcept;

  // Calls `tell` with what code is loaded, for trace::Kind::kObjects, if any of these frames lies
  // in code that was not told of. Nobody's new frames are told of before. Throws std::bad_alloc.
  void tell_new_objects(std::span<const std::uintptr_t> frames,
                        const std::function<void(const std::string& text)>& tell);

 private:
  struct Range {
    std::uintptr_t start;
    std::uintptr_t end;
  };

  bool is_known(std::uintptr_t frame) const;

  const std::uint32_t depth_;
  std::mutex mutex_;           // guards what follows; nothing is recorded under it but objects
  std::vector<Range> code_;    // that was told of, by address
  std::uint64_t told_at_ = 0;  // objects_generation() then
};

}  // namespace cubfc
