// How memory is looked for when a request lacks it: one source after the other is asked, until one
// of them has brought something; then the request is tried again. The order is in search.cpp.
#pragma once

#include <array>
#include <cstdint>

#include "shim/source/sources.h"

namespace cubfc {

// For one request, by one thread. Made before the request is tried: what others give back meanwhile
// is seen then.
//
//   Search search(sources, device, need);
//   while (!succeeds() && search.finds_more()) {}
class Search {
 public:
  Search(const MemorySources& sources, Device& device, const Need& need);

  // An arena would grow by so many bytes for the request.
  void growth_is(std::uint64_t bytes) { growth_ = bytes; }

  // Asks each source for what it has without a wait for the program's work; if none has anything,
  // and with Waits::kYes, each for what it has after a wait. True when the request may succeed now,
  // false when nothing is left to try. While a stream captures, only such work is waited for as an
  // event was recorded for before.
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
  int passes_ = 0;  // that have brought something, or may have

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
