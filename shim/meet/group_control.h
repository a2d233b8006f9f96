// A group, for whoever is none of its members: what they have claimed, and the limit, which can be
// changed while they run (`cubfc limit`). Knows bytes and processes; nothing of CUDA.
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

// The budget of a group on one device. It is there as long as this is, also when its last member
// has gone meanwhile. Not for several threads at once.
class GroupControl {
 public:
  // All of that name, one for each device and each folder of files in which processes of this user
  // meet. Throws std::bad_alloc. Of files that cannot be used, a line that says why.
  static std::vector<GroupControl> all_of(const std::string& name,
                                          std::vector<std::string>& unusable);

  // What somebody sees without a lock of his own, so that nobody who joins meanwhile has to wait.
  struct Seen {
    std::uint64_t used;                          // by living members
    std::optional<std::uint64_t> changed_limit;  // the group's, where it was changed
  };
  // Nothing where there is no such group. Throws std::bad_alloc.
  static std::optional<Seen> see(const std::string& name, const DeviceId& device, Where where);

  GroupControl(GroupControl&& other) noexcept;
  GroupControl& operator=(GroupControl&& other) noexcept;
  ~GroupControl();

  const DeviceId& device() const noexcept { return device_; }
  const std::string& path() const noexcept { return shared_.path; }

  struct Member {
    std::int32_t pid;               // in its own namespace
    std::uint64_t limit_bytes;      // by which it claims
    std::uint64_t own_limit_bytes;  // with which it has joined
    std::uint64_t held_bytes;
    bool is_sealed;  // a policy file enforces that
  };
  // Those that live. False, and errno says why, where the file is no longer there, or somebody who
  // clears it was waited for in vain (patience::kMostNapsForClearing).
  bool look(std::vector<Member>& members);
  std::uint64_t limit() const noexcept { return file().limit(); }  // 0: nobody is in it
  std::uint64_t used() const noexcept { return file().table.used(); }

  // From now on the members claim by this limit, but for those that have joined with a lower one
  // than the others, which keep to that. Nothing is taken from anybody: who has more keeps it, and
  // may have it again. Nothing is changed where it would be raised above a sealed one. `bytes`:
  // more than 0.
  enum class Changed : std::uint8_t { kYes, kIsSealed, kNot };  // kNot: errno says why
  Changed change_limit(std::uint64_t bytes);
  // Calls `ask`, which has members give back what they do not use: what they do they do not keep.
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
