#include "shim/meet/group_file.h"

#include <unistd.h>

#include <chrono>
#include <string_view>

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

std::optional<unsigned> value_of_digit(char digit) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const std::size_t value = kDigits.find(digit);
  return value == std::string_view::npos ? std::nullopt : std::optional(unsigned(value));
}

}  // namespace

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

// Once its number is there, who changes the group's limit sees it, and changes its limit, too. Who
// was quicker than that has said so before: so it is looked at again.
void GroupFile::enter(std::size_t member, std::uint64_t limit_bytes, bool is_sealed) noexcept {
  Member& entering = members[member];
  entering.own_limit_bytes.store(limit_bytes, std::memory_order_relaxed);
  for (std::uint64_t changed = changed_limit_bytes.load();;) {
    const bool is_lower = changed != 0 && limit_bytes < changed;
    entering.follows.store(is_sealed  ? Follows::kGroupSealed
                           : is_lower ? Follows::kGroupBelow
                                      : Follows::kGroup,
                           std::memory_order_relaxed);
    entering.limit_bytes.store(changed == 0 ? limit_bytes : std::min(limit_bytes, changed),
                               std::memory_order_relaxed);
    entering.pid.store(getpid());
    const std::uint64_t now = changed_limit_bytes.load();
    if (now == changed) {
      return;
    }
    changed = now;
  }
}

// The first that comes brings the group's limit along, for those that were in the new file already,
// too; all that come after it have been told the same.
void GroupFile::bring_along(std::size_t member, const GroupFile& before,
                            std::size_t before_as) noexcept {
  const std::uint64_t changed = before.changed_limit_bytes.load();
  std::uint64_t none = 0;
  if (changed == 0) {
    return;
  }
  if (changed_limit_bytes.compare_exchange_strong(none, changed)) {
    for (Member& other : members) {
      const std::uint64_t limit = other.limit_bytes.load(std::memory_order_relaxed);
      other.limit_bytes.store(std::min(limit, changed), std::memory_order_relaxed);
    }
  }
  const Member& was = before.members[before_as];
  Member& is = members[member];
  is.follows.store(was.follows.load(std::memory_order_relaxed), std::memory_order_relaxed);
  is.limit_bytes.store(was.limit_bytes.load(std::memory_order_relaxed), std::memory_order_relaxed);
  is.kept_bytes.store(was.kept_bytes.load(std::memory_order_relaxed), std::memory_order_relaxed);
  kept_bytes.fetch_add(is.kept_bytes.load(std::memory_order_relaxed), std::memory_order_relaxed);
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

// Each lock is taken away again by hand: a child that is forked meanwhile has it, too.
void GroupFile::clear_the_dead(int file, std::size_t own) noexcept {
  for (std::size_t i = 0; i < kMembers; ++i) {
    if (i == own || members[i].pid.load(std::memory_order_acquire) == 0 ||
        !lock_byte(file, i, F_WRLCK)) {
      continue;
    }
    give_back(i);
    members[i].pid.store(0, std::memory_order_release);
    lock_byte(file, i, F_UNLCK);
  }
  add_up_kept();
}

bool GroupFile::has_just_lost_member() const noexcept {
  const std::uint64_t lost = lost_ns.load(std::memory_order_relaxed);
  return lost != 0 &&
         now_ns() - lost < static_cast<std::uint64_t>(
                               std::chrono::nanoseconds(patience::kUntilTakenBack).count());
}

bool GroupFile::has_others(int file, std::size_t own) const noexcept {
  for (std::size_t i = 0; i < kMembers; ++i) {
    if (i != own && is_byte_locked(file, i)) {
      return true;
    }
  }
  return false;
}

// By 512 members of kMostBytes each the sum does not overflow.
void GroupFile::add_up_kept() noexcept {
  std::uint64_t kept = 0;
  for (const Member& member : members) {
    kept += std::min(member.kept_bytes.load(std::memory_order_relaxed), GroupTable::kMostBytes);
  }
  if (kept_bytes.load(std::memory_order_relaxed) != kept) {
    kept_bytes.store(kept, std::memory_order_relaxed);
  }
}

std::uint64_t GroupFile::bound_of_claim(std::size_t member, std::uint64_t bytes) const noexcept {
  const std::uint64_t kept = members[member].kept_bytes.load(std::memory_order_relaxed);
  const std::uint64_t limit = limit_of(member);
  if (kept == 0 || arena::plus(table.held_by(member), bytes) > kept) {
    return limit;
  }
  return std::min(std::max(limit, kept_bytes.load(std::memory_order_relaxed)),
                  GroupTable::kMostBytes);
}

std::uint64_t GroupFile::left_to(std::size_t member) const noexcept {
  const std::uint64_t used = table.used();
  const std::uint64_t kept = members[member].kept_bytes.load(std::memory_order_relaxed);
  const std::uint64_t left = arena::less(limit_of(member), used);
  return kept == 0
             ? left
             : std::max(left,
                        std::min(arena::less(kept, table.held_by(member)),
                                 arena::less(kept_bytes.load(std::memory_order_relaxed), used)));
}

// What is kept comes first: nobody is refused in between what he may have.
bool GroupFile::change_limit(std::uint64_t bytes) noexcept {
  const auto each = [this](auto what) {
    for (std::size_t i = 0; i < kMembers; ++i) {
      if (members[i].pid.load() != 0) {
        what(i, members[i]);
      }
    }
  };
  bool is_sealed = false;
  each([&](std::size_t /*i*/, const Member& member) {
    const bool is_less = member.own_limit_bytes.load(std::memory_order_relaxed) < bytes;
    is_sealed = is_sealed || (is_less && member.follows.load(std::memory_order_relaxed) ==
                                             Follows::kGroupSealed);
  });
  if (is_sealed) {
    return false;
  }
  const std::uint64_t before = limit();
  const bool is_first = changed_limit_bytes.exchange(bytes) == 0;
  const bool is_over = table.used() > bytes;
  each([&](std::size_t i, Member& member) {
    const bool is_lower = member.own_limit_bytes.load(std::memory_order_relaxed) < before;
    if (is_first && is_lower && member.follows.load(std::memory_order_relaxed) == Follows::kGroup) {
      member.follows.store(Follows::kGroupBelow, std::memory_order_relaxed);
    }
    member.kept_bytes.store(is_over ? table.held_by(i) : 0, std::memory_order_relaxed);
  });
  add_up_kept();
  each([&](std::size_t /*i*/, Member& member) {
    const bool goes_along = member.follows.load(std::memory_order_relaxed) == Follows::kGroup;
    const std::uint64_t own = member.own_limit_bytes.load(std::memory_order_relaxed);
    member.limit_bytes.store(goes_along ? bytes : std::min(own, bytes), std::memory_order_relaxed);
  });
  return true;
}

void GroupFile::keep_no_more_than_is_held() noexcept {
  for (std::size_t i = 0; i < kMembers; ++i) {
    std::atomic<std::uint64_t>& kept = members[i].kept_bytes;
    kept.store(std::min(kept.load(std::memory_order_relaxed), table.held_by(i)),
               std::memory_order_relaxed);
  }
  add_up_kept();
}

std::uint64_t GroupFile::limit() const noexcept {
  const std::uint64_t changed = changed_limit_bytes.load(std::memory_order_relaxed);
  std::uint64_t largest = 0;
  for (std::size_t i = 0; changed == 0 && i < kMembers; ++i) {
    largest =
        std::max(largest, members[i].pid.load(std::memory_order_relaxed) == 0 ? 0 : limit_of(i));
  }
  return changed == 0 ? largest : changed;
}

}  // namespace cubfc
