// What the members of a group have claimed of one limit, in memory that their processes share.
// Knows bytes and members; nothing of files, processes or CUDA.
//
// A claim changes two words, the group's total and what the member holds, and the process may be
// killed between the two. So the total names the change that made it, by member and number. Whoever
// changes the total next first marks that change as done, in the part of the member that made it.
// So it is always known exactly what a dead member holds, whatever it was doing, and no process
// waits for another.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace cubfc {

// All zeros are an empty table. Only one thread at a time may change a member's part: Group ensures
// that, by locks that end with their process. Everything else may be called by anybody at any time.
// If the memory has nonsense in it, numbers are wrong, but nothing worse happens.
class GroupTable {
 public:
  static constexpr std::size_t kMembers = 512;
  static constexpr std::uint64_t kMostBytes = (std::uint64_t{1} << 45) - 1;  // 32 TiB

  // Claims `bytes` for the member if all claims together stay within the limit. All or nothing.
  // Precondition: `bytes` and `limit` are kMostBytes or less.
  bool take(std::size_t member, std::uint64_t bytes, std::uint64_t limit) noexcept {
    return change(member, bytes, limit);
  }
  // As take(), whether the bytes fit or not: they are taken already.
  void force(std::size_t member, std::uint64_t bytes) noexcept { change(member, bytes, kNoLimit); }
  void give(std::size_t member, std::uint64_t bytes) noexcept { change(member, -bytes, kNoLimit); }

  // A change in two steps. begin_change() does it, and returns kAndDone, if the bytes fit and no
  // other member has changed the total since this one did. Else end_change() must follow.
  // `difference`: how many bytes more the member claims; to give back n bytes it is -n, as an
  // unsigned number, and `limit` is kNoLimit.
  static constexpr std::uint64_t kNoLimit = ~std::uint64_t{0};
  enum class Begun : std::uint8_t { kAndDone, kAfterOthers, kOvertaken };
  Begun begin_change(std::size_t member, std::uint64_t difference, std::uint64_t limit) noexcept {
    Member& own = members_[member];
    const std::uint64_t last = own.begun.load(std::memory_order_relaxed);
    const std::uint64_t number = last + 1;
    const std::uint64_t held = own.held_after[last % 2].load(std::memory_order_relaxed);
    own.held_after[number % 2].store(held + difference, std::memory_order_relaxed);
    own.begun.store(number, std::memory_order_release);
    std::uint64_t total = total_.load(std::memory_order_acquire);
    const std::uint64_t used = bytes_of(total) + difference;
    if (member_of(total) != member || used > limit) {
      return Begun::kAfterOthers;
    }
    // The last change of the total was this member's own, which is done: there is nothing to mark.
    if (!total_.compare_exchange_strong(total, total_of(used, member, number),
                                        std::memory_order_acq_rel)) {
      return Begun::kOvertaken;
    }
    own.done.store(number, std::memory_order_release);
    return Begun::kAndDone;
  }
  // Called if begin_change() has not done the change. False: the bytes do not fit, and nothing has
  // changed.
  bool end_change(std::size_t member, std::uint64_t difference, std::uint64_t limit,
                  Begun begun) noexcept;

  // Called by a process that takes over the part of a dead member, before any other change of the
  // part. Decides whether the change that the member was making has happened.
  void recover(std::size_t member) noexcept;

  // The bytes claimed by all members, and by one. held_by() is exact if this process may change the
  // member's part, or if no process is changing it; else it may be a moment old.
  std::uint64_t used() const noexcept { return bytes_of(total_.load(std::memory_order_relaxed)); }
  std::uint64_t held_by(std::size_t member) const noexcept;

  // How often members got in each other's way; for tests.
  struct Contention {
    std::uint64_t changes = 0;
    std::uint64_t retries = 0;       // because another member's change came first
    std::uint64_t most_retries = 0;  // of one change
  };
  Contention contention_of(std::size_t member) const noexcept;

 private:
  // The total: its bytes, the member that changed it last, and the low bits of that change's
  // number.
  static constexpr unsigned kMemberShift = 10;
  static constexpr unsigned kBytesShift = 19;
  static constexpr std::uint64_t kNumbers = std::uint64_t{1} << kMemberShift;
  static std::uint64_t bytes_of(std::uint64_t total) noexcept { return total >> kBytesShift; }
  static std::size_t member_of(std::uint64_t total) noexcept {
    return total >> kMemberShift & (kMembers - 1);
  }
  static std::uint64_t number_of(std::uint64_t total) noexcept { return total & (kNumbers - 1); }
  static std::uint64_t total_of(std::uint64_t used, std::size_t member,
                                std::uint64_t number) noexcept {
    return used << kBytesShift | std::uint64_t{member} << kMemberShift | number_of(number);
  }
  static_assert(kMembers == std::uint64_t{1} << (kBytesShift - kMemberShift));
  static_assert(kMostBytes == ~std::uint64_t{0} >> kBytesShift);

  // Changes are numbered from 1. held_after[n % 2] is what the member holds after change n; the two
  // changes that were begun last have their entries there. What the member holds now is the entry
  // of the last change that is done.
  struct alignas(128) Member {
    std::atomic<std::uint64_t> begun;
    std::atomic<std::uint64_t> done;  // begun, or one less
    std::array<std::atomic<std::uint64_t>, 2> held_after;
    std::atomic<std::uint64_t> retries;
    std::atomic<std::uint64_t> most_retries;
  };

  bool change(std::size_t member, std::uint64_t difference, std::uint64_t limit) noexcept {
    const Begun begun = begin_change(member, difference, limit);
    return begun == Begun::kAndDone || end_change(member, difference, limit, begun);
  }
  void finish(std::uint64_t total) noexcept;
  static void note_retries(Member& member, std::uint64_t retries) noexcept;

  alignas(128) std::atomic<std::uint64_t> total_;
  std::array<Member, kMembers> members_;
};

}  // namespace cubfc
