#include "shim/background/summary_keeper.h"

#include <chrono>
#include <utility>

namespace cubfc {

SummaryKeeper::SummaryKeeper(bool is_wanted, Owner owner)
    : owner_(std::move(owner)),
      is_wanted_(is_wanted),
      thread_("cubfc-summary", std::chrono::seconds(2), [this] { look(); }) {}

// A program that does nothing with its memory has nothing new to be told.
void SummaryKeeper::look() noexcept {
  if (const std::uint64_t now = owner_.operations(); written_ != now) {
    owner_.write();
    written_ = now;
  }
}

}  // namespace cubfc
