#include "shim/meet/group.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <new>
#include <thread>

#include "shim/meet/locked_mapping.h"
#include "shim/patience.h"
#include "shim/tell/format.h"
#include "shim/tell/log.h"

namespace cubfc {
namespace {

constexpr char kFileKind[] = "group-";

// "cubfcgr" and the version of the layout: those of another one are not to share a budget by
// halves, so it is no part of the file's name.
constexpr std::uint64_t kGroupMagic = 0x0172676366627563;
constexpr unsigned kVersionShift = 56;
bool is_other_version(std::uint64_t magic) noexcept {
  return magic != kGroupMagic &&
         (magic ^ kGroupMagic) >> kVersionShift << kVersionShift == (magic ^ kGroupMagic);
}

// The same clock in all processes.
std::uint64_t now_ns() noexcept {
  return static_cast<std::uint64_t>(
      std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
}

}  // namespace

// Each member has the lock of its part's byte, and who clears the dead that of the byte behind.
struct Group::File {
  static constexpr std::size_t kClearing = GroupTable::kMembers;

  struct Header {
    std::atomic<std::uint64_t> magic;
    std::atomic<std::uint64_t> lost_ns;  // when something was given back for a dead member
    struct Owner {
      std::atomic<std::uint64_t> limit_bytes;
      std::atomic<std::int32_t> pid;  // in its own namespace; 0: the part is nobody's
    };
    std::array<Owner, GroupTable::kMembers> owners;
  };
  // By who has the lock of that part's byte: what a dead member held.
  void give_back(std::size_t member) noexcept {
    table.recover(member);
    const std::uint64_t held = table.held_by(member);
    table.give(member, held);
    if (held > 0) {
      header.lost_ns.store(now_ns(), std::memory_order_relaxed);
    }
  }
  // By who has it for himself: the same for all.
  void give_all_back() noexcept {
    for (std::size_t i = 0; i < GroupTable::kMembers; ++i) {
      if (header.owners[i].pid.exchange(0) != 0) {
        give_back(i);
      }
    }
  }
  // The driver may not have all of its memory back.
  bool has_just_lost_member() const noexcept {
    const std::uint64_t lost = header.lost_ns.load(std::memory_order_relaxed);
    return lost != 0 &&
           now_ns() - lost < static_cast<std::uint64_t>(
                                 std::chrono::nanoseconds(patience::kUntilTakenBack).count());
  }

  Header header;
  GroupTable table;
};

namespace {

std::string file_name_of(const std::string& name, const DeviceId& device) {
  std::string file_name = kFileKind + name + '-';
  for (const char byte : device) {
    file_name += format("{:02x}", static_cast<unsigned char>(byte));
  }
  return file_name;
}

}  // namespace

// Without a lock of its own, so that nobody who joins meanwhile has to wait. What the dead have
// left counts no more: nobody has the locks of their parts.
std::optional<std::uint64_t> Group::used_by(const std::string& name, const DeviceId& device,
                                            Where where) {
  const Descriptor descriptor = open_shared_file(file_name_of(name, device), where);
  if (!descriptor) {
    return std::nullopt;
  }
  const auto file = std::make_unique<File>();
  if (pread(descriptor.get(), file.get(), sizeof(File), 0) != static_cast<ssize_t>(sizeof(File)) ||
      file->header.magic.load() != kGroupMagic) {
    return std::nullopt;
  }
  std::uint64_t used = 0;
  for (std::size_t i = 0; i < GroupTable::kMembers; ++i) {
    const bool is_alive =
        file->header.owners[i].pid.load() != 0 && is_byte_locked(descriptor.get(), i);
    used += is_alive ? file->table.held_by(i) : 0;
  }
  return used;
}

std::unique_ptr<Group> Group::join(const std::string& name, const DeviceId& device,
                                   std::uint64_t limit_bytes, std::string& why_not, Where where) {
  if (device == DeviceId{}) {
    why_not = "the driver does not tell the GPU's UUID, by which the processes of a group know it";
    return nullptr;
  }
  remove_left_files();
  std::unique_ptr<Group> group(new Group(name, file_name_of(name, device), where, limit_bytes));
  if (!group->join_file(why_not)) {
    return nullptr;
  }
  group->clear_the_dead_of(*group->mapped_.load(), IfBusy::kLeave);
  return group;
}

Group::~Group() {
  if (file_.data != nullptr) {
    munmap(file_.data, file_.bytes);
  }
}

// Files of groups that have no member any more, but for those that have just lost one: who joins
// next is to know it. Those of another version go at once, and what is no group's file stays.
void Group::remove_left_files() {
  cubfc::remove_left_files(kFileKind, [](int descriptor) {
    std::uint64_t magic = 0;
    struct stat status {};
    if (pread(descriptor, &magic, sizeof(magic), 0) != sizeof(magic) || magic != kGroupMagic ||
        fstat(descriptor, &status) != 0 || status.st_size != static_cast<off_t>(sizeof(File)) ||
        !make_room_in(descriptor, 0, sizeof(File))) {
      return is_other_version(magic);
    }
    void* const data =
        mmap(nullptr, sizeof(File), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (data == MAP_FAILED) {
      return false;
    }
    File& file = *static_cast<File*>(data);
    file.give_all_back();
    const bool may_go = !file.has_just_lost_member();
    munmap(data, sizeof(File));
    return may_go;
  });
}

bool Group::join_file(std::string& why_not) {
  std::string unusable;
  const auto joined = join_shared_file(
      file_name_, sizeof(File), IfMissing::kMake,
      [this](int descriptor, void* data) {
        return become_member(descriptor, *static_cast<File*>(data));
      },
      &unusable, where_);
  const int error = errno;
  if (joined) {
    file_ = *joined;
    mapped_.store(static_cast<File*>(file_.data), std::memory_order_release);
    return true;
  }
  if (unusable.empty()) {
    why_not = "there is no folder for its file: " + why_no_shared_file(error, where_);
  } else if (error == EUSERS) {
    why_not = format("{} has {} members, and no room for more", unusable, GroupTable::kMembers);
  } else if (error == EINVAL || error == EPROTO) {
    why_not = unusable +
              " is not a group's file as this version of cubfc makes it, of this user's alone; "
              "remove it when no process of the group runs";
  } else {
    why_not = unusable + " cannot be used: " + std::strerror(error);
  }
  return false;
}

// Before anybody else may use the mapping. False: errno says why.
bool Group::become_member(int descriptor, File& file) {
  if (!make_room_in(descriptor, 0, sizeof(File))) {
    return false;
  }
  std::uint64_t magic = 0;
  if (!file.header.magic.compare_exchange_strong(magic, kGroupMagic) && magic != kGroupMagic) {
    errno = EPROTO;
    return false;
  }
  for (std::size_t i = 0; i < GroupTable::kMembers; ++i) {
    if (lock_byte(descriptor, i, F_WRLCK)) {
      file.give_back(i);
      file.header.owners[i].limit_bytes.store(limit_bytes_, std::memory_order_relaxed);
      file.header.owners[i].pid.store(getpid(), std::memory_order_release);
      member_ = i;
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
  if (bytes > limit_bytes_) {
    return false;
  }
  if (!lock_.try_lock()) [[unlikely]] {
    return take_beside_others(bytes);
  }
  const GroupTable::Begun begun =
      mapped_.load(std::memory_order_relaxed)->table.begin_change(member_, bytes, limit_bytes_);
  if (begun != GroupTable::Begun::kAndDone) [[unlikely]] {
    return end_take(bytes, begun);
  }
  lock_.unlock();
  return true;
}

// The same when another thread is at it.
bool Group::take_beside_others(std::uint64_t bytes) noexcept {
  lock_.lock();
  return end_take(
      bytes,
      mapped_.load(std::memory_order_relaxed)->table.begin_change(member_, bytes, limit_bytes_));
}

// The rest of it: what dead members held may be enough. Lets the lock go.
bool Group::end_take(std::uint64_t bytes, GroupTable::Begun begun) noexcept {
  const std::lock_guard guard(lock_, std::adopt_lock);
  File& file = *mapped_.load(std::memory_order_relaxed);
  if (begun == GroupTable::Begun::kAndDone ||
      file.table.end_change(member_, bytes, limit_bytes_, begun)) {
    return true;
  }
  clear_the_dead_of(file, IfBusy::kWait);
  return file.table.take(member_, bytes, limit_bytes_);
}

void Group::force(std::uint64_t bytes) noexcept {
  const std::lock_guard guard(lock_);
  mapped_.load(std::memory_order_relaxed)->table.force(member_, bytes);
}

void Group::give(std::uint64_t bytes) noexcept {
  const std::lock_guard guard(lock_);
  mapped_.load(std::memory_order_relaxed)->table.give(member_, bytes);
}

std::uint64_t Group::used() const noexcept {
  return table().used();
}

const GroupTable& Group::table() const noexcept {
  return mapped_.load(std::memory_order_acquire)->table;
}

void Group::clear_the_dead() noexcept {
  const std::lock_guard guard(lock_);
  clear_the_dead_of(*mapped_.load(std::memory_order_relaxed), IfBusy::kWait);
}

// One process at a time: a part that somebody has locked to clear it would seem to be a living
// member's. Each lock is taken away again by hand: a child that is forked meanwhile has it, too.
// Precondition: the lock is held.
void Group::clear_the_dead_of(File& file, IfBusy if_busy) noexcept {
  const Descriptor locks = open_again(file_);
  if (!locks) {
    return;  // removed: see meet_again()
  }
  const LockedForMoment only_ours(locks);
  for (int naps = 0; !lock_byte(locks.get(), File::kClearing, F_WRLCK); ++naps) {
    if (if_busy == IfBusy::kLeave || clearing_is_stuck_) {
      return;
    }
    clearing_is_stuck_ = naps == patience::kMostNapsForClearing;
    std::this_thread::sleep_for(patience::kNapForClearing);
  }
  clearing_is_stuck_ = false;
  for (std::size_t i = 0; i < GroupTable::kMembers; ++i) {
    std::atomic<std::int32_t>& pid = file.header.owners[i].pid;
    if (i == member_ || pid.load(std::memory_order_acquire) == 0 ||
        !lock_byte(locks.get(), i, F_WRLCK)) {
      continue;
    }
    file.give_back(i);
    pid.store(0, std::memory_order_release);
    lock_byte(locks.get(), i, F_UNLCK);
  }
  lock_byte(locks.get(), File::kClearing, F_UNLCK);
}

bool Group::has_just_lost_member() const noexcept {
  return mapped_.load(std::memory_order_acquire)->has_just_lost_member();
}

// FNV-1a.
std::uint64_t Group::key() const noexcept {
  std::uint64_t key = 0xcbf29ce484222325;
  for (const char byte : name_) {
    key = (key ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  }
  return key == 0 ? 1 : key;
}

std::size_t Group::members() const noexcept {
  const auto& owners = mapped_.load(std::memory_order_acquire)->header.owners;
  return static_cast<std::size_t>(
      std::count_if(owners.begin(), owners.end(), [](const File::Header::Owner& owner) {
        return owner.pid.load(std::memory_order_relaxed) != 0;
      }));
}

std::optional<std::pair<std::int32_t, std::uint64_t>> Group::member_that_disagrees()
    const noexcept {
  for (const File::Header::Owner& owner : mapped_.load(std::memory_order_acquire)->header.owners) {
    const std::uint64_t limit = owner.limit_bytes.load(std::memory_order_relaxed);
    if (const std::int32_t pid = owner.pid.load(std::memory_order_acquire);
        pid != 0 && limit != limit_bytes_) {
      return std::pair(pid, limit);
    }
  }
  return std::nullopt;
}

void Group::meet_again() noexcept {
  const std::lock_guard guard(lock_);
  if (!open_again(file_)) {
    move_to_new_file();
  }
}

// Precondition: the lock is held.
void Group::move_to_new_file() noexcept try {
  const std::uint64_t held = table().held_by(member_);
  std::string why_not;
  if (join_file(why_not)) {
    mapped_.load(std::memory_order_relaxed)->table.force(member_, held);
  } else if (!std::exchange(told_of_missing_file_, true)) {
    log::warn(
        "{} cannot be seen any more, since it was removed, or this process is in another root "
        "folder or mount namespace now: {}. It stays within its group's limit with those that "
        "are in it; who joins the group from now on may not meet it",
        file_.path, why_not);
  }
} catch (const std::bad_alloc&) {  // another time
}

}  // namespace cubfc
