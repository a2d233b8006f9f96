#include "shim/sleep/part.h"

#include "shim/device/context.h"

namespace cubfc {

bool SleepingPart::has_ended() const noexcept {
  return context->id.load(std::memory_order_acquire) != id;
}

std::uint64_t SleepingPart::bytes_away() const noexcept {
  return memory->page_size() *
         static_cast<std::uint64_t>(std::count_if(
             pages.begin(), pages.end(), [](const SleepingPage& page) { return page.is_away; }));
}

}  // namespace cubfc
