#include "shim/meet/rendezvous_asking.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "shim/meet/locked_mapping.h"
#include "shim/patience.h"

namespace cubfc {

using meeting::Entry;
using meeting::Slot;
using meeting::Taken;

// How long one call of ring() waits for all the processes that it has rung.
struct Asking::Patience {
  Patience(Now clock, const Waiting& waiting) : clock_(clock), waiting_(waiting) {}
  const Now clock_;
  const Waiting& waiting_;
  const Clock::time_point start = clock_();
  Clock::time_point last_progress = start;

  bool is_over(std::int32_t pid) const {
    const auto now = clock_();
    return (waiting_.is_stopped != nullptr && waiting_.is_stopped(pid)) ||
           now - last_progress > waiting_.most || now - start > patience::kForAllAnswers;
  }
};

// Whether the slot is taken by a process that lives. The slot of a dead one is cleared.
bool Asking::is_there(std::size_t slot) {
  std::atomic<Taken>& taken = table_.header.taken[slot];
  if (taken.load(std::memory_order_acquire) == Taken::kNot) {
    return false;
  }
  if (!lock_byte(probe_.get(), slot, F_WRLCK)) {
    return errno == EAGAIN || errno == EACCES;
  }
  taken.store(Taken::kNot, std::memory_order_relaxed);
  table_.header.changes.fetch_add(1);
  lock_byte(probe_.get(), slot, F_UNLCK);
  return false;
}

// The living processes, with the devices for which `which` is true.
template <typename Which>
Asking::Others Asking::those_that(Which which, Taken how) {
  Others others;
  for (const std::size_t i : meeting::taken_by_others(table_, own_, how)) {
    Slot& slot = table_.slots[i];
    for (std::size_t number = 0; number < slot.num_devices(); ++number) {
      if (which(slot, slot.entries[number]) && is_there(i)) {
        others.push_back({i, &slot.entries[number], 0});
      }
    }
  }
  return others;
}

Asking::Others Asking::at(const DeviceId& device, std::uint64_t group, Taken how) {
  return those_that(
      [&](const Slot& /*slot*/, const Entry& entry) {
        return entry.device == device && (group == 0 || entry.group == group);
      },
      how);
}

Asking::Others Asking::of_process(std::optional<std::int32_t> pid) {
  return those_that(
      [&](const Slot& slot, const Entry& /*entry*/) {
        return !pid || slot.pid.load(std::memory_order_relaxed) == *pid;
      },
      Taken::kByGiver);
}

Asking::Processes Asking::processes(const DeviceId& device, Taken how) {
  Processes processes;
  for (const Other& other : at(device, 0, how)) {
    processes.insert(process_of(other));
  }
  return processes;
}

void Asking::ask_what_is_left(Others& others, const Waiting& waiting) {
  ring(others, Wanted::kWord, waiting);
  for (Other& other : others) {
    other.bytes = other.entry->left.load(std::memory_order_relaxed);
  }
}

// Whether the last answer may be used, and is not too old. An answer from the future may not be
// used: it is from a process with another clock. An answer that lasts is asked for again after a
// while all the same: the process may not notice everything that changes what it can give.
bool Asking::is_good(const Entry& entry, Clock::time_point now) {
  const std::int64_t answered = entry.answered_ns.load(std::memory_order_acquire);
  const std::uint32_t lasts_while = entry.lasts_while.load(std::memory_order_acquire);
  const std::uint32_t good_while = entry.good_while.load(std::memory_order_acquire);
  const bool lasts = lasts_while == entry.changes.load(std::memory_order_acquire);
  const std::chrono::nanoseconds age(ns_of(now) - answered);
  return answered != 0 && good_while == entry.resizes.load(std::memory_order_acquire) &&
         age >= age.zero() &&
         age <= (lasts ? patience::kOldestLastingAnswer : patience::kOldestAnswer);
}

Asking::Lately Asking::lately_left(Others others, std::uint64_t group) {
  const auto now = now_();
  // A process that is silent would give nothing. When it goes on, it answers the earlier rings.
  std::erase_if(others, [&](const Other& other) { return is_silent(other); });
  const auto unknown = std::partition(
      others.begin(), others.end(), [&](const Other& other) { return is_good(*other.entry, now); });
  Others asked(unknown, others.end());
  others.erase(unknown, others.end());
  for (Other& other : others) {
    other.bytes = other.entry->left.load(std::memory_order_relaxed);
  }
  if (!asked.empty()) {
    ask_what_is_left(asked, Waiting());
    others.insert(others.end(), asked.begin(), asked.end());
  }
  Lately lately;
  for (const Other& other : others) {
    lately.bytes += other.bytes;
    lately.in_group += group != 0 && other.entry->group == group ? other.bytes : 0;
  }
  return lately;
}

std::uint64_t Asking::ask_for_bytes(Others& others, const Waiting& waiting) {
  return ring(others, Wanted::kBytes, waiting);
}

// Rings all of them, then waits. Removes those that do not answer; these are not waited for again
// until they have answered. Returns the bytes that all have given up meanwhile.
std::uint64_t Asking::ring(Others& others, Wanted wanted, const Waiting& waiting) {
  struct Ring {
    std::uint32_t number;
    std::uint64_t given_before;
  };
  std::vector<Ring> rings;
  rings.reserve(others.size());
  for (const Other& other : others) {
    Entry& entry = *other.entry;
    const std::uint64_t before = entry.given.load(std::memory_order_relaxed);
    entry.wanted.fetch_add(wanted == Wanted::kBytes ? other.bytes : 0, std::memory_order_relaxed);
    rings.push_back({entry.rings.fetch_add(1, std::memory_order_acq_rel) + 1, before});
    Slot& slot = table_.slots[other.slot];
    slot.bell.fetch_add(1, std::memory_order_release);
    meeting::wake_all(slot.bell);
  }
  std::uint64_t given = 0;
  Others answered;
  Patience patience(now_, waiting);
  for (std::size_t i = 0; i < others.size(); ++i) {
    if (is_answered(others[i], rings[i].number, patience)) {
      answered.push_back(others[i]);
    }
    given += others[i].entry->given.load(std::memory_order_relaxed) - rings[i].given_before;
  }
  others = std::move(answered);
  return given;
}

// The number of answers that the process has given so far, for all its devices. It wraps around.
std::uint32_t Asking::answers_of(const Other& other) const {
  const Slot& slot = table_.slots[other.slot];
  std::uint32_t answers = 0;
  for (std::size_t number = 0; number < slot.num_devices(); ++number) {
    answers += slot.entries[number].answers.load(std::memory_order_acquire);
  }
  return answers;
}

// Whether the process was waited for in vain, and has answered nothing since.
bool Asking::is_silent(const Other& other) const {
  const auto silent = unanswered_.find(process_of(other));
  return silent != unanswered_.end() && silent->second == answers_of(other);
}

// Waits until the process has answered this ring. False if it does not in time, or is gone.
bool Asking::is_answered(const Other& other, std::uint32_t ring, Patience& patience) {
  Entry& entry = *other.entry;
  std::uint64_t given = entry.given.load(std::memory_order_relaxed);
  for (;;) {
    // Read before anything else: if the count is higher later, the process is not silent.
    const std::uint32_t answers = answers_of(other);
    const std::uint32_t last = entry.answers.load(std::memory_order_acquire);
    if (static_cast<std::int32_t>(last - ring) >= 0) {  // the numbers wrap around
      unanswered_.erase(process_of(other));
      return true;
    }
    const auto silent = unanswered_.find(process_of(other));
    const bool is_silent = silent != unanswered_.end() && silent->second == answers;
    if (const std::uint64_t before =
            std::exchange(given, entry.given.load(std::memory_order_relaxed));
        before != given) {
      patience.last_progress = now_();
    }
    if (is_silent || patience.is_over(pid_of(other)) || !is_there(other.slot)) {
      unanswered_[process_of(other)] = answers;
      return false;
    }
    meeting::wait_while(entry.answers, last, patience::kLookForDead);
  }
}

}  // namespace cubfc
