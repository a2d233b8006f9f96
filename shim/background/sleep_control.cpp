#include "shim/background/sleep_control.h"

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include "shim/patience.h"
#include "shim/sleep/sleeper.h"
#include "shim/tell/log.h"

namespace cubfc {

SleepControl::SleepControl(Sleeper& sleeper, std::optional<std::chrono::milliseconds> sleep_after)
    : sleeper_(sleeper),
      sleep_after_(sleep_after),
      thread_("cubfc-sleep", {[this] { run(); },
                              [this] {
                                sleeper_.process_ends();
                                mailbox_.interrupt();
                              }}) {}

bool SleepControl::is_wanted() const noexcept {
  return sleeper_.is_wanted();
}

void SleepControl::start() noexcept try {
  if (!mailbox_.open()) {
    log::warn("neither `cubfc sleep` nor CUBFC_SLEEP_AFTER has an effect on this process: {}",
              why_no_shared_file(errno));
  } else if (!thread_.start_once()) {
    log::warn("CUBFC_SLEEP has no effect: no thread can be started (is `ulimit -u` reached?)");
    mailbox_.leave();
  }
} catch (const std::bad_alloc&) {
  log::warn("CUBFC_SLEEP has no effect: the host has no memory");
}

void SleepControl::run() noexcept {
  idle_since_ = Clock::now();
  const std::chrono::milliseconds tick =
      std::clamp<std::chrono::milliseconds>(sleep_after_.value_or(patience::kLookForEnd) / 4,
                                            std::chrono::milliseconds(1), patience::kLookForEnd);
  auto next_look = Clock::now() + tick;
  while (!mailbox_.is_interrupted() && !BackgroundThread::program_is_over()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next_look - Clock::now());
    mailbox_.serve(
        std::max(left, std::chrono::milliseconds(0)), [this](sleep_mail::Request request) {
          Sleeper::Outcome outcome = request == sleep_mail::Request::kSleep  ? sleeper_.sleep()
                                     : request == sleep_mail::Request::kWake ? sleeper_.wake()
                                                                             : Sleeper::Outcome{};
          return SleepMailbox::Answer{outcome.is_done, std::move(outcome.text)};
        });
    if (sleep_after_ && Clock::now() >= next_look) {
      look_whether_idle();
    }
    next_look = Clock::now() >= next_look ? Clock::now() + tick : next_look;
  }
}

// After a refusal the whole time begins again.
void SleepControl::look_whether_idle() noexcept {
  if (sleeper_.is_asleep() || sleeper_.was_called()) {
    idle_since_ = Clock::now();
  } else if (Clock::now() - idle_since_ >= *sleep_after_ && !mailbox_.is_interrupted()) {
    sleeper_.sleep();
    idle_since_ = Clock::now();
  }
}

}  // namespace cubfc
