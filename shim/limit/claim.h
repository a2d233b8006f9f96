// One piece of what the program holds of a device beside its arenas.
#pragma once

#include <optional>
#include <utility>

#include "shim/limit/device_limit.h"

namespace cubfc {

// Bytes of a device's limit, held until the object goes. Thread-safe like the limit itself.
class Claim {
 public:
  // Nothing when the limit has too little left. `pool`, if known, is the one that will serve: what
  // it has reserved already is not taken a second time.
  static std::optional<Claim> take(DeviceLimit& limit, Holding holding, std::uint64_t bytes,
                                   CUmemoryPool pool = nullptr) noexcept {
    std::uint64_t pool_id = 0;
    if (!limit.take(holding, bytes, pool, pool_id)) {
      return std::nullopt;
    }
    return Claim(limit, holding, bytes, pool_id);
  }

  Claim(Claim&& other) noexcept
      : limit_(std::exchange(other.limit_, nullptr)),
        holding_(other.holding_),
        bytes_(other.bytes_),
        pool_id_(other.pool_id_) {}
  Claim& operator=(Claim&& other) noexcept {
    std::swap(limit_, other.limit_);
    std::swap(holding_, other.holding_);
    std::swap(bytes_, other.bytes_);
    std::swap(pool_id_, other.pool_id_);
    return *this;
  }
  ~Claim() {
    if (limit_ != nullptr) {
      limit_->give(holding_, bytes_, pool_id_);
    }
  }
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;

  std::uint64_t bytes() const noexcept { return bytes_; }

  // Ends the claim without giving its bytes back to the limit: they stay taken for good.
  void leave() noexcept { limit_ = nullptr; }

 private:
  Claim(DeviceLimit& limit, Holding holding, std::uint64_t bytes, std::uint64_t pool_id)
      : limit_(&limit), holding_(holding), bytes_(bytes), pool_id_(pool_id) {}

  DeviceLimit* limit_;
  Holding holding_;
  std::uint64_t bytes_;
  std::uint64_t pool_id_;
};

}  // namespace cubfc
