#include "shim/meet/group.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <mutex>
#include <new>
#include <thread>

#include "shim/meet/locked_mapping.h"
#include "shim/patience.h"
#include "shim/tell/format.h"
#include "shim/tell/log.h"

namespace cubfc {

std::unique_ptr<Group> Group::join(const std::string& name, const DeviceId& device,
                                   std::uint64_t limit_bytes, std::string& why_not, Terms terms) {
  if (device == DeviceId{}) {
    why_not = "the driver does not tell the GPU's UUID, by which the processes of a group know it";
    return nullptr;
  }
  remove_left_files();
  std::unique_ptr<Group> group(
      new Group(name, GroupFile::name_of(name, device), limit_bytes, terms));
  if (!group->join_file(why_not)) {
    return nullptr;
  }
  group->clear_the_dead_at(group->place(), IfBusy::kLeave);
  return group;
}

Group::~Group() {
  for (const Place& place : places_) {
    munmap(place.shared.data, place.shared.bytes);
  }
}

// Removes the files of groups that have no member any more. But a file whose group has just lost a
// member stays, for a process that joins next must know that. A file of another version is removed
// at once. A file that is no group's stays.
void Group::remove_left_files() {
  cubfc::remove_left_files(GroupFile::kFileKind, [](int descriptor) {
    std::uint64_t magic = 0;
    struct stat status {};
    if (pread(descriptor, &magic, sizeof(magic), 0) != sizeof(magic) ||
        magic != GroupFile::kMagic || fstat(descriptor, &status) != 0 ||
        status.st_size != static_cast<off_t>(sizeof(GroupFile)) ||
        !make_room_in(descriptor, 0, sizeof(GroupFile))) {
      return GroupFile::is_other_version(magic);
    }
    void* const data =
        mmap(nullptr, sizeof(GroupFile), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (data == MAP_FAILED) {
      return false;
    }
    GroupFile& file = *static_cast<GroupFile*>(data);
    file.give_all_back();
    const bool may_go = !file.has_just_lost_member();
    munmap(data, sizeof(GroupFile));
    return may_go;
  });
}

// Joins the group's file, made now if there is none, and uses this process's part in it from now
// on. False: nothing has changed, and `why_not` says why. Throws std::bad_alloc.
bool Group::join_file(std::string& why_not) {
  std::string unusable;
  std::forward_list<Place> found(1);  // host memory first
  Place& place = found.front();
  const auto joined = join_shared_file(
      file_name_, sizeof(GroupFile), IfMissing::kMake,
      [&](int descriptor, void* data) {
        return become_member(descriptor, *static_cast<GroupFile*>(data), place.member);
      },
      &unusable, terms_.where);
  const int error = errno;
  if (joined) {
    place.shared = *joined;
    places_.splice_after(places_.before_begin(), found);
    place_.store(&place, std::memory_order_release);
    return true;
  }
  why_not = unusable.empty()
                ? "there is no folder for its file: " + why_no_shared_file(error, terms_.where)
                : GroupFile::why_unusable(unusable, error);
  return false;
}

// Called by join_shared_file() before the mapping is used. Takes a part of the file. False: errno
// says why.
bool Group::become_member(int descriptor, GroupFile& file, std::size_t& member) const {
  if (!make_room_in(descriptor, 0, sizeof(GroupFile))) {
    return false;
  }
  std::uint64_t magic = 0;
  if (!file.magic.compare_exchange_strong(magic, GroupFile::kMagic) && magic != GroupFile::kMagic) {
    errno = EPROTO;
    return false;
  }
  // A changed limit was meant for the members of that time: if all of them are dead, it is
  // forgotten. Only one process may clear at a time.
  const bool is_changed = file.changed_limit_bytes.load() != 0;
  const bool is_alone = is_changed && wait_to_clear(descriptor);
  if (is_alone) {
    file.clear_the_dead(descriptor);
  }
  const bool has_entered = take_part(descriptor, file, member);
  if (is_alone) {
    const int error = errno;
    lock_byte(descriptor, GroupFile::kClearing, F_UNLCK);
    errno = error;
  }
  return has_entered;
}

// Takes the first part that no living process has. False: errno says why.
bool Group::take_part(int descriptor, GroupFile& file, std::size_t& member) const {
  for (std::size_t i = 0; i < GroupTable::kMembers; ++i) {
    if (lock_byte(descriptor, i, F_WRLCK)) {
      file.give_back(i);
      file.enter(i, limit_bytes_, terms_.limit_is_enforced);
      member = i;
      return true;
    }
    if (errno != EAGAIN && errno != EACCES) {
      return false;
    }
  }
  errno = EUSERS;
  return false;
}

bool Group::take(std::uint64_t bytes) noexcept {
  if (bytes > GroupTable::kMostBytes) {
    return false;
  }
  if (!lock_.try_lock()) [[unlikely]] {
    return take_beside_others(bytes);
  }
  const Place& place = *place_.load(std::memory_order_relaxed);
  GroupFile& file = place.file();
  const std::size_t member = place.member;
  const bool is_changed = file.changed_limit_bytes.load(std::memory_order_relaxed) != 0;
  const GroupTable::Begun begun =
      file.table.begin_change(member, bytes, is_changed ? file.limit_of(member) : limit_bytes_);
  if (begun != GroupTable::Begun::kAndDone) [[unlikely]] {
    return end_take(bytes, begun);
  }
  lock_.unlock();
  return true;
}

// take() while another thread has the lock, for which this waits.
bool Group::take_beside_others(std::uint64_t bytes) noexcept {
  lock_.lock();
  const Place& place = this->place();
  return end_take(bytes, place.file().table.begin_change(place.member, bytes,
                                                         place.file().limit_of(place.member)));
}

// The rest of take(), when the first step has not done it. Tries again with what this process kept
// when the limit was lowered, then with what dead members held. Releases the lock, which the caller
// has taken.
bool Group::end_take(std::uint64_t bytes, GroupTable::Begun begun) noexcept {
  const std::lock_guard guard(lock_, std::adopt_lock);
  const Place& place = this->place();
  GroupFile& file = place.file();
  const std::size_t member = place.member;
  if (begun == GroupTable::Begun::kAndDone ||
      file.table.end_change(member, bytes, file.bound_of_claim(member, bytes), begun)) {
    return true;
  }
  if (bytes > file.most_of(member)) {
    return false;
  }
  clear_the_dead_at(place, IfBusy::kWait);
  return file.table.take(member, bytes, file.bound_of_claim(member, bytes));
}

void Group::force(std::uint64_t bytes) noexcept {
  const std::lock_guard guard(lock_);
  const Place& place = this->place();
  place.file().table.force(place.member, bytes);
}

void Group::give(std::uint64_t bytes) noexcept {
  const std::lock_guard guard(lock_);
  const Place& place = this->place();
  place.file().table.give(place.member, bytes);
}

std::uint64_t Group::used() const noexcept {
  return table().used();
}

std::uint64_t Group::limit() const noexcept {
  const Place& place = this->place();
  return place.file().limit_of(place.member);
}

std::uint64_t Group::most() const noexcept {
  const Place& place = this->place();
  return place.file().most_of(place.member);
}

std::uint64_t Group::left() const noexcept {
  const Place& place = this->place();
  return place.file().left_to(place.member);
}

bool Group::goes_by_changed_limit() const noexcept {
  const Place& place = this->place();
  return place.file().changed_limit_bytes.load(std::memory_order_relaxed) == limit();
}

void Group::has_given_back(std::uint64_t bytes) noexcept {
  const std::lock_guard guard(lock_);
  const Place& place = this->place();
  if (place.file().members[place.member].kept_bytes.load(std::memory_order_relaxed) == 0) {
    return;
  }
  const Descriptor file = open_again(place.shared);
  if (file && is_byte_locked(file.get(), GroupFile::kAsking)) {
    place.file().keep_less(place.member, bytes);
  }
}

const GroupTable& Group::table() const noexcept {
  return place().file().table;
}

void Group::clear_the_dead() noexcept {
  const std::lock_guard guard(lock_);
  clear_the_dead_at(place(), IfBusy::kWait);
}

// Only one process clears at a time. While a process clears a part, it has the part's byte locked;
// to a second process that clears, the dead member would seem to live. Precondition: lock_ is held.
void Group::clear_the_dead_at(const Place& place, IfBusy if_busy) noexcept {
  const Descriptor locks = open_again(place.shared);
  if (!locks) {
    return;  // removed: see meet_again()
  }
  const LockedForMoment only_ours(locks);
  const bool waits = if_busy == IfBusy::kWait && !clearing_is_stuck_;
  const bool is_alone =
      waits ? wait_to_clear(locks.get()) : lock_byte(locks.get(), GroupFile::kClearing, F_WRLCK);
  clearing_is_stuck_ = !is_alone && (waits || clearing_is_stuck_);
  if (!is_alone) {
    return;
  }
  place.file().clear_the_dead(locks.get(), place.member);
  lock_byte(locks.get(), GroupFile::kClearing, F_UNLCK);
}

bool Group::has_just_lost_member() const noexcept {
  return place().file().has_just_lost_member();
}

std::size_t Group::members() const noexcept {
  const auto& members = place().file().members;
  return static_cast<std::size_t>(
      std::count_if(members.begin(), members.end(), [](const GroupFile::Member& member) {
        return member.pid.load(std::memory_order_relaxed) != 0;
      }));
}

std::optional<std::pair<std::int32_t, std::uint64_t>> Group::member_that_disagrees()
    const noexcept {
  const GroupFile& file = place().file();
  for (std::size_t i = 0; i < GroupFile::kMembers; ++i) {
    if (const std::int32_t pid = file.members[i].pid.load(std::memory_order_acquire);
        pid != 0 && file.limit_of(i) != limit()) {
      return std::pair(pid, file.limit_of(i));
    }
  }
  return std::nullopt;
}

void Group::meet_again() noexcept {
  const std::lock_guard guard(lock_);
  if (!open_again(place().shared)) {
    move_to_new_file();
  }
}

// Goes on in a new file, with all that this process holds. Precondition: the lock is held.
void Group::move_to_new_file() noexcept try {
  const Place& before = place();
  const std::uint64_t held = table().held_by(before.member);
  std::string why_not;
  if (join_file(why_not)) {
    const Place& now = place();
    now.file().table.force(now.member, held);
    now.file().bring_along(now.member, before.file(), before.member);
  } else if (!std::exchange(told_of_missing_file_, true)) {
    log::warn(
        "the group's file {} is no longer there ({}): it was removed, or this process has another "
        "root folder or mount namespace now. The members that have it open still share the limit; "
        "processes that join from now on may be in another group",
        before.shared.path, why_not);
  }
} catch (const std::bad_alloc&) {  // the next call tries again
}

}  // namespace cubfc
