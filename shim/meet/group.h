// A group: the processes of a user that share one budget on a device (CUBFC_GROUP). What each has
// claimed stands in a file that they share (group_table.h), in a part that is its own as long as it
// holds the lock of the part's byte. That lock dies with it however it ends; then the next claim
// that finds too little left gives back what the part says. Knows bytes and processes; nothing of
// CUDA.
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

// One process's part in a group. Thread-safe. A process leaves by its end, since it has its memory
// until then. A forked child must not touch its parent's.
class Group final : public arena::SharedAccount {
 public:
  struct Terms {
    Where where = Where::kAsSet;     // kFixed: they meet whatever their environment says
    bool limit_is_enforced = false;  // the group's cannot be raised above it as long as this is in
  };
  // As one more member, whose claims are to stay within `limit_bytes` together with all others'.
  // nullptr where that cannot be had: `why_not` is a line that says what is wrong, and the remedy.
  // Throws std::bad_alloc.
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
  // With which it has joined, or less where the group's had been lowered; whoever changes the
  // group's (GroupControl) changes it at any time.
  std::uint64_t limit() const noexcept override;
  std::uint64_t most() const noexcept override;
  std::uint64_t left() const noexcept override;
  std::uint64_t highest() const noexcept override {
    return terms_.limit_is_enforced ? limit_bytes_ : arena::Budget::kUnlimited;
  }
  // That is what somebody has made of the group's while its programs run.
  bool goes_by_changed_limit() const noexcept;
  // So many bytes of what it did not use it has given back because somebody asked: where that was
  // who has lowered the limit, it is not kept. Asks the kernel.
  void has_given_back(std::uint64_t bytes) noexcept;

  // To be called now and then: a folder of the system's for a user may go when the user logs out,
  // and who comes then makes a new file. Goes on in that, with what it holds.
  void meet_again() noexcept;

  // Gives back what dead members hold, so that used() counts the living. Asks the kernel.
  void clear_the_dead() noexcept;
  // A member has died so short a time ago that the driver may not have all of its memory back.
  bool has_just_lost_member() const noexcept;

  // A member that names another limit: its process and that. Nothing when all agree.
  std::optional<std::pair<std::int32_t, std::uint64_t>> member_that_disagrees() const noexcept;

  const std::string& name() const noexcept { return name_; }
  // By which its members know each other in a Rendezvous: of the name, never 0.
  std::uint64_t key() const noexcept { return GroupFile::key_of(name_); }
  // Processes that are in it, this one too; a dead one may be among them until somebody claims.
  std::size_t members() const noexcept;

  // For whoever looks on.
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
  enum class IfBusy : bool { kLeave, kWait };  // when another member is at it
  void clear_the_dead_at(const Place& place, IfBusy if_busy) noexcept;
  bool take_beside_others(std::uint64_t bytes) noexcept;
  bool end_take(std::uint64_t bytes, GroupTable::Begun begun) noexcept;
  void move_to_new_file() noexcept;

  const std::string name_;
  const std::string file_name_;
  const std::uint64_t limit_bytes_;  // of its own
  const Terms terms_;
  std::atomic<const Place*> place_{nullptr};

  arena::Lock lock_;                 // guards this process's part, and all below
  std::forward_list<Place> places_;  // the last first: what was mapped stays, somebody may read it
  bool told_of_missing_file_ = false;
  bool clearing_is_stuck_ = false;  // whoever clears was waited for in vain, and is at it still
};

}  // namespace cubfc
