// The stacks of allocations that are recorded. A stack is captured before the arena's lock is
// taken, and recorded under it.
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

  // `depth`: the most frames of a stack; 0: none are captured.
  explicit Stacks(std::uint32_t depth)
      : depth_(depth < kMostFrames ? depth : std::uint32_t{kMostFrames}) {}
  std::uint32_t depth() const noexcept { return depth_; }

  // Captures the calling thread's stack, from the program's call (`return_address`) on, for take().
  // Must not be called under a lock that a library's constructor may wait for: unwinding may take
  // the dynamic linker's lock. `wanted`: Capture also says whether a function of the stack lies in
  // this object. For that some 1,000 frames are looked at, however small the depth.
  struct Capture {
    std::span<const std::uintptr_t> frames;
    bool is_in_wanted;
  };
  Capture capture(const void* return_address, const ObjectRange& wanted) noexcept;
  // The stack that the calling thread has captured last; empty if it was taken before. Valid until
  // the thread captures again.
  std::span<const std::uintptr_t> take() noexcept;

  // If any of these frames lies in code that the last call of `tell` has not listed, and objects
  // have been loaded or unloaded since that call, calls `tell` with the text of
  // trace::Kind::kObjects, which lists the code that is loaded. Other threads that call this
  // function wait meanwhile, so each stack is recorded after the code that its frames lie in.
  // Throws std::bad_alloc.
  void tell_new_objects(std::span<const std::uintptr_t> frames,
                        const std::function<void(const std::string& text)>& tell);

 private:
  struct Range {
    std::uintptr_t start;
    std::uintptr_t end;
  };

  bool is_known(std::uintptr_t frame) const;

  const std::uint32_t depth_;
  std::mutex mutex_;           // guards what follows; only kObjects are recorded under it
  std::vector<Range> code_;    // the code that `tell` has listed, by address
  std::uint64_t told_at_ = 0;  // objects_generation() then
};

}  // namespace cubfc
