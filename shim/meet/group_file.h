// What the members of a group share, as it lies in their file: who they are, the limit by which
// each of them claims, and the claims themselves (group_table.h). Knows bytes and processes;
// nothing of CUDA.
//
// Each member has the lock of its part's byte (lock_byte), which dies with it however it ends. Who
// clears the parts of the dead, or changes the group's limit, has the lock of a byte behind them,
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
  // The bytes behind the members': of who clears, and of who has members give back what they do not
  // use because the limit was lowered.
  static constexpr std::size_t kClearing = kMembers;
  static constexpr std::size_t kAsking = kMembers + 1;
  static constexpr char kFileKind[] = "group-";

  // Of this layout, and of the same file as another version of cubfc makes it: those are not to
  // share a budget by halves, so the version is no part of the file's name.
  static constexpr std::uint64_t kMagic = 0x0272676366627563;  // "cubfcgr" and the version
  static bool is_other_version(std::uint64_t magic) noexcept;
  static std::string name_of(const std::string& group, const DeviceId& device);
  // The device of a file of that name; nothing where it is none of this group's.
  static std::optional<DeviceId> device_of(const std::string& file_name, const std::string& group);

  // For a message, when such a file could not be joined.
  static std::string why_unusable(const std::string& path, int error);
  // By which the members of a group know each other in a Rendezvous: never 0.
  static std::uint64_t key_of(const std::string& group) noexcept;

  struct alignas(64) Member {
    std::atomic<std::int32_t> pid;               // in its own namespace; 0: the part is nobody's
    std::atomic<std::uint32_t> sealed;           // 1: a policy file enforces its own limit
    std::atomic<std::uint64_t> own_limit_bytes;  // with which it has joined
    // What it had when the group's limit was lowered below what all had: so much it may have again.
    std::atomic<std::uint64_t> kept_bytes;
  };

  std::atomic<std::uint64_t> magic;
  std::atomic<std::uint64_t> lost_ns;  // when something was given back for a dead member
  // The group's limit since it was changed; 0: it was not, and each member claims by its own. By
  // this one word it is changed for all at once. No limit is above GroupTable::kMostBytes.
  std::atomic<std::uint64_t> changed_limit_bytes;
  std::atomic<std::uint64_t> named_limit_bytes;  // the largest of its members' when it was
  std::array<Member, kMembers> members;
  GroupTable table;

  // For a member, by who has the lock of its part: it joins, with this limit of its own.
  void enter(std::size_t member, std::uint64_t limit_bytes, bool is_sealed) noexcept;
  // The same, with what it kept and was told in the file of its group that somebody has removed.
  void bring_along(std::size_t member, const GroupFile& before, std::size_t before_as) noexcept;
  // For a member: what it has given back because it did not use it, so many bytes, it keeps no
  // more.
  void keep_less(std::size_t member, std::uint64_t bytes) noexcept;
  // By who has the lock of that part's byte: what a dead member held.
  void give_back(std::size_t member) noexcept;
  // By who has the file for himself: the same for all.
  void give_all_back() noexcept;
  // By who clears: the same for all that are dead, but for `own`. Asks the kernel by this
  // descriptor. When nobody is left, the limit is each member's own again.
  void clear_the_dead(int file, std::size_t own = kMembers) noexcept;
  // The driver may not have all of its memory back.
  bool has_just_lost_member() const noexcept;

  // For a member, and whoever looks on. By which limit it claims: a member that has joined with a
  // lower one than the others keeps to that when the group's is raised, and so does one whose limit
  // is sealed; all others go by the group's.
  std::uint64_t limit_of(std::size_t member) const noexcept;
  // The most that it could ever claim by that: what it keeps may be more.
  std::uint64_t most_of(std::size_t member) const noexcept {
    return std::max(limit_of(member), members[member].kept_bytes.load(std::memory_order_relaxed));
  }
  // Up to what all claims together may go when it claims so many bytes more. That is its limit, but
  // for what it had before that was lowered.
  std::uint64_t bound_of_claim(std::size_t member, std::uint64_t bytes) const noexcept;
  // And how many more it could claim now.
  std::uint64_t left_to(std::size_t member) const noexcept;
  // The group's limit; where it was not changed, the largest of the members'. 0 without members.
  std::uint64_t limit() const noexcept;

  // By who clears, when the dead are cleared. What members have beyond a limit that is lowered they
  // keep, and may have again. False, and nothing is changed, where it would be raised above a
  // sealed one.
  bool change_limit(std::uint64_t bytes) noexcept;

 private:
  std::uint64_t kept_by_all() const noexcept;
  template <typename Do>
  void for_each_member(Do what) noexcept;
};

// Takes the lock of who clears, by this descriptor. False when somebody else has had it all the
// time (patience::kMostNapsForClearing), or for another reason that errno says.
bool wait_to_clear(int file) noexcept;

}  // namespace cubfc
