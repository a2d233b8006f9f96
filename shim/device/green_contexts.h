// Green contexts: a program makes one for a part of a device (cuGreenCtxCreate) and turns it into a
// context (cuCtxFromGreenCtx), which uses the memory of the device's primary context.
#pragma once

#include <cuda.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

namespace cubfc {

// Thread-safe. Throws std::bad_alloc and has changed nothing then.
class GreenContexts {
 public:
  void made(const void* green, CUdevice device) {
    const std::lock_guard lock(mutex_);
    devices_[green] = device;
  }
  // Called before the green context ends: its handle may mean another one after that.
  void will_end(const void* green) {
    const std::lock_guard lock(mutex_);
    devices_.erase(green);
  }
  bool any() const {
    const std::lock_guard lock(mutex_);
    return !devices_.empty() || !context_ids_.empty();
  }
  // Nothing if the call that made it was not seen.
  std::optional<CUdevice> device_of(const void* green) const {
    const std::lock_guard lock(mutex_);
    const auto known = devices_.find(green);
    return known == devices_.end() ? std::nullopt : std::optional(known->second);
  }

  // Called when a green context was turned into the context of this id (cuCtxGetId).
  void turned_into(std::uint64_t context_id) {
    const std::lock_guard lock(mutex_);
    if (std::find(context_ids_.begin(), context_ids_.end(), context_id) == context_ids_.end()) {
      context_ids_.push_back(context_id);
    }
  }
  bool is_green(std::uint64_t context_id) const {
    const std::lock_guard lock(mutex_);
    return std::find(context_ids_.begin(), context_ids_.end(), context_id) != context_ids_.end();
  }

 private:
  mutable std::mutex mutex_;  // guards both
  std::map<const void*, CUdevice> devices_;
  std::vector<std::uint64_t> context_ids_;
};

}  // namespace cubfc
