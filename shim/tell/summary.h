// The summary at exit (CUBFC_SHOW_STATS). All that it says is handed to it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cubfc {

struct Summary {
  struct Served {
    std::uint64_t allocations = 0;
    std::uint64_t failures = 0;
    std::uint64_t peak_bytes = 0;  // in use
  };
  struct Arenas {  // of one device
    int device = 0;
    Served of_arenas;
    std::uint64_t peak_bytes_taken = 0;  // from the device
    std::uint64_t driver_calls = 0;      // by which it was taken and given back
    std::optional<Served> pool;          // what is served beside arenas
  };
  std::vector<Arenas> arenas;
  Served at_driver;                        // what went straight to the driver
  std::chrono::nanoseconds time_spent{};   // in allocations and frees, waits included
  std::chrono::nanoseconds time_waited{};  // by frees, for the device
};

// A line for each device and each way of serving, without "cubfc: " before the first; empty when
// there is nothing to say.
std::string describe(const Summary& summary);

}  // namespace cubfc
