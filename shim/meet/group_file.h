// What the members of a group share, as it lies in their file: who they are, the limit by which
// each of them claims, and the claims themselves (group_table.h). Knows bytes and processes;
// nothing of CUDA.
//
// Each member has the lock of its part's byte (lock_byte), which dies with it however it ends. Who
// clears the parts of the dead, or changes the group's limit, has the lock of the byte behind them,
// and is alone in that.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "shim/meet/device_id.h"
#include "shim/meet/group_table.h"

namespace cubfc {

// Zeros are a group without members. What is in it may be nonsense: that gives wrong numbers, and
// no more.
struct GroupFile {
  static constexpr std::size_t kMembers = GroupTable::kMembers;
  static constexpr std::size_t kClearing = kMembers;  // the byte of who clears
  static constexpr char kFileKind[] = "group-";

  // Of this layout, and of the same file as another version of cubfc makes it: those are not to
  // share a budget by halves, so the version is no part of the file's name.
  static constexpr std::uint64_t kMagic = 0x0272676366627563;  // "cubfcgr" and the version
  static bool is_other_version(std::uint64_t magic) noexcept;
  static std::string name_of(const std::string& group, const DeviceId& device);
  // The device of a file of that name; nothing where it is none of this group's.
  static std::optional<DeviceId> device_of(const std::string& file_name, const std::string& group);

  // By which the members of a group know each other in a Rendezvous: never 0.
  static std::uint64_t key_of(const std::string& group) noexcept;

  // What changes a member's limit.
  enum class Follows : std::uint32_t {
    kGroup,        // whatever the group's becomes
    kGroupBelow,   // that, where it is less than its own: it has joined with a lower limit
    kGroupSealed,  // the same, and the group's cannot be raised above it: a policy file enforces it
  };
  struct alignas(64) Member {
    std::atomic<std::int32_t> pid;  // in its own namespace; 0: the part is nobody's
    std::atomic<Follows> follows;
    std::atomic<std::uint64_t> own_limit_bytes;  // with which it has joined
    std::atomic<std::uint64_t> limit_bytes;      // by which it claims
    // What it had when the group's limit was lowered below what all had: so much it may have again.
    std::atomic<std::uint64_t> kept_bytes;
  };

  std::atomic<std::uint64_t> magic;
  std::atomic<std::uint64_t> lost_ns;  // when something was given back for a dead member
  std::atomic<std::uint64_t>
      changed_limit_bytes;                // the group's since it was changed; 0: it was not
  std::atomic<std::uint64_t> kept_bytes;  // of all members
  std::array<Member, kMembers> members;
  GroupTable table;

  // For a member, by who has the lock of its part: it joins, with this limit of its own. Here and
  // in change_limit() a limit is GroupTable::kMostBytes or less.
  void enter(std::size_t member, std::uint64_t limit_bytes, bool is_sealed) noexcept;
  // The same, with what it was told in the file of its group that somebody has removed.
  void bring_along(std::size_t member, const GroupFile& before, std::size_t before_as) noexcept;
  // By who has the lock of that part's byte: what a dead member held.
  void give_back(std::size_t member) noexcept;
  // By who has the file for himself: the same for all.
  void give_all_back() noexcept;
  // By who clears: the same for all that are dead, but for `own`. Asks the kernel by this
  // descriptor.
  void clear_the_dead(int file, std::size_t own = kMembers) noexcept;
  // The driver may not have all of its memory back.
  bool has_just_lost_member() const noexcept;
  // Whether somebody is in the group beside `own`. Asks the kernel.
  bool has_others(int file, std::size_t own) const noexcept;

  // For a member, and whoever looks on.
  std::uint64_t limit_of(std::size_t member) const noexcept {
    return members[member].limit_bytes.load(std::memory_order_relaxed);
  }
  // The most that it could ever claim by that: what it keeps may be more.
  std::uint64_t most_of(std::size_t member) const noexcept {
    return std::max(limit_of(member), members[member].kept_bytes.load(std::memory_order_relaxed));
  }
  // Of the member's limit and of what it keeps, in bytes: up to what all claims together may go
  // when it claims so many more. That is the limit, but for what it had before that was lowered.
  std::uint64_t bound_of_claim(std::size_t member, std::uint64_t bytes) const noexcept;
  // And how many more it could claim now.
  std::uint64_t left_to(std::size_t member) const noexcept;

  // By who clears, when the dead are cleared. From now on all members claim by this limit, but for
  // those that have joined with a lower one; what they have together beyond it they keep, and may
  // have again. False, and nothing is changed, where a member's limit is sealed and less.
  bool change_limit(std::uint64_t bytes) noexcept;
  // By who clears, later: what members have given up meanwhile they do not keep.
  void keep_no_more_than_is_held() noexcept;
  // The group's limit; where it was not changed, the largest of the members'. 0 without members.
  std::uint64_t limit() const noexcept;

 private:
  void add_up_kept() noexcept;
};

}  // namespace cubfc
