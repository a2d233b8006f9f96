// The length of the rows that cuMemAllocPitch gives (the pitch), by the driver's own rule, which is
// learnt from the driver's answers.
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

  // The pitch in bytes for rows of `width` bytes. Nothing if the driver does not take this element
  // size or this width, or if the rule could not be learnt: then the driver must be asked.
  // Precondition: a context of the device is current.
  std::optional<std::size_t> row_bytes(Device& device, std::size_t width,
                                       unsigned element_bytes) const;

 private:
  std::size_t alignment(Device& device, unsigned element_bytes) const;

  const DriverFunctions& driver_;
  const MemorySources& sources_;
};

}  // namespace cubfc
