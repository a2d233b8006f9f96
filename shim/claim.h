// What the program holds of a device beside its arenas.
#pragma once

#include <optional>
#include <utility>

#include "shim/device.h"

namespace cubfc {

// Bytes of a device's limit, held until the object goes. Thread-safe like the limit itself.
class Claim {
 public:
  // Nothing when the limit has not that much left.
  static std::optional<Claim> take(Device& device, Holding holding, std::uint64_t bytes) noexcept {
    if (device.is_limited(holding) && !device.budget.take(bytes)) {
      return std::nullopt;
    }
    device.held(holding).fetch_add(bytes, std::memory_order_relaxed);
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
      device_->held(holding_).fetch_sub(bytes_, std::memory_order_relaxed);
      if (device_->is_limited(holding_)) {
        device_->budget.give(bytes_);
      }
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
