#include "shim/tell/summary.h"

#include "shim/tell/log.h"

namespace cubfc {
namespace {

std::string grouped(std::uint64_t number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) {
      text += ',';
    }
    text += digits[i];
  }
  return text;
}

std::string counted(std::uint64_t number, const char* what) {
  return grouped(number) + " " + what + (number == 1 ? "" : "s");
}

}  // namespace

std::string describe(const Summary& summary) {
  std::uint64_t operations = summary.at_driver.allocations;
  for (const Summary::Arenas& line : summary.arenas) {
    operations += line.of_arenas.allocations + (line.pool ? line.pool->allocations : 0);
  }
  const double each_us = operations == 0 ? 0
                                         : static_cast<double>(summary.time_spent.count()) /
                                               1000.0 / static_cast<double>(operations);
  std::string text;
  const auto next_line = [&] { return text.empty() ? "" : "\ncubfc: "; };
  for (const Summary::Arenas& line : summary.arenas) {
    if (line.pool) {
      text += format(
          "{}GPU {}: peak {} from the pool, {}, {:.1f} µs each with the program's waits, {} failed",
          next_line(), line.device, log::bytes(line.pool->peak_bytes),
          counted(line.pool->allocations, "allocation"), each_us, grouped(line.pool->failures));
    }
    const Summary::Served& served = line.of_arenas;
    if (served.allocations + served.failures > 0) {
      text += format(
          "{}GPU {}: peak {} of {}, {} in {}, {:.1f} µs each with the program's waits, {} failed",
          next_line(), line.device, log::bytes(served.peak_bytes),
          log::bytes(line.peak_bytes_taken), counted(served.allocations, "allocation"),
          counted(line.driver_calls, "driver call"), each_us, grouped(served.failures));
    }
  }
  const Summary::Served& direct = summary.at_driver;
  if (direct.allocations + direct.failures > 0) {
    text += format(
        "{}straight to the driver: peak {}, {}, {:.1f} µs each with the program's waits, {} failed",
        next_line(), log::bytes(direct.peak_bytes), counted(direct.allocations, "allocation"),
        each_us, grouped(direct.failures));
  }
  // Worth a word when it is true.
  if (summary.time_waited >= std::chrono::seconds(1)) {
    text += format(
        "{}frees waited {:.0f} s for the device; CUBFC_FREE=deferred avoids that if the program "
        "does not use cudaFree as a barrier",
        next_line(), std::chrono::duration<double>(summary.time_waited).count());
  }
  return text;
}

}  // namespace cubfc
