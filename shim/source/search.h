// Searches for memory when a request lacks it. Asks one source after the other until one has given
// something back; then the request is tried again. The order is in search.cpp.
#pragma once

#include <array>
#include <cstdint>

#include "shim/source/sources.h"

namespace cubfc {

// For one request, by one thread. Made before the request is first tried, so that memory which
// others give back during that try is noticed.
//
//   Search search(sources, device, need);
//   while (!succeeds() && search.finds_more()) {}
class Search {
 public:
  Search(const MemorySources& sources, Device& device, const Need& need);

  // Tells the search by how many bytes the arena would grow for the request.
  void growth_is(std::uint64_t bytes) { growth_ = bytes; }

  // Asks each source for what it has without a wait for the program's work; if none has anything,
  // and with Waits::kYes, each for what it has after a wait. True when the request may succeed now,
  // false when nothing is left to try. While a stream captures, waits only for work for which an
  // event was recorded before.
  enum class Waits : bool { kNo, kYes };
  bool finds_more(Waits waits = Waits::kYes);

 private:
  Pass begin_pass();
  bool can_be_enough(const Pass& pass);
  bool ask_at_once(const Pass& pass);
  bool ask_with_waiting(Pass& pass);
  static bool is_asked(const Source& source, const Pass& pass);

  Request request_;
  std::uint64_t growth_ = 0;
  int passes_ = 0;  // begun; those with Waited::kUncounted are taken off

  Preallocated preallocated_;
  FreesThatWait freed_;
  Unused unused_;
  PoolsInStreamOrder pools_;
  OtherProcesses processes_;
  OtherThreads threads_;
  EnoughByNow enough_;
  ProcessesThatTake taking_;
  ProcessesThatEnd ending_;
  InMotion in_motion_;
  const std::array<Source*, 11> in_order_;
};

}  // namespace cubfc
