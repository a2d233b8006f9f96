#include "shim/meet/group_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>
#include <thread>

#include "arena/units.h"
#include "shim/meet/locked_mapping.h"
#include "shim/patience.h"
#include "shim/tell/format.h"

namespace cubfc {
namespace {

constexpr unsigned kVersionShift = 56;

// The same clock in all processes.
std::uint64_t now_ns() noexcept {
  return static_cast<std::uint64_t>(
      std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
}

bool is_since(const std::atomic<std::uint64_t>& moment, std::chrono::nanoseconds time) noexcept {
  const std::uint64_t ns = moment.load(std::memory_order_relaxed);
  return ns != 0 && now_ns() - ns < static_cast<std::uint64_t>(time.count());
}

std::optional<unsigned> value_of_digit(char digit) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const std::size_t value = kDigits.find(digit);
  return value == std::string_view::npos ? std::nullopt : std::optional(unsigned(value));
}

}  // namespace

bool wait_to_clear(int file) noexcept {
  for (int naps = 0; !lock_byte(file, GroupFile::kClearing, F_WRLCK); ++naps) {
    if ((errno != EAGAIN && errno != EACCES) || naps == patience::kMostNapsForClearing) {
      return false;
    }
    std::this_thread::sleep_for(patience::kNapForClearing);
  }
  return true;
}

bool GroupFile::is_other_version(std::uint64_t magic) noexcept {
  return magic != kMagic && (magic ^ kMagic) >> kVersionShift << kVersionShift == (magic ^ kMagic);
}

std::string GroupFile::name_of(const std::string& group, const DeviceId& device) {
  std::string name = kFileKind + group + '-';
  for (const char byte : device) {
    name += format("{:02x}", static_cast<unsigned char>(byte));
  }
  return name;
}

std::string GroupFile::why_unusable(const std::string& path, int error) {
  switch (error) {
    case EUSERS:
      return format("{} has {} members, and no room for more", path, kMembers);
    case EINVAL:
    case EPROTO:
      return path +
             " is not a group's file as this version of cubfc makes it, of this user's alone; "
             "remove it when no process of the group runs";
    default:
      return path + " cannot be used: " + std::strerror(error);
  }
}

// FNV-1a.
std::uint64_t GroupFile::key_of(const std::string& group) noexcept {
  std::uint64_t key = 0xcbf29ce484222325;
  for (const char byte : group) {
    key = (key ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  }
  return key == 0 ? 1 : key;
}

std::optional<DeviceId> GroupFile::device_of(const std::string& file_name,
                                             const std::string& group) {
  const std::string beginning = kFileKind + group + '-';
  DeviceId device{};
  if (!file_name.starts_with(beginning) ||
      file_name.size() != beginning.size() + 2 * device.size()) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < device.size(); ++i) {
    const auto high = value_of_digit(file_name[beginning.size() + 2 * i]);
    const auto low = value_of_digit(file_name[beginning.size() + 2 * i + 1]);
    if (!high || !low) {
      return std::nullopt;
    }
    device[i] = static_cast<char>(*high << 4 | *low);
  }
  return device;
}

void GroupFile::enter(std::size_t member, std::uint64_t limit_bytes, bool is_sealed) noexcept {
  members[member].own_limit_bytes.store(limit_bytes, std::memory_order_relaxed);
  members[member].sealed.store(is_sealed ? 1 : 0, std::memory_order_relaxed);
  members[member].pid.store(getpid(), std::memory_order_release);
}

// The first member that comes from the removed file brings the changed limit along, also for
// members that were in the new file already. Those that come later bring the same limit or an older
// one, which is ignored.
void GroupFile::bring_along(std::size_t member, const GroupFile& before,
                            std::size_t before_as) noexcept {
  std::uint64_t none = 0;
  named_limit_bytes.compare_exchange_strong(none, before.named_limit_bytes.load());
  none = 0;
  changed_limit_bytes.compare_exchange_strong(none, before.changed_limit_bytes.load());
  members[member].kept_bytes.store(before.members[before_as].kept_bytes.load());
}

// kept_bytes does not fall below what the member holds now. Those bytes are in use, or were claimed
// after kept_bytes was noted.
void GroupFile::keep_less(std::size_t member, std::uint64_t bytes) noexcept {
  std::atomic<std::uint64_t>& kept = members[member].kept_bytes;
  std::uint64_t now = kept.load(std::memory_order_relaxed);
  while (!kept.compare_exchange_weak(
      now, std::min(now, std::max(arena::less(now, bytes), table.held_by(member))),
      std::memory_order_relaxed)) {
  }
}

void GroupFile::give_back(std::size_t member) noexcept {
  table.recover(member);
  const std::uint64_t held = table.held_by(member);
  table.give(member, held);
  if (held > 0) {
    lost_ns.store(now_ns(), std::memory_order_relaxed);
  }
  members[member].kept_bytes.store(0, std::memory_order_relaxed);
}

void GroupFile::give_all_back() noexcept {
  for (std::size_t i = 0; i < kMembers; ++i) {
    if (members[i].pid.exchange(0) != 0) {
      give_back(i);
    }
  }
}

// Each lock is unlocked explicitly: closing the descriptor does not end it if a child that was
// forked meanwhile has a copy.
void GroupFile::clear_the_dead(int file, std::size_t own) noexcept {
  bool is_any_alive = own != kMembers;
  for (std::size_t i = 0; i < kMembers; ++i) {
    if (i == own || members[i].pid.load(std::memory_order_acquire) == 0) {
      continue;
    }
    if (!lock_byte(file, i, F_WRLCK)) {
      is_any_alive = true;
      continue;
    }
    give_back(i);
    members[i].pid.store(0, std::memory_order_release);
    lock_byte(file, i, F_UNLCK);
  }
  if (!is_any_alive) {
    changed_limit_bytes.store(0);
    named_limit_bytes.store(0);
  }
}

bool GroupFile::has_just_lost_member() const noexcept {
  return is_since(lost_ns, patience::kUntilTakenBack);
}

std::uint64_t GroupFile::limit_of(std::size_t member) const noexcept {
  const std::uint64_t own = members[member].own_limit_bytes.load(std::memory_order_relaxed);
  const std::uint64_t changed = changed_limit_bytes.load(std::memory_order_acquire);
  if (changed == 0) {
    return own;
  }
  const bool keeps_to_own = members[member].sealed.load(std::memory_order_relaxed) != 0 ||
                            own < named_limit_bytes.load(std::memory_order_relaxed);
  return keeps_to_own ? std::min(own, changed) : changed;
}

// What all members kept, in bytes. The sum of 512 members with kMostBytes each does not overflow.
std::uint64_t GroupFile::kept_by_all() const noexcept {
  std::uint64_t kept = 0;
  for (const Member& member : members) {
    kept += std::min(member.kept_bytes.load(std::memory_order_relaxed), GroupTable::kMostBytes);
  }
  return std::min(kept, GroupTable::kMostBytes);
}

std::uint64_t GroupFile::bound_of_claim(std::size_t member, std::uint64_t bytes) const noexcept {
  const std::uint64_t kept = members[member].kept_bytes.load(std::memory_order_relaxed);
  const std::uint64_t limit = limit_of(member);
  return kept == 0 || arena::plus(table.held_by(member), bytes) > kept
             ? limit
             : std::max(limit, kept_by_all());
}

std::uint64_t GroupFile::left_to(std::size_t member) const noexcept {
  const std::uint64_t used = table.used();
  const std::uint64_t kept = members[member].kept_bytes.load(std::memory_order_relaxed);
  const std::uint64_t left = arena::less(limit_of(member), used);
  return kept == 0 ? left
                   : std::max(left, std::min(arena::less(kept, table.held_by(member)),
                                             arena::less(kept_by_all(), used)));
}

std::uint64_t GroupFile::limit() const noexcept {
  const std::uint64_t changed = changed_limit_bytes.load(std::memory_order_relaxed);
  std::uint64_t largest = 0;
  for (const Member& member : members) {
    largest = std::max(largest, member.pid.load(std::memory_order_relaxed) == 0
                                    ? 0
                                    : member.own_limit_bytes.load(std::memory_order_relaxed));
  }
  return changed == 0 ? largest : changed;
}

template <typename Do>
void GroupFile::for_each_member(Do what) noexcept {
  for (std::size_t i = 0; i < kMembers; ++i) {
    if (members[i].pid.load(std::memory_order_acquire) != 0) {
      what(i, members[i]);
    }
  }
}

// If the limit is lowered, what each member holds is noted before and after the change. By the
// first note a member may claim what it had, also between the change and the second note, and also
// if this process is killed there. The second note counts what was claimed by the old limit at the
// last moment.
bool GroupFile::change_limit(std::uint64_t bytes) noexcept {
  const std::uint64_t before = limit();
  std::uint64_t largest_sealed = 0;
  bool are_all_sealed = true;
  for_each_member([&](std::size_t /*i*/, const Member& member) {
    are_all_sealed = are_all_sealed && member.sealed.load(std::memory_order_relaxed) != 0;
    largest_sealed =
        std::max(largest_sealed, member.own_limit_bytes.load(std::memory_order_relaxed));
  });
  if (bytes > before && are_all_sealed && bytes > largest_sealed) {
    return false;
  }
  if (changed_limit_bytes.load() == 0) {
    named_limit_bytes.store(before);
  }
  if (bytes < before) {
    for_each_member([&](std::size_t i, Member& member) {
      const std::uint64_t kept = member.kept_bytes.load(std::memory_order_relaxed);
      member.kept_bytes.store(std::max(kept, table.held_by(i)), std::memory_order_relaxed);
    });
  }
  changed_limit_bytes.store(bytes, std::memory_order_release);
  const bool is_over = bytes < before ? table.used() > bytes : bytes < kept_by_all();
  for_each_member([&](std::size_t i, Member& member) {
    if (!is_over || bytes < before) {
      member.kept_bytes.store(is_over ? table.held_by(i) : 0, std::memory_order_relaxed);
    }
  });
  return true;
}

}  // namespace cubfc
