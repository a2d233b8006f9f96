#include "shim/meet/group_control.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <thread>
#include <utility>

#include "shim/meet/descriptor.h"
#include "shim/meet/locked_mapping.h"
#include "shim/patience.h"

namespace cubfc {

std::vector<GroupControl> GroupControl::all_of(const std::string& name,
                                               std::vector<std::string>& unusable) {
  std::vector<GroupControl> found;
  for (const Where where : {Where::kAsSet, Where::kFixed}) {
    for (const std::string& file_name : names_of_shared_files(GroupFile::kFileKind, where)) {
      const std::optional<DeviceId> device = GroupFile::device_of(file_name, name);
      if (!device) {
        continue;
      }
      std::string path;
      auto shared = join_shared_file(
          file_name, sizeof(GroupFile), IfMissing::kNothing,
          [](int, void* data) {
            errno = EPROTO;
            return static_cast<GroupFile*>(data)->magic.load() == GroupFile::kMagic;
          },
          &path, where);
      const bool is_known =
          shared && std::ranges::any_of(found, [&](const GroupControl& other) {
            return other.shared_.device == shared->device && other.shared_.inode == shared->inode;
          });
      if (is_known) {
        munmap(shared->data, shared->bytes);
      } else if (shared) {
        found.push_back(GroupControl(*device, std::move(*shared)));
      } else if (!path.empty()) {
        unusable.push_back(GroupFile::why_unusable(path, errno));
      }
    }
  }
  return found;
}

std::optional<GroupControl::Seen> GroupControl::see(const std::string& name, const DeviceId& device,
                                                    Where where) {
  const Descriptor descriptor = open_shared_file(GroupFile::name_of(name, device), where);
  const auto file = std::make_unique<GroupFile>();
  constexpr auto kBytes = static_cast<ssize_t>(sizeof(GroupFile));
  if (!descriptor || pread(descriptor.get(), file.get(), sizeof(GroupFile), 0) != kBytes ||
      file->magic.load() != GroupFile::kMagic) {
    return std::nullopt;
  }
  Seen seen{};
  bool has_any = false;
  for (std::size_t i = 0; i < GroupFile::kMembers; ++i) {
    if (file->members[i].pid.load() != 0 && is_byte_locked(descriptor.get(), i)) {
      seen.used += file->table.held_by(i);
      has_any = true;
    }
  }
  if (has_any && file->changed_limit_bytes.load() != 0) {
    seen.changed_limit = file->limit();
  }
  return seen;
}

GroupControl::GroupControl(GroupControl&& other) noexcept
    : device_(other.device_), shared_(std::exchange(other.shared_, {})) {}

GroupControl& GroupControl::operator=(GroupControl&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(shared_, other.shared_);
  return *this;
}

GroupControl::~GroupControl() {
  if (shared_.data != nullptr) {
    munmap(shared_.data, shared_.bytes);
  }
}

GroupControl::Member GroupControl::member(std::size_t number) const noexcept {
  const GroupFile::Member& each = file().members[number];
  return {each.pid.load(), file().limit_of(number), each.own_limit_bytes.load(),
          file().table.held_by(number), each.sealed.load() != 0};
}

// Clears the dead members, then calls `what`, while no other process can clear or change the file.
// False: errno says why, and `what` was not called.
template <typename Do>
bool GroupControl::alone(Do what) {
  const Descriptor locks = open_again(shared_);
  if (!locks) {
    errno = ENOENT;
    return false;
  }
  if (!wait_to_clear(locks.get())) {
    return false;
  }
  file().clear_the_dead(locks.get());
  what();
  return true;
}

// Locks the byte by which members see that the limit was lowered. If another command has it locked
// already, members see that lock.
Descriptor GroupControl::begin_to_ask() const {
  Descriptor file = open_again(shared_);
  if (file) {
    lock_byte(file.get(), GroupFile::kAsking, F_WRLCK);
  }
  return file;
}

bool GroupControl::look(std::vector<Member>& members) {
  return alone([&] {
    for (std::size_t i = 0; i < GroupFile::kMembers; ++i) {
      if (file().members[i].pid.load() != 0) {
        members.push_back(member(i));
      }
    }
  });
}

GroupControl::Changed GroupControl::change_limit(std::uint64_t bytes) {
  bool is_changed = false;
  const bool done =
      alone([&] { is_changed = file().change_limit(std::min(bytes, GroupTable::kMostBytes)); });
  return !done ? Changed::kNot : is_changed ? Changed::kYes : Changed::kIsSealed;
}

}  // namespace cubfc
