#include "shim/background/summary_keeper.h"

#include <chrono>
#include <utility>

namespace cubfc {

SummaryKeeper::SummaryKeeper(bool is_wanted, Owner owner)
    : owner_(std::move(owner)),
      is_wanted_(is_wanted),
      thread_(
          "cubfc-summary", std::chrono::seconds(1), [this] { look(); },
          TickingThread::Descriptors::kOwn) {}

// Writes only if the program has allocated or freed since.
void SummaryKeeper::look() noexcept {
  // Every other tick. The thread ticks more often than it writes, because it looks at each tick
  // whether the program is over.
  is_due_ = !is_due_;
  if (!is_due_) {
    return;
  }
  if (const std::uint64_t now = owner_.operations(); written_ != now) {
    owner_.write();
    written_ = now;
  }
}

}  // namespace cubfc
