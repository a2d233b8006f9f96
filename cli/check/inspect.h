// What the children of `cubfc check` do. Each writes one line of JSON, {"error": ...} where the
// driver refuses.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace cubfc::cli::check {

// The driver and its GPUs, as they are without cubfc.
std::string describe_devices();

// To be executed with the library preloaded, if it is: {"path": where it lies}; "" where it is not.
// Asks no driver.
std::string find_preloaded();

// How many GPUs the driver shows: {"count": 2}. Makes no context.
std::string count_devices();

// To be executed with the library preloaded: {"library": which version of it is there}, "" where
// there is none. Asks no driver.
std::string tell_version();

// The same, and whether an allocation on each GPU is served by it, and holds what is written to it.
std::string try_library();

// Takes a share of each device, or of one of them, in steps, writes to all of it, reads it back and
// gives it back. Shows how far it is.
struct Fill {
  double share = 0;  // of the device's total memory
  std::uint64_t step_bytes = 0;
  std::optional<int> device;  // all
};
std::string fill_devices(const Fill& fill);

}  // namespace cubfc::cli::check
