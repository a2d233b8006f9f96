#include "shim/meet/group_table.h"

#include <sched.h>

#include <algorithm>

namespace cubfc {
namespace {

// After so many retries in a row a thread yields the processor before each further one, or it might
// be overtaken again at once.
constexpr std::uint64_t kRetriesWithoutPause = 8;

}  // namespace

// Called before another change replaces the one that the total names. Marks the named change as
// done, in its member's part: the process that made the change may have been killed before it did
// so. If the total still names the change after `begun` was read, `begun` is the number of that
// change, since a member begins one change at a time.
void GroupTable::finish(std::uint64_t total) noexcept {
  Member& last = members_[member_of(total)];
  const std::uint64_t begun = last.begun.load(std::memory_order_acquire);
  std::uint64_t done = last.done.load(std::memory_order_acquire);
  if (done != begun && number_of(begun) == number_of(total) &&
      total_.load(std::memory_order_acquire) == total) {
    last.done.compare_exchange_strong(done, begun);
  }
}

bool GroupTable::end_change(std::size_t member, std::uint64_t difference, std::uint64_t limit,
                            Begun begun) noexcept {
  Member& own = members_[member];
  const std::uint64_t number = own.begun.load(std::memory_order_relaxed);
  std::uint64_t total = total_.load(std::memory_order_acquire);
  for (std::uint64_t retries = begun == Begun::kOvertaken ? 1 : 0;; ++retries) {
    const std::uint64_t used = bytes_of(total) + difference;
    if (used > limit) {
      own.begun.store(number - 1, std::memory_order_release);
      return false;
    }
    finish(total);
    if (total_.compare_exchange_weak(total, total_of(used, member, number),
                                     std::memory_order_acq_rel, std::memory_order_acquire)) {
      own.done.store(number, std::memory_order_release);
      if (retries > 0) {
        note_retries(own, retries);
      }
      return true;
    }
    if (retries >= kRetriesWithoutPause) {
      sched_yield();
    }
  }
}

void GroupTable::recover(std::size_t member) noexcept {
  Member& own = members_[member];
  finish(total_.load(std::memory_order_acquire));
  own.begun.store(own.done.load(std::memory_order_acquire), std::memory_order_release);
}

std::uint64_t GroupTable::held_by(std::size_t member) const noexcept {
  const Member& each = members_[member];
  return each.held_after[each.done.load(std::memory_order_acquire) % 2].load(
      std::memory_order_relaxed);
}

void GroupTable::note_retries(Member& member, std::uint64_t retries) noexcept {
  member.retries.fetch_add(retries, std::memory_order_relaxed);
  member.most_retries.store(std::max(member.most_retries.load(std::memory_order_relaxed), retries),
                            std::memory_order_relaxed);
}

GroupTable::Contention GroupTable::contention_of(std::size_t member) const noexcept {
  const Member& each = members_[member];
  return {each.done.load(std::memory_order_relaxed), each.retries.load(std::memory_order_relaxed),
          each.most_retries.load(std::memory_order_relaxed)};
}

}  // namespace cubfc
