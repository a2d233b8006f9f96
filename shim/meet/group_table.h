// One budget for the processes of a group, in memory that they share. Knows bytes and members;
// nothing of files, processes or CUDA.
//
// A claim changes two words, the group's total and what its member holds, and its process may be
// killed between the two. So the total names the change that made it, by member and number: who
// changes it next first marks that change as done at its member. What a dead member holds is
// therefore always known exactly, whatever it was doing, and nobody waits for anybody.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace cubfc {

// Zeros are an empty one. Whoever changes a member's part must be alone in that: Group sees to it
// by locks that end with their process. Everything else is for anybody at any time, whatever is in
// the memory: a table of nonsense gives wrong numbers, and no more.
class GroupTable {
 public:
  static constexpr std::size_t kMembers = 512;
  static constexpr std::uint64_t kMostBytes = (std::uint64_t{1} << 45) - 1;  // 32 TiB

  // Claims `bytes` for the member if all claims together stay within the limit. All or nothing.
  // Precondition: `bytes` and `limit` are kMostBytes or less.
  bool take(std::size_t member, std::uint64_t bytes, std::uint64_t limit) noexcept {
    return change(member, bytes, limit);
  }
  // The same whether they fit or not: they are taken already.
  void force(std::size_t member, std::uint64_t bytes) noexcept { change(member, bytes, kNoLimit); }
  void give(std::size_t member, std::uint64_t bytes) noexcept { change(member, -bytes, kNoLimit); }

  // The same in two steps, for a caller whose fast path is to call nothing. By how much the claim
  // changes: below 0, that is a large number, and `limit` is kNoLimit.
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
    // Nobody else has changed it since this member did, whose own last change is done.
    if (!total_.compare_exchange_strong(total, total_of(used, member, number),
                                        std::memory_order_acq_rel)) {
      return Begun::kOvertaken;
    }
    own.done.store(number, std::memory_order_release);
    return Begun::kAndDone;
  }
  // Where begin_change() has not done it. False: it does not fit, and nothing has changed.
  bool end_change(std::size_t member, std::uint64_t difference, std::uint64_t limit,
                  Begun begun) noexcept;

  // For who takes over the part of a member that is dead: what it was doing has happened or has
  // not. Before any other change of that part.
  void recover(std::size_t member) noexcept;

  // Bytes that are claimed, by all and by one. The latter is exact for who may change that member's
  // part, or when nobody does; for others it may be a moment old.
  std::uint64_t used() const noexcept { return bytes_of(total_.load(std::memory_order_relaxed)); }
  std::uint64_t held_by(std::size_t member) const noexcept;

  // What whoever looks on wants to know.
  struct Contention {
    std::uint64_t changes = 0;
    std::uint64_t retries = 0;       // of changes that another member's came before
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

  // Changes are numbered from 1. Of the one that is begun, and of the one before it, it is written
  // down what the member holds after it: so it holds what the last one that is done says.
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
