// A group as seen by a process that is not a member (`cubfc limit`): what the members have claimed,
// and the limit. The limit can be changed while the members run: GroupFile::change_limit() writes
// one word, which each member reads at its next claim. Knows bytes and processes; nothing of CUDA.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shim/meet/descriptor.h"
#include "shim/meet/device_id.h"
#include "shim/meet/group_file.h"
#include "shim/meet/shared_files.h"

namespace cubfc {

// A group on one device. The group's file stays as long as this object lives, even if the last
// member ends meanwhile. Must not be used by several threads at once.
class GroupControl {
 public:
  // All groups of that name: one for each device, and for each folder in which processes of this
  // user meet. Adds a line to `unusable` for each file that cannot be used, which says why. Throws
  // std::bad_alloc.
  static std::vector<GroupControl> all_of(const std::string& name,
                                          std::vector<std::string>& unusable);

  // What can be seen without a lock, so that no process that joins meanwhile must wait.
  struct Seen {
    std::uint64_t used;                          // by living members
    std::optional<std::uint64_t> changed_limit;  // the group's, where it was changed
  };
  // Nothing if there is no such group. Throws std::bad_alloc.
  static std::optional<Seen> see(const std::string& name, const DeviceId& device, Where where);

  GroupControl(GroupControl&& other) noexcept;
  GroupControl& operator=(GroupControl&& other) noexcept;
  ~GroupControl();

  const DeviceId& device() const noexcept { return device_; }
  const std::string& path() const noexcept { return shared_.path; }

  struct Member {
    std::int32_t pid;               // in its own namespace
    std::uint64_t limit_bytes;      // by which it claims now
    std::uint64_t own_limit_bytes;  // with which it has joined
    std::uint64_t held_bytes;
    bool is_sealed;  // a policy file enforces own_limit_bytes
  };
  // Adds the living members to `members`. False, and errno says why, if the file is no longer
  // there, or if another process has been clearing it for too long
  // (patience::kMostNapsForClearing).
  bool look(std::vector<Member>& members);
  std::uint64_t limit() const noexcept { return file().limit(); }  // 0: nobody is in it
  std::uint64_t used() const noexcept { return file().table.used(); }

  // Changes the limit by which the members claim from now on. A member that has joined with a lower
  // limit than the others, or with a sealed one, claims by the lower of that and the new one. No
  // memory is taken from a member: one that holds more keeps what it holds, and after a free may
  // claim the same bytes again.
  // kIsSealed: nothing has changed, since all members' limits are sealed and `bytes` is above the
  // highest of them. Precondition: `bytes` is more than 0.
  enum class Changed : std::uint8_t { kYes, kIsSealed, kNot };  // kNot: errno says why
  Changed change_limit(std::uint64_t bytes);
  // Calls `ask`, which must ask members to give back what they do not use. What a member gives back
  // while `ask` runs is taken off the bytes that the member may claim beyond the limit
  // (GroupFile::keep_less()).
  template <typename Ask>
  void ask_for_unused(Ask ask) {
    const Descriptor asking = begin_to_ask();
    ask();
  }

 private:
  GroupControl(const DeviceId& device, SharedFile shared)
      : device_(device), shared_(std::move(shared)) {}
  GroupFile& file() const noexcept { return *static_cast<GroupFile*>(shared_.data); }
  Member member(std::size_t number) const noexcept;
  template <typename Do>
  bool alone(Do what);
  Descriptor begin_to_ask() const;

  DeviceId device_;
  SharedFile shared_;
};

}  // namespace cubfc
