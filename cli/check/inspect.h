// What the children of `cubfc check` do. Each function returns one line of JSON, with "error" where
// the driver refuses.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace cubfc::cli::check {

// The driver and its GPUs, as they are without cubfc.
std::string describe_devices();

// {"path": "/usr/lib/libcubfc.so"}, of the preloaded library; "" where none is loaded. Calls no
// driver.
std::string find_preloaded();

// How many GPUs the driver shows: {"count": 2}. Makes no context.
std::string count_devices();

// {"library": "1.2.3"}, the preloaded library's version; "" where none is loaded. Calls no driver.
std::string tell_version();

// As tell_version(), and for each GPU: whether the library served an allocation, and whether this
// memory holds what was written to it.
std::string try_library();

// Allocates a share of each device, or of one, in steps. Writes to all of this memory, reads it,
// and frees it. Shows its progress on stderr.
struct Fill {
  double share = 0;  // of the device's total memory
  std::uint64_t step_bytes = 0;
  std::optional<int> device;  // nothing: each device
};
std::string fill_devices(const Fill& fill);

}  // namespace cubfc::cli::check
