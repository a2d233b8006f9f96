#include "shim/source/search.h"

#include <algorithm>

#include "shim/device/device.h"
#include "shim/patience.h"
#include "shim/source/memory_sources.h"
#include "shim/source/unused_memory.h"

namespace cubfc {
namespace {

using arena::less;
using arena::plus;

// How many bytes the request lacks, of the device or of the limit. If the figures say that there is
// enough, the request has failed all the same; then all of its bytes count as lacking.
std::uint64_t lacking(const Request& request, const Pass& pass) {
  const Need& need = request.need;
  if (need.bytes == 0) {
    return pass.is_blind(need) ? UnusedMemory::kMostUnknownBytes : UnusedMemory::kStepBytes;
  }
  const std::uint64_t of_device = need.of_device ? pass.at_driver.value_or(0) : need.bytes;
  const std::uint64_t of_limit = need.counted ? request.device.limit.budget.left() : need.bytes;
  const std::uint64_t there = std::min(of_device, of_limit);
  return there < need.bytes ? need.bytes - there : need.bytes;
}

}  // namespace

// All sources are asked for what they have without a wait for the program's work, before any source
// is asked to wait. What this process holds comes before what other processes hold.
Search::Search(const MemorySources& sources, Device& device, const Need& need)
    : request_{sources, device, need},
      freed_(device),
      threads_(device),
      in_order_{                 // without a wait for work    after a wait for
                &preallocated_,  // what is held is released
                &freed_,         //                            the program's work, without bound
                &unused_,        // idle memory goes back      the program's work, without bound
                &pools_,         //                            the contexts' work, without bound
                &processes_,     // processes give back
                &threads_,       // threads' driver calls end  the same once more
                &enough_,        //                            (nothing: a look at the device)
                &taking_,        //                            a nap, TimeLeft::For::kOthers
                &ending_,        //                            a nap, TimeLeft::For::kEnding
                &enough_,        //                            (nothing: a second look)
                &in_motion_} {}  //                            a nap, TimeLeft::For::kOthers

bool Search::finds_more(Waits waits) {
  if (passes_ == patience::kMostPasses) {
    return false;
  }
  Pass pass = begin_pass();
  return ask_at_once(pass) || (waits == Waits::kYes && ask_with_waiting(pass));
}

Pass Search::begin_pass() {
  const Need& need = request_.need;
  Pass pass;
  pass.at_driver = request_.all.contexts().free_at_driver(request_.device);
  if (pass.at_driver && *pass.at_driver < need.bytes) {
    request_.refused_with_enough = 0;  // a refusal for lack of memory ends the row
  }
  pass.least = lacking(request_, pass) << std::min(passes_++, patience::kMostDoublings);
  pass.with_growth = plus(pass.least, less(growth_, need.bytes));
  pass.is_enough = can_be_enough(pass);
  return pass;
}

// Whether the request could be served if all freed blocks were free, and all memory that no block
// needs were given back. True if that cannot be found out.
bool Search::can_be_enough(const Pass& pass) {
  const Need& need = request_.need;
  const std::uint64_t at_driver = need.of_device ? pass.at_driver.value_or(need.bytes) : need.bytes;
  const std::uint64_t of_limit = need.counted ? request_.device.limit.budget.left() : need.bytes;
  Source::Could lacks{less(need.bytes, at_driver), less(need.bytes, of_limit)};
  for (Source* const source : in_order_) {
    if (lacks.of_device == 0 && lacks.of_limit == 0) {
      return true;
    }
    const Source::Could could = source->could_give(request_, lacks);
    lacks = {less(lacks.of_device, could.of_device), less(lacks.of_limit, could.of_limit)};
  }
  return lacks.of_device == 0 && lacks.of_limit == 0;
}

bool Search::is_asked(const Source& source, const Pass& pass) {
  return pass.is_enough || !source.knows_its_bytes();
}

bool Search::ask_at_once(const Pass& pass) {
  return std::any_of(in_order_.begin(), in_order_.end(), [&](Source* source) {
    return is_asked(*source, pass) && source->gives_at_once(request_, pass);
  });
}

bool Search::ask_with_waiting(Pass& pass) {
  for (Source* const source : in_order_) {
    const auto waited = is_asked(*source, pass) ? source->gives_after_wait(request_, pass)
                                                : Source::Waited::kInVain;
    if (waited != Source::Waited::kInVain) {
      passes_ -= waited == Source::Waited::kUncounted ? 1 : 0;
      return true;
    }
  }
  return false;
}

}  // namespace cubfc
