// A buffer of the host's through which the bytes of pages are copied (sleeper.h). It is pinned if
// the driver pins it, and kept, because pinning takes long.
#pragma once

#include <cstdint>

#include "shim/driver/driver.h"

namespace cubfc {

class Contexts;

// Not thread-safe. Its memory is never unmapped. The pinning ends with the context in which it was
// done, which may be at any time. The memory can be used all the same.
class CopyBuffer {
 public:
  CopyBuffer(const DriverFunctions& driver, Contexts& contexts)
      : driver_(driver), contexts_(contexts) {}

  // At least so many bytes. nullptr if the host has no memory for them. Precondition: a context is
  // current.
  char* of_bytes(std::uint64_t bytes) noexcept;

 private:
  const DriverFunctions& driver_;
  Contexts& contexts_;
  char* memory_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::uint64_t pinned_by_ = 0;  // id of the context in which it was pinned; 0: in none
};

}  // namespace cubfc
