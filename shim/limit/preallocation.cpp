#include "shim/limit/preallocation.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <new>

#include "arena/units.h"
#include "shim/driver/physical.h"
#include "shim/driver/relaxed_capture.h"
#include "shim/patience.h"

namespace cubfc {
namespace {

// The memory is created in pieces of a 60th of the device, so that it takes few driver calls. One
// 60th is created in smaller pieces: the first is a 16th of it, and each next one is as large as
// all before it together. (The slices of an arena grow in the same way.) That makes 64 pieces at
// most. When a piece was released for a smaller request, the rest is created again in pieces of
// that request's size, but at least of a 16th of a 60th.
constexpr std::uint64_t kLargePieces = 60;
constexpr std::uint64_t kSmallPieces = 16 * kLargePieces;

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

void Preallocation::plan(std::uint64_t bytes, IfLess if_less) noexcept {
  const std::lock_guard lock(mutex_);
  if (planned() == 0) {
    if_less_ = if_less;
    planned_ = bytes;
  }
}

void Preallocation::after(std::uint64_t released, std::uint64_t taken) noexcept {
  if (planned() > 0 && !begun_.exchange(true)) {
    begin(taken);
  } else if (released > taken) {
    hold_for_more(released - taken, taken);
  }
}

// Creates what was planned, less the bytes that the arena has `taken`.
void Preallocation::begin(std::uint64_t taken) noexcept {
  const Held held = hold_in_pieces(arena::less(planned(), taken), small_piece_, large_piece_);
  if (held.device_has_less && if_less_ == IfLess::kLeaveQuarter) {
    make_way(std::min((held.bytes + taken) / 4, held.bytes));
  }
}

// Creates so many bytes in pieces of the size of `request`, for more requests of that size. A piece
// has at least small_piece_ and at most large_piece_ bytes. Returns the bytes that were created.
std::uint64_t Preallocation::hold_for_more(std::uint64_t bytes, std::uint64_t request) noexcept {
  if (!possible()) {
    return 0;
  }
  const std::uint64_t piece = std::clamp(
      arena::round_up(std::min(request, large_piece_), granularity_), small_piece_, large_piece_);
  return hold_in_pieces(bytes, piece, piece).bytes;
}

bool Preallocation::take(Piece& piece, std::uint64_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  if (pieces_.empty()) {
    return false;
  }
  piece = pieces_.take(bytes);
  bytes_.fetch_sub(piece.bytes, std::memory_order_release);
  use_.no_longer_reserved(piece.handle, piece.bytes);
  releasing_ += piece.bytes;
  return true;
}

std::uint64_t Preallocation::give_up(std::uint64_t bytes, std::uint64_t wanted) noexcept {
  const std::uint64_t given = make_way(bytes);
  const bool is_too_much = given > wanted && given - wanted > small_piece_;
  return given - (is_too_much ? hold_for_more(given - wanted, wanted) : 0);
}

std::uint64_t Preallocation::give_to_others(std::uint64_t bytes, std::uint64_t wanted) noexcept {
  {
    std::unique_lock lock(mutex_);
    ++asked_;
    driver_is_back_.wait_for(lock, patience::kForDriverCall, [&] { return creating_ == 0; });
  }
  return give_up(bytes, wanted);
}

std::uint64_t Preallocation::bytes_for_others() noexcept {
  const std::lock_guard lock(mutex_);
  return at_most();
}

bool Preallocation::is_still() noexcept {
  const std::lock_guard lock(mutex_);
  return creating_ == 0 && releasing_ == 0;
}

// The most that the device may count as taken for this object at this moment, in bytes.
// Precondition: the lock is held.
std::uint64_t Preallocation::at_most() const noexcept {
  return bytes() + creating_ + releasing_;
}

// When the driver does not take a piece back, the piece stays held, and no more are released.
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
      keep(piece, Ended::kKeep);
    }
    {
      const std::lock_guard lock(mutex_);
      releasing_ -= piece.bytes;
    }
    driver_is_back_.notify_all();
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

// How many bytes of a new piece the limit has room for; they count as being created from now on. 0
// when end() was called, or when another process has asked since asked_so_far() answered `asked`.
std::uint64_t Preallocation::reserve_room(std::uint64_t bytes, std::uint64_t asked) noexcept {
  const std::lock_guard lock(mutex_);
  const std::uint64_t there = at_most();
  const std::uint64_t left = budget_.left();
  const std::uint64_t room =
      planned() == 0 || asked_ != asked
          ? 0
          : arena::round_down(std::min(bytes, left - std::min(left, there)), granularity_);
  creating_ += room;
  return room;
}

// Holds the piece. False when the host has no memory to record it, or when end() was called and
// `if_ended` is kRefuse.
bool Preallocation::keep(Piece piece, Ended if_ended) noexcept try {
  const std::lock_guard lock(mutex_);
  if (planned() == 0 && if_ended == Ended::kRefuse) {
    return false;
  }
  pieces_.add(piece);
  bytes_.fetch_add(piece.bytes, std::memory_order_release);
  use_.reserved(piece.handle, piece.bytes);
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

void Preallocation::hold(std::uint64_t bytes) noexcept {
  hold_in_pieces(bytes, large_piece_, large_piece_);
}

// Creates so many bytes: the first piece of size `first`, each next one as large as all before it
// together, up to `most`. So each of an arena's first growths finds a piece of its size. The pieces
// become smaller when the device has too little.
Preallocation::Held Preallocation::hold_in_pieces(std::uint64_t bytes, std::uint64_t first,
                                                  std::uint64_t most) noexcept {
  bool device_has_less = false;
  std::uint64_t held = 0;
  if (!possible()) {
    return {held, device_has_less};
  }
  const RelaxedCapture relaxed(driver_);
  const CUmemAllocationProp properties = physical_memory_of(driver_, device_);
  const std::uint64_t asked = asked_so_far();
  while (bytes >= granularity_ && most >= granularity_) {
    Piece piece{0, reserve_room(std::min({bytes, std::max(held, first), most}), asked)};
    if (piece.bytes == 0) {
      break;
    }
    const CUresult result = driver_.cuMemCreate(&piece.handle, piece.bytes, &properties, 0);
    use_.driver_called();
    const bool kept = result == CUDA_SUCCESS && keep(piece, Ended::kRefuse);
    if (result == CUDA_SUCCESS && !kept) {
      driver_.cuMemRelease(piece.handle);
    }
    {
      const std::lock_guard lock(mutex_);
      creating_ -= piece.bytes;
    }
    driver_is_back_.notify_all();
    if (kept) {
      held += piece.bytes;
      bytes -= piece.bytes;
    } else if (result == CUDA_ERROR_OUT_OF_MEMORY) {
      device_has_less = true;
      most = arena::round_down(piece.bytes / 2, granularity_);
    } else {
      break;
    }
  }
  keep_to_limit();
  return {held, device_has_less};
}

// Waits for what another thread creates or releases at this moment, since that counts, too.
void Preallocation::keep_to_limit() noexcept {
  if (!budget_.limited()) {
    return;
  }
  for (;;) {
    std::uint64_t over = 0;
    {
      std::unique_lock lock(mutex_);
      driver_is_back_.wait_for(lock, patience::kForDriverCall, [&] {
        return creating_ + releasing_ == 0 || at_most() <= budget_.left();
      });
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
    driver_is_back_.wait_for(lock, patience::kForDriverCall, [&] { return creating_ == 0; });
  }
  make_way(arena::kLargestRequestBytes);
}

}  // namespace cubfc
