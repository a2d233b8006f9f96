// Searches for memory when a request lacks it, as Search in shim/source/ does. Only the device's
// arenas give memory back here; the library's Search has other sources, too.
#pragma once

#include <cstdint>
#include <vector>

#include "cli/replay/played_arena.h"
#include "cli/replay/simulated_device.h"

namespace cubfc::replay {

// What a request needs.
struct Need {
  std::uint64_t bytes = 0;
  bool of_device = true;  // whether the memory is the device's
  bool counted = true;    // whether the limit counts it
};

// For one request. The caller tries it again each time that finds_more() is true.
class Search {
 public:
  // `arenas`: all that are on the device. Both must outlive the object.
  Search(const SimulatedDevice& device, const std::vector<PlayedArena*>& arenas, const Need& need)
      : device_(device), arenas_(arenas), need_(need) {}

  // Tells the search by how many bytes the arena would grow for the request.
  void growth_is(std::uint64_t bytes) { growth_ = bytes; }

  // Has the arenas give back memory that they do not use. If none gave any, and with Waits::kYes,
  // makes the oldest freed blocks of one arena free (PlayedArena::wait()). True: the request may
  // succeed now. False: nothing is left, or there were enough tries. False at once, with nothing
  // given back, if all that the arenas hold would not be enough.
  enum class Waits : bool { kNo, kYes };
  bool finds_more(Waits waits);

  // How often finds_more() has made freed blocks free.
  std::uint64_t waits() const { return waits_; }

 private:
  std::uint64_t held_bytes() const;
  bool give_back(std::uint64_t bytes);
  bool wait();

  const SimulatedDevice& device_;
  const std::vector<PlayedArena*>& arenas_;
  const Need need_;
  std::uint64_t growth_ = 0;
  int tries_ = 0;
  std::uint64_t waits_ = 0;
};

}  // namespace cubfc::replay
