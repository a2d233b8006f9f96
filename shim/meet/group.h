// A group: the processes of a user that share one limit on a device (CUBFC_GROUP). What each has
// claimed is in a file that they share (group_file.h). A process has a part of the file for itself
// as long as it holds the lock of the part's byte. The lock ends with the process, however that
// ends. The next claim for which too little is left gives back the bytes that the dead process's
// part says. Knows bytes and processes; nothing of CUDA.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <forward_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "arena/budget.h"
#include "arena/lock.h"
#include "shim/meet/device_id.h"
#include "shim/meet/group_file.h"
#include "shim/meet/shared_files.h"

namespace cubfc {

// One process's membership in a group. Thread-safe. A process is a member until it ends, since it
// has its memory until then. A forked child must not use its parent's Group.
class Group final : public arena::SharedAccount {
 public:
  struct Terms {
    Where where = Where::kAsSet;     // kFixed: the same folders whatever the environment says
    bool limit_is_enforced = false;  // limit_bytes holds even if the group's is raised
  };
  // Joins the group as one more member. Its claims and those of all others must together stay
  // within `limit_bytes`. If joining fails, returns nullptr, and `why_not` is a line that says what
  // is wrong, and the remedy. Throws std::bad_alloc.
  static std::unique_ptr<Group> join(const std::string& name, const DeviceId& device,
                                     std::uint64_t limit_bytes, std::string& why_not, Terms terms);
  static std::unique_ptr<Group> join(const std::string& name, const DeviceId& device,
                                     std::uint64_t limit_bytes, std::string& why_not) {
    return join(name, device, limit_bytes, why_not, Terms());
  }
  ~Group() override;  // as if the process had ended

  bool take(std::uint64_t bytes) noexcept override;
  void force(std::uint64_t bytes) noexcept override;
  void give(std::uint64_t bytes) noexcept override;
  std::uint64_t used() const noexcept override;
  // The limit by which this process claims now: at first the one that it has joined with.
  // GroupControl may change the group's limit at any time; for what holds then, see
  // GroupFile::limit_of().
  std::uint64_t limit() const noexcept override;
  std::uint64_t most() const noexcept override;
  std::uint64_t left() const noexcept override;
  std::uint64_t highest() const noexcept override {
    return terms_.limit_is_enforced ? limit_bytes_ : arena::Budget::kUnlimited;
  }
  // Whether the group's limit was changed (GroupControl), and limit() is that changed limit.
  bool goes_by_changed_limit() const noexcept;
  // Called when this process has given back `bytes` unused bytes because another process asked for
  // them. While the group is beyond a lowered limit, a member may hold what it held before. If the
  // asker is the `cubfc limit` that lowered the limit, this process may hold `bytes` less than that
  // from now on (GroupFile::keep_less). Asks the kernel whether such a command is asking.
  void has_given_back(std::uint64_t bytes) noexcept;

  // Called once a second by SoftReserve's thread. If the file has been removed, moves to a new one,
  // with all that this process holds. The system may remove a user's runtime folder when the user
  // logs out, and processes that join after that make a new file.
  void meet_again() noexcept;

  // Gives back what dead members hold, so that used() counts only living members. Asks the kernel.
  void clear_the_dead() noexcept;
  // Whether a member has died so short a time ago (patience::kUntilTakenBack) that the driver may
  // not have taken back all of its memory yet.
  bool has_just_lost_member() const noexcept;

  // The pid and the limit of a member that claims by another limit than this one. Nothing when all
  // agree.
  std::optional<std::pair<std::int32_t, std::uint64_t>> member_that_disagrees() const noexcept;

  const std::string& name() const noexcept { return name_; }
  // The key by which its members find each other in a Rendezvous: made from the name, never 0.
  std::uint64_t key() const noexcept { return GroupFile::key_of(name_); }
  // The number of members, this one included. Dead ones count until they are cleared.
  std::size_t members() const noexcept;

  // For tests, which measure how often members retry.
  const GroupTable& table() const noexcept;
  std::size_t member() const noexcept { return place().member; }

 private:
  Group(std::string name, std::string file_name, std::uint64_t limit_bytes, Terms terms)
      : name_(std::move(name)),
        file_name_(std::move(file_name)),
        limit_bytes_(std::min(limit_bytes, GroupTable::kMostBytes)),
        terms_(terms) {}

  // A file, and this process's part in it.
  struct Place {
    SharedFile shared;
    std::size_t member = 0;
    GroupFile& file() const noexcept { return *static_cast<GroupFile*>(shared.data); }
  };
  const Place& place() const noexcept { return *place_.load(std::memory_order_acquire); }
  bool join_file(std::string& why_not);
  static void remove_left_files();
  bool become_member(int descriptor, GroupFile& file, std::size_t& member) const;
  bool take_part(int descriptor, GroupFile& file, std::size_t& member) const;
  enum class IfBusy : bool { kLeave, kWait };  // when another process is clearing
  void clear_the_dead_at(const Place& place, IfBusy if_busy) noexcept;
  bool take_beside_others(std::uint64_t bytes) noexcept;
  bool end_take(std::uint64_t bytes, GroupTable::Begun begun) noexcept;
  void move_to_new_file() noexcept;

  const std::string name_;
  const std::string file_name_;
  const std::uint64_t limit_bytes_;  // its own limit
  const Terms terms_;
  std::atomic<const Place*> place_{nullptr};

  arena::Lock lock_;                 // guards this process's part, and all below
  std::forward_list<Place> places_;  // the newest first: older ones stay mapped for readers
  bool told_of_missing_file_ = false;
  bool clearing_is_stuck_ = false;  // the last wait for another process to clear was in vain
};

}  // namespace cubfc
