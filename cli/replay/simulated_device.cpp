#include "cli/replay/simulated_device.h"

#include <utility>

namespace cubfc::replay {
namespace {

constexpr int kOutOfMemory = 2;  // CUDA_ERROR_OUT_OF_MEMORY

}  // namespace

bool SimulatedMemory::take(arena::Address base, std::uint64_t bytes) {
  if (!device_.take(bytes)) {
    return false;
  }
  taken_ += bytes;
  if (listener_ != nullptr) {
    listener_->grew(base, bytes);
  }
  return true;
}

void SimulatedMemory::give(arena::Address base, std::uint64_t bytes) {
  device_.give(bytes);
  taken_ -= bytes;
  ++calls_;
  if (listener_ != nullptr) {
    listener_->shrank(base, bytes);
  }
}

// Bases are multiples of 2 MiB, as the driver's are.
arena::MemorySource::Region SimulatedMemory::obtain(std::uint64_t bytes) noexcept {
  ++calls_;
  std::vector<arena::Address>& unused = unused_[bytes];
  const arena::Address base = unused.empty() ? next_ : unused.back();
  if (!take(base, bytes)) {
    return {0, kOutOfMemory, true};
  }
  if (unused.empty()) {
    next_ += arena::round_up(bytes, arena::kSourceUnitBytes) + arena::kSourceUnitBytes;
  } else {
    unused.pop_back();
  }
  return {base, 0, false};
}

void SimulatedMemory::release(std::span<const Extent> regions) noexcept {
  for (const auto& [base, bytes] : regions) {
    unused_[bytes].push_back(base);
    give(base, bytes);
  }
}

arena::MemorySource::Region SimulatedMemory::reserve(std::uint64_t bytes) noexcept {
  ++calls_;
  const arena::Address base = std::exchange(next_, next_ + bytes);
  return {base, 0, false};
}

// Counts a driver call for each page, since the driver maps page by page.
arena::MemorySource::Region SimulatedMemory::map(arena::Address base,
                                                 std::uint64_t bytes) noexcept {
  calls_ += bytes / page_bytes_;
  return take(base, bytes) ? Region{base, 0, false} : Region{0, kOutOfMemory, true};
}

bool SimulatedMemory::unmap(arena::Address base, std::uint64_t bytes) noexcept {
  give(base, bytes);
  return true;
}

void SimulatedMemory::forget() {
  device_.give(std::exchange(taken_, 0));
}

}  // namespace cubfc::replay
