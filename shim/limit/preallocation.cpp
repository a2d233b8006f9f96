#include "shim/limit/preallocation.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <new>

#include "arena/units.h"
#include "shim/driver/captures.h"
#include "shim/driver/physical.h"

namespace cubfc {
namespace {

// Most of the memory is in pieces of a 64th of the device, so that it is taken in few calls; a part
// is in smaller ones, so that what is taken back after a request is little.
constexpr std::uint64_t kLargePieces = 64;
constexpr std::uint64_t kSmallPieces = 1024;

// For another thread's driver call.
constexpr std::chrono::seconds kPatienceForDriver{2};

}  // namespace

Preallocation::Preallocation(const DriverFunctions& driver, CUdevice device,
                             const arena::Budget& budget, std::uint64_t device_bytes,
                             DeviceUse& use) noexcept
    : driver_(driver),
      device_(device),
      budget_(budget),
      use_(use),
      granularity_(physical_granularity(driver, device)),
      large_piece_(part_of(device_bytes, kLargePieces)),
      small_piece_(part_of(device_bytes, kSmallPieces)) {}

std::uint64_t Preallocation::part_of(std::uint64_t device_bytes,
                                     std::uint64_t parts) const noexcept {
  return granularity_ == 0
             ? 0
             : std::max(arena::round_up(device_bytes / parts, granularity_), granularity_);
}

void Preallocation::plan(std::uint64_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  if (planned() == 0) {
    planned_ = bytes;
  }
}

void Preallocation::after(std::uint64_t given_up, std::uint64_t taken) noexcept {
  if (planned() > 0 && !begun_.exchange(true)) {
    hold(planned() - std::min(planned(), taken));
  } else if (given_up > taken) {
    hold(given_up - taken);
  }
}

// The smallest that is large enough, else the largest.
bool Preallocation::take(Piece& piece, std::uint64_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  if (pieces_.empty()) {
    return false;
  }
  auto chosen =
      std::lower_bound(pieces_.begin(), pieces_.end(), bytes,
                       [](const Piece& each, std::uint64_t least) { return each.bytes < least; });
  chosen = chosen == pieces_.end() ? std::prev(chosen) : chosen;
  piece = *chosen;
  pieces_.erase(chosen);
  bytes_.fetch_sub(piece.bytes, std::memory_order_release);
  use_.no_longer_reserved(piece.handle, piece.bytes);
  moving_ += piece.bytes;
  return true;
}

std::uint64_t Preallocation::give_up(std::uint64_t bytes) noexcept {
  const std::uint64_t given = make_way(bytes);
  if (given > bytes && given - bytes > small_piece_) {
    hold(given - bytes);
  }
  return given;
}

std::uint64_t Preallocation::give_to_others(std::uint64_t bytes) noexcept {
  {
    std::unique_lock lock(mutex_);
    ++asked_;
    landed_.wait_for(lock, kPatienceForDriver, [&] { return in_flight_ == 0; });
  }
  return give_up(bytes);
}

std::uint64_t Preallocation::bytes_for_others() noexcept {
  const std::lock_guard lock(mutex_);
  return at_most();
}

// What the device may count as taken at this moment. Precondition: the lock is held.
std::uint64_t Preallocation::at_most() const noexcept {
  return bytes() + in_flight_ + moving_;
}

// A piece that the driver does not take back is kept.
std::uint64_t Preallocation::make_way(std::uint64_t bytes) noexcept {
  if (this->bytes() == 0) {
    return 0;
  }
  const RelaxedCapture relaxed(driver_);
  std::uint64_t released = 0;
  Piece piece{};
  while (released < bytes && take(piece, bytes - released)) {
    use_.driver_called();
    const bool is_released = driver_.cuMemRelease(piece.handle) == CUDA_SUCCESS;
    if (!is_released) {
      keep(piece, Over::kAlso);
    }
    {
      const std::lock_guard lock(mutex_);
      moving_ -= piece.bytes;
    }
    landed_.notify_all();
    if (!is_released) {
      break;
    }
    released += piece.bytes;
  }
  return released;
}

std::uint64_t Preallocation::asked_so_far() noexcept {
  const std::lock_guard lock(mutex_);
  return asked_;
}

// Of a piece of so many bytes, what the limit has room for; it is in flight then. 0 once it is
// over, or others have asked.
std::uint64_t Preallocation::reserve_room(std::uint64_t bytes, std::uint64_t asked) noexcept {
  const std::lock_guard lock(mutex_);
  const std::uint64_t there = at_most();
  const std::uint64_t left = budget_.left();
  const std::uint64_t room =
      planned() == 0 || asked_ != asked
          ? 0
          : arena::round_down(std::min(bytes, left - std::min(left, there)), granularity_);
  in_flight_ += room;
  return room;
}

// False when the host has no memory for its record, or it is over.
bool Preallocation::keep(Piece piece, Over over) noexcept try {
  const std::lock_guard lock(mutex_);
  if (planned() == 0 && over == Over::kNot) {
    return false;
  }
  const auto place =
      std::upper_bound(pieces_.begin(), pieces_.end(), piece.bytes,
                       [](std::uint64_t size, const Piece& each) { return size < each.bytes; });
  pieces_.insert(place, piece);
  bytes_.fetch_add(piece.bytes, std::memory_order_release);
  use_.reserved(piece.handle, piece.bytes);
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

// Smaller pieces when the device has too little for one.
void Preallocation::hold(std::uint64_t bytes) noexcept {
  if (granularity_ == 0) {
    return;
  }
  const RelaxedCapture relaxed(driver_);
  const CUmemAllocationProp properties = physical_memory_of(driver_, device_);
  std::uint64_t most = large_piece_;
  const std::uint64_t asked = asked_so_far();
  while (bytes >= granularity_ && most >= granularity_) {
    const std::uint64_t next = bytes > 2 * large_piece_ ? large_piece_ : small_piece_;
    Piece piece{0, reserve_room(std::min({bytes, next, most}), asked)};
    if (piece.bytes == 0) {
      break;
    }
    const CUresult result = driver_.cuMemCreate(&piece.handle, piece.bytes, &properties, 0);
    use_.driver_called();
    const bool kept = result == CUDA_SUCCESS && keep(piece, Over::kNot);
    if (result == CUDA_SUCCESS && !kept) {
      driver_.cuMemRelease(piece.handle);
    }
    {
      const std::lock_guard lock(mutex_);
      in_flight_ -= piece.bytes;
    }
    landed_.notify_all();
    if (kept) {
      bytes -= piece.bytes;
    } else if (result == CUDA_ERROR_OUT_OF_MEMORY) {
      most = arena::round_down(piece.bytes / 2, granularity_);
    } else {
      break;
    }
  }
  keep_to_limit();
}

// What another thread is just taking, or giving back, is waited for: the device counts it.
void Preallocation::keep_to_limit() noexcept {
  if (!budget_.limited()) {
    return;
  }
  for (;;) {
    std::uint64_t over = 0;
    {
      std::unique_lock lock(mutex_);
      landed_.wait_for(lock, kPatienceForDriver,
                       [&] { return in_flight_ + moving_ == 0 || at_most() <= budget_.left(); });
      over = bytes() - std::min(bytes(), budget_.left());
    }
    if (over == 0 || make_way(over) == 0) {
      return;
    }
  }
}

void Preallocation::end() noexcept {
  {
    std::unique_lock lock(mutex_);
    planned_ = 0;
    begun_ = false;
    landed_.wait_for(lock, kPatienceForDriver, [&] { return in_flight_ == 0; });
  }
  make_way(arena::kLargestRequestBytes);
}

}  // namespace cubfc
