#include "shim/background/idle_trimmer.h"

#include <utility>

#include "shim/tell/log.h"

namespace cubfc {

IdleTrimmer::IdleTrimmer(std::optional<std::chrono::milliseconds> trim_after, Owner owner)
    : owner_(std::move(owner)),
      trim_after_(trim_after.value_or(std::chrono::milliseconds(0))),
      is_wanted_(trim_after.has_value()),
      thread_("cubfc-trim", trim_after_ / 4, [this] { look(); }) {}

void IdleTrimmer::start() noexcept {
  if (!thread_.start_once()) {
    log::warn("CUBFC_TRIM_AFTER has no effect: no thread can be started (is `ulimit -u` reached?)");
  }
}

void IdleTrimmer::look() noexcept {
  if (const std::uint64_t now = owner_.operations(); operations_ != now) {
    operations_ = now;
    since_ = Clock::now();
    trimmed_ = false;
  } else if (!trimmed_ && Clock::now() - since_ >= trim_after_) {
    if (const std::uint64_t bytes = owner_.trim(); bytes > 0) {
      log::info("idle: {} returned to the GPU", log::bytes(bytes));
    }
    trimmed_ = true;
  }
}

}  // namespace cubfc
