// The layout of the file that the members of a group share: who they are, the limit by which each
// of them claims, and the claims themselves (group_table.h). Knows bytes and processes; nothing of
// CUDA.
//
// Each member holds the lock of its part's byte (lock_byte()), which ends with the process, however
// that ends. A process that clears the parts of dead members, or changes the group's limit, holds
// the lock of one byte more (kClearing), so only one process does so at a time.
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

// All zeros are a group without members. If other programs write nonsense into the file, numbers
// are wrong, but nothing worse happens.
struct GroupFile {
  static constexpr std::size_t kMembers = GroupTable::kMembers;
  // The bytes after the members': kClearing is locked by a process that clears, kAsking by a
  // command that has lowered the limit and asks members to give back what they do not use.
  static constexpr std::size_t kClearing = kMembers;
  static constexpr std::size_t kAsking = kMembers + 1;
  static constexpr char kFileKind[] = "group-";

  // kMagic marks this layout. is_other_version(): whether this is the mark of another version's
  // layout. The version is not part of the file's name, so that a process of another version finds
  // the file and cannot join, and does not make a second file with a limit of its own.
  static constexpr std::uint64_t kMagic = 0x0272676366627563;  // "cubfcgr" and the version
  static bool is_other_version(std::uint64_t magic) noexcept;
  static std::string name_of(const std::string& group, const DeviceId& device);
  // The device that the name of a file says; nothing if the file is not this group's.
  static std::optional<DeviceId> device_of(const std::string& file_name, const std::string& group);

  // For a message: why such a file could not be joined. `error`: errno then.
  static std::string why_unusable(const std::string& path, int error);
  // The key by which the members of a group find each other in a Rendezvous: never 0.
  static std::uint64_t key_of(const std::string& group) noexcept;

  struct alignas(64) Member {
    std::atomic<std::int32_t> pid;               // in its own namespace; 0: the part is nobody's
    std::atomic<std::uint32_t> sealed;           // 1: a policy file enforces its own limit
    std::atomic<std::uint64_t> own_limit_bytes;  // with which it has joined
    // Set when the group's limit is lowered below what all members hold: the bytes that this member
    // held then, later less those that it gave back (keep_less()). The member may hold up to so
    // many bytes even if the group is beyond the limit. 0: none.
    std::atomic<std::uint64_t> kept_bytes;
  };

  std::atomic<std::uint64_t> magic;
  std::atomic<std::uint64_t> lost_ns;  // when something was given back for a dead member
  // What the group's limit was changed to; 0: it was not changed, and each member claims by its
  // own. This one word changes the limit for all at once. No limit is above GroupTable::kMostBytes.
  std::atomic<std::uint64_t> changed_limit_bytes;
  // The group's limit before it was first changed: the largest limit that one of its members of
  // that time had joined with.
  std::atomic<std::uint64_t> named_limit_bytes;
  std::array<Member, kMembers> members;
  GroupTable table;

  // enter(), bring_along() and keep_less() are called for a member by the process that holds the
  // lock of its part. enter(): the member joins, with this limit of its own.
  void enter(std::size_t member, std::uint64_t limit_bytes, bool is_sealed) noexcept;
  // Takes over the group's changed limit, and what the member kept, from a file of the group that
  // was removed.
  void bring_along(std::size_t member, const GroupFile& before, std::size_t before_as) noexcept;
  // The member has given back so many unused bytes: it may not claim these beyond the limit again.
  void keep_less(std::size_t member, std::uint64_t bytes) noexcept;
  // Gives back what a dead member held. Called by a process that holds the lock of that part's
  // byte.
  void give_back(std::size_t member) noexcept;
  // Does so for all members. Called by a process that has locked the whole file.
  void give_all_back() noexcept;
  // Gives back what each dead member held, except `own`. Called by a process that holds the lock of
  // kClearing. Asks the kernel, by the descriptor `file`, which members live. If no member is left,
  // each member that joins later claims by its own limit again.
  void clear_the_dead(int file, std::size_t own = kMembers) noexcept;
  // Whether a member has died so short a time ago that the driver may not have taken back all of
  // its memory yet.
  bool has_just_lost_member() const noexcept;

  // The functions that follow are for members, and for processes that look on. limit_of(): the
  // limit by which a member claims: its own until the group's limit is changed, the group's after
  // that. A member whose own limit is sealed, or below named_limit_bytes, then claims by the lower
  // of the two.
  std::uint64_t limit_of(std::size_t member) const noexcept;
  // The most that the member could ever claim: its limit, or its kept_bytes if they are more.
  std::uint64_t most_of(std::size_t member) const noexcept {
    return std::max(limit_of(member), members[member].kept_bytes.load(std::memory_order_relaxed));
  }
  // What all claims together must not exceed when the member claims so many bytes more: the
  // member's limit. While the member stays within its kept_bytes, the bound is the sum of all
  // members' kept_bytes if that is more.
  std::uint64_t bound_of_claim(std::size_t member, std::uint64_t bytes) const noexcept;
  // How many bytes more the member could claim now.
  std::uint64_t left_to(std::size_t member) const noexcept;
  // The group's limit; if it was not changed, the largest of the members'. 0 without members.
  std::uint64_t limit() const noexcept;

  // Called by a process that holds the lock of kClearing, after clear_the_dead(). If members hold
  // more than a lowered limit, they keep what they hold, and may claim it again after a free.
  // Returns false, and changes nothing, if all members' limits are sealed and `bytes` is above the
  // highest of them.
  bool change_limit(std::uint64_t bytes) noexcept;

 private:
  std::uint64_t kept_by_all() const noexcept;
  template <typename Do>
  void for_each_member(Do what) noexcept;
};

// Locks kClearing by this descriptor; waits while another process has it locked. False if the other
// process has not unlocked it after patience::kMostNapsForClearing naps, or if it cannot be locked
// for another reason, which errno says.
bool wait_to_clear(int file) noexcept;

}  // namespace cubfc
