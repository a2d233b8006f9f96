// What the program holds of a device beside its arenas.
#pragma once

#include <optional>
#include <utility>

#include "shim/device.h"

namespace cubfc {

// Bytes of a device's limit, held until the object goes. Thread-safe like the limit itself.
class Claim {
 public:
  // Nothing when the limit has not that much left. `pool` is what will serve it, if one does: what
  // it has idle is counted already.
  static std::optional<Claim> take(Device& device, Holding holding, std::uint64_t bytes,
                                   CUmemoryPool pool = nullptr) noexcept {
    if (!device.take(holding, bytes, pool)) {
      return std::nullopt;
    }
    return Claim(device, holding, bytes);
  }

  Claim(Claim&& other) noexcept
      : device_(std::exchange(other.device_, nullptr)),
        holding_(other.holding_),
        bytes_(other.bytes_) {}
  Claim& operator=(Claim&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(holding_, other.holding_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Claim() {
    if (device_ != nullptr) {
      device_->give(holding_, bytes_);
    }
  }
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;

  std::uint64_t bytes() const noexcept { return bytes_; }

  // Nobody will give it back.
  void leave() noexcept { device_ = nullptr; }

 private:
  Claim(Device& device, Holding holding, std::uint64_t bytes)
      : device_(&device), holding_(holding), bytes_(bytes) {}

  Device* device_;
  Holding holding_;
  std::uint64_t bytes_;
};

}  // namespace cubfc
