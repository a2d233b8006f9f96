// One piece of device memory that the program holds outside of the arenas, as the limit counts it.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>

#include "shim/limit/device_limit.h"

namespace cubfc {

// Bytes that are taken of a device's limit until this object is destroyed. Claims of one limit may
// be used by several threads at once, one claim by one thread.
class Claim {
 public:
  // Returns nothing when the limit has too little left. `pool`: the pool that will serve the
  // request, if it is known. What that pool has reserved already is not taken a second time.
  static std::optional<Claim> take(DeviceLimit& limit, Memory memory, std::uint64_t bytes,
                                   CUmemoryPool pool = nullptr) noexcept {
    std::uint64_t pool_id = 0;
    if (!limit.take(memory, bytes, pool, pool_id)) {
      return std::nullopt;
    }
    return Claim(limit, memory, bytes, pool_id);
  }

  Claim(Claim&& other) noexcept
      : limit_(std::exchange(other.limit_, nullptr)),
        memory_(other.memory_),
        bytes_(other.bytes_),
        pool_id_(other.pool_id_),
        address_(other.address_),
        caller_(other.caller_),
        in_use_(other.in_use_) {}
  Claim& operator=(Claim&& other) noexcept {
    std::swap(limit_, other.limit_);
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
    std::swap(pool_id_, other.pool_id_);
    std::swap(address_, other.address_);
    std::swap(caller_, other.caller_);
    std::swap(in_use_, other.in_use_);
    return *this;
  }
  ~Claim() {
    end_use();
    if (limit_ != nullptr) {
      limit_->give(memory_, bytes_, pool_id_);
    }
  }
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;

  std::uint64_t bytes() const noexcept { return bytes_; }

  // Called when the program gets the memory. Adds it to the device's figures, for the caller that
  // Callers::asking() names at that moment. `address`: the memory's address; 0 if it has none, or
  // if other memory may get that address before this claim ends.
  void begin_use(std::uint64_t address = 0) noexcept {
    address_ = address != 0 ? address : ++last_number_;
    caller_ = limit_->callers_.asking();
    in_use_ = true;
    limit_->use_.begin(piece());
  }
  // Takes the memory out of the device's figures; without this call the destructor does. Called
  // before the driver frees the memory, since another thread may get the same address right after
  // that. If the driver does not free it, go_on_with_use() is called.
  void end_use() noexcept {
    if (limit_ != nullptr && std::exchange(in_use_, false)) {
      limit_->use_.end(piece());
    }
  }
  void go_on_with_use() noexcept {
    in_use_ = true;
    limit_->use_.end_undone(piece());
  }

  // Ends the claim without giving its bytes back to the limit: they stay taken for good.
  void leave() noexcept { limit_ = nullptr; }

 private:
  Claim(DeviceLimit& limit, Memory memory, std::uint64_t bytes, std::uint64_t pool_id)
      : limit_(&limit), memory_(memory), bytes_(bytes), pool_id_(pool_id) {}

  DeviceUse::Piece piece() const noexcept { return {memory_, bytes_, address_, caller_}; }

  // Stands in for the address of memory that has none; higher than any address.
  static inline std::atomic<std::uint64_t> last_number_{std::uint64_t{1} << 63};

  DeviceLimit* limit_;
  Memory memory_;
  std::uint64_t bytes_;
  std::uint64_t pool_id_;
  std::uint64_t address_ = 0;
  arena::Caller caller_ = 0;
  bool in_use_ = false;
};

}  // namespace cubfc
