// How long a row is that cuMemAllocPitch gives: the driver's own rule, learnt from its answers.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <optional>

namespace cubfc {

class MemorySources;
struct Device;
struct DriverFunctions;

// Thread-safe.
class Pitch {
 public:
  Pitch(const DriverFunctions& driver, const MemorySources& sources)
      : driver_(driver), sources_(sources) {}

  // Of rows of `width` bytes, in bytes. Nothing for what the driver does not take, or what it alone
  // can answer. A context of the device is current.
  std::optional<std::size_t> row_bytes(Device& device, std::size_t width,
                                       unsigned element_bytes) const;

 private:
  std::size_t alignment(Device& device, unsigned element_bytes) const;

  const DriverFunctions& driver_;
  const MemorySources& sources_;
};

}  // namespace cubfc
