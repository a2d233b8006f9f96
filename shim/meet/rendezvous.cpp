#include "shim/meet/rendezvous.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <ctime>
#include <new>
#include <utility>

#include "shim/meet/locked_mapping.h"

namespace cubfc {
namespace {

constexpr std::chrono::seconds kMostPatienceForAnswer{30};
// Between two looks whether those who are waited for are still there.
constexpr std::chrono::milliseconds kLookForDead{20};

int* futex_word(std::atomic<std::uint32_t>& word) {
  return reinterpret_cast<int*>(&word);
}

// Sleeps while the word has this value, a while at most; not at all if it has another.
void wait_while(std::atomic<std::uint32_t>& word, std::uint32_t value,
                std::chrono::nanoseconds most) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(most);
  const timespec time{seconds.count(), (most - seconds).count()};
  syscall(SYS_futex, futex_word(word), FUTEX_WAIT, value, &time, nullptr, 0);
}

void wake_all(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, futex_word(word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

// With all who are rung at once.
struct Rendezvous::Patience {
  Patience(Now clock, const Waiting& waiting) : clock_(clock), waiting_(waiting) {}
  const Now clock_;
  const Waiting& waiting_;
  const Clock::time_point start = clock_();
  Clock::time_point last_progress = start;

  bool is_over(std::int32_t pid) const {
    const auto now = clock_();
    return (waiting_.is_stopped != nullptr && waiting_.is_stopped(pid)) ||
           now - last_progress > waiting_.most || now - start > kMostPatienceForAnswer;
  }
};

std::optional<SharedFile> Rendezvous::join_with_slot() {
  return join_shared_file(name_, sizeof(Table), IfMissing::kMake, [&](int file, void* data) {
    return take_slot(file, *static_cast<Table*>(data));
  });
}

// Somebody may have rung for whoever had the slot before: the counts go on.
void Rendezvous::begin(Entry& entry, const DeviceId& device, std::uint64_t group) noexcept {
  entry.device = device;
  entry.group = group;
  entry.wanted = 0;
  entry.left = 0;
  entry.is_taking = false;
  entry.answers = entry.rings.load();
}

// As one that gives: with a slot. Who has asked before leaves, and comes again.
bool Rendezvous::join_as_giver() {
  if (left_ || interrupted_) {
    return false;
  }
  if (own_ != nullptr) {
    return true;
  }
  const auto joined = join_with_slot();
  if (!joined) {
    return false;
  }
  if (file_) {
    leave_shared_file(*file_);
  }
  unanswered_.clear();
  file_ = joined;
  return true;
}

// The first that nobody has. False: errno says why.
bool Rendezvous::take_slot(int file, Table& table) {
  int error = EUSERS;
  for (std::size_t i = 0; i < kSlots && error == EUSERS; ++i) {
    if (!lock_byte(file, i, F_WRLCK)) {
      error = errno == EAGAIN || errno == EACCES ? EUSERS : errno;
      continue;
    }
    if (!make_room_in(file, offsetof(Table, slots) + i * sizeof(Slot), sizeof(Slot))) {
      error = errno;
      continue;
    }
    Slot& slot = table.slots[i];
    table.header.taken[i].store(Taken::kNot, std::memory_order_relaxed);  // of one that is dead
    slot.devices.store(0, std::memory_order_relaxed);
    slot.pid.store(getpid(), std::memory_order_relaxed);
    std::uint32_t known = table.header.slots;
    while (known <= i &&
           !table.header.slots.compare_exchange_weak(known, static_cast<std::uint32_t>(i + 1))) {
    }
    table_.store(&table, std::memory_order_release);
    own_.store(&slot, std::memory_order_release);
    table.header.taken[i].store(Taken::kByGiver, std::memory_order_release);
    note_change();
    return true;
  }
  errno = error;
  return false;
}

// As one that asks. What it returns finds out who is alive; it is empty where nobody else is.
Descriptor Rendezvous::join_as_asker() {
  if (left_ || mark_.is_in_child()) {
    return Descriptor();
  }
  if (own_ != nullptr && taken_by_others(Taken::kByGiver).empty() &&
      taken_by_others(Taken::kByOneThatCloses).empty()) {
    return Descriptor();
  }
  Descriptor probe = file_ ? open_again(*file_) : Descriptor();
  if (probe || own_ != nullptr) {
    return probe;
  }
  if (file_) {  // somebody has removed it
    leave_shared_file(*file_);
    file_.reset();
    unanswered_.clear();
  }
  file_ = join_shared_file(name_, sizeof(Table), IfMissing::kNothing);
  if (file_) {
    table_ = static_cast<Table*>(file_->data);
    return open_again(*file_);
  }
  return Descriptor();
}

std::optional<std::size_t> Rendezvous::offer(const DeviceId& device, std::uint64_t group) noexcept
    try {
  const std::lock_guard guard(mutex_);
  if (device == DeviceId{} || mark_.is_in_child()) {
    errno = ENODEV;
    return std::nullopt;
  }
  if (!join_as_giver()) {
    return std::nullopt;
  }
  Slot& slot = *own_;
  const std::uint32_t number = slot.devices.load(std::memory_order_relaxed);
  if (number == kDevices) {
    errno = ENOSPC;
    return std::nullopt;
  }
  begin(slot.entries[number], device, group);
  slot.devices.store(number + 1, std::memory_order_release);
  return number;
} catch (const std::bad_alloc&) {
  errno = ENOMEM;
  return std::nullopt;
}

Rendezvous::Woken Rendezvous::wait_for_ring(std::chrono::nanoseconds most) noexcept {
  Slot& slot = *own_;
  const auto until = Clock::now() + most;
  for (;;) {
    const std::uint32_t before = slot.bell.load(std::memory_order_acquire);
    if (interrupted_.load(std::memory_order_acquire)) {
      return Woken::kByInterrupt;
    }
    for (std::size_t i = 0; i < slot.devices.load(std::memory_order_acquire); ++i) {
      const Entry& entry = slot.entries[i];
      if (entry.rings.load(std::memory_order_acquire) !=
          entry.answers.load(std::memory_order_relaxed)) {
        return Woken::kByRing;
      }
    }
    const auto now = Clock::now();
    if (now >= until) {
      return Woken::kByTime;
    }
    wait_while(slot.bell, before, until - now);
  }
}

void Rendezvous::put(Entry& entry, std::uint32_t rings, Left left) noexcept {
  entry.left.store(left.bytes, std::memory_order_relaxed);
  entry.is_taking.store(left.is_taking, std::memory_order_relaxed);
  entry.answers.store(rings, std::memory_order_release);
  wake_all(entry.answers);
}

// What was mapped stays mapped: interrupt() may be looking at it.
void Rendezvous::meet_again() noexcept try {
  const std::unique_lock guard(mutex_, std::try_to_lock);
  if (!guard.owns_lock() || left_ || interrupted_ || !file_ || open_again(*file_)) {
    return;
  }
  Slot& before = *own_;
  const auto joined = join_with_slot();
  if (!joined) {
    return;
  }
  Slot& now = *own_;
  const std::uint32_t devices = before.devices.load(std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < devices; ++i) {
    begin(now.entries[i], before.entries[i].device, before.entries[i].group);
  }
  now.devices.store(devices, std::memory_order_release);
  unanswered_.clear();
  file_ = joined;
} catch (const std::bad_alloc&) {  // another time
}

void Rendezvous::interrupt() noexcept {
  interrupted_.store(true, std::memory_order_release);
  Slot* const slot = own_.load(std::memory_order_acquire);
  if (slot != nullptr && !mark_.is_in_child()) {
    slot->bell.fetch_add(1, std::memory_order_release);
    wake_all(slot->bell);
  }
}

// Those who have rung see within kLookForDead that nobody is there.
void Rendezvous::close() noexcept {
  interrupt();
  set_taken(Taken::kNot);
}

void Rendezvous::set_taken(Taken taken) noexcept {
  Slot* const slot = own_.load(std::memory_order_acquire);
  if (slot != nullptr && !mark_.is_in_child()) {
    Table& table = *table_;
    table.header.taken[static_cast<std::size_t>(slot - table.slots.data())].store(
        taken, std::memory_order_release);
    note_change();
  }
}

std::vector<std::size_t> Rendezvous::taken_by_others(Taken how) const {
  const Table& table = *table_;
  const std::size_t slots = std::min<std::size_t>(table.header.slots, kSlots);
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < slots; ++i) {
    if (table.header.taken[i].load(std::memory_order_acquire) == how && &table.slots[i] != own_) {
      found.push_back(i);
    }
  }
  return found;
}

// Whether the slot is taken by a process that lives. The slot of a dead one is cleared.
bool Rendezvous::is_there(std::size_t slot, const Descriptor& probe) {
  std::atomic<Taken>& taken = table_.load()->header.taken[slot];
  if (taken.load(std::memory_order_acquire) == Taken::kNot) {
    return false;
  }
  if (!lock_byte(probe.get(), slot, F_WRLCK)) {
    return errno == EAGAIN || errno == EACCES;
  }
  taken.store(Taken::kNot, std::memory_order_relaxed);
  note_change();
  lock_byte(probe.get(), slot, F_UNLCK);
  return false;
}

// Those that are alive and for which `which` is true.
template <typename Which>
std::vector<Rendezvous::Other> Rendezvous::others_that(Which which, const Descriptor& probe,
                                                       Taken how) {
  std::vector<Other> others;
  for (const std::size_t i : taken_by_others(how)) {
    Slot& slot = table_.load()->slots[i];
    const std::uint32_t devices = slot.devices.load(std::memory_order_acquire);
    for (std::size_t number = 0; number < devices && number < kDevices; ++number) {
      if (which(slot, slot.entries[number]) && is_there(i, probe)) {
        others.push_back({i, &slot.entries[number], 0});
      }
    }
  }
  return others;
}

// Those that share this device; with a group, those that are in it.
std::vector<Rendezvous::Other> Rendezvous::others_at(const DeviceId& device, std::uint64_t group,
                                                     const Descriptor& probe, Taken how) {
  return others_that(
      [&](const Slot& /*slot*/, const Entry& entry) {
        return entry.device == device && (group == 0 || entry.group == group);
      },
      probe, how);
}

// How much each can give, by what it answers now. Who does not is taken out.
void Rendezvous::ask_what_is_left(std::vector<Other>& others, const Descriptor& probe,
                                  const Waiting& waiting) {
  ring(others, Wanted::kWord, probe, waiting);
  for (Other& other : others) {
    other.bytes = other.entry->left.load(std::memory_order_relaxed);
  }
}

std::vector<Rendezvous::Other> Rendezvous::others_with(const DeviceId& device, std::uint64_t group,
                                                       const Descriptor& probe) {
  std::vector<Other> others = others_at(device, group, probe);
  ask_what_is_left(others, probe, Waiting());
  return others;
}

// Rings all of them, then waits. Who does not answer is taken out, and is not waited for again
// until it has answered. Returns what they have given up meanwhile.
std::uint64_t Rendezvous::ring(std::vector<Other>& others, Wanted wanted, const Descriptor& probe,
                               const Waiting& waiting) {
  struct Ring {
    std::uint32_t number;
    std::uint64_t given_before;
  };
  std::vector<Ring> rings;
  rings.reserve(others.size());
  for (const Other& other : others) {
    Entry& entry = *other.entry;
    const std::uint64_t before = entry.given.load(std::memory_order_relaxed);
    entry.wanted.fetch_add(wanted == Wanted::kBytes ? other.bytes : 0, std::memory_order_relaxed);
    rings.push_back({entry.rings.fetch_add(1, std::memory_order_acq_rel) + 1, before});
    Slot& slot = table_.load()->slots[other.slot];
    slot.bell.fetch_add(1, std::memory_order_release);
    wake_all(slot.bell);
  }
  std::uint64_t given = 0;
  std::vector<Other> answered;
  Patience patience(now_, waiting);
  for (std::size_t i = 0; i < others.size(); ++i) {
    if (is_answered(others[i], rings[i].number, patience, probe)) {
      answered.push_back(others[i]);
    }
    given += others[i].entry->given.load(std::memory_order_relaxed) - rings[i].given_before;
  }
  others = std::move(answered);
  return given;
}

// Waits for it.
bool Rendezvous::is_answered(const Other& other, std::uint32_t ring, Patience& patience,
                             const Descriptor& probe) {
  Entry& entry = *other.entry;
  const auto silent = unanswered_.find(&entry);
  std::uint64_t given = entry.given.load(std::memory_order_relaxed);
  for (;;) {
    const std::uint32_t last = entry.answers.load(std::memory_order_acquire);
    if (static_cast<std::int32_t>(last - ring) >= 0) {  // they count round
      unanswered_.erase(&entry);
      return true;
    }
    const bool is_silent = silent != unanswered_.end() && silent->second == last;
    if (const std::uint64_t before =
            std::exchange(given, entry.given.load(std::memory_order_relaxed));
        before != given) {
      patience.last_progress = now_();
    }
    if (is_silent ||
        patience.is_over(table_.load()->slots[other.slot].pid.load(std::memory_order_relaxed)) ||
        !is_there(other.slot, probe)) {
      unanswered_[&entry] = last;
      return false;
    }
    wait_while(entry.answers, last, kLookForDead);
  }
}

Rendezvous::Left Rendezvous::look(const DeviceId& device, std::uint64_t group) noexcept try {
  const std::lock_guard guard(mutex_);
  const Descriptor probe = device == DeviceId{} ? Descriptor() : join_as_asker();
  if (!probe) {
    return 0;
  }
  Left all = 0;
  for (const Other& other : others_with(device, group, probe)) {
    all.bytes += other.bytes;
    all.is_taking = all.is_taking || other.entry->is_taking.load(std::memory_order_relaxed);
  }
  return all;
} catch (const std::bad_alloc&) {
  return 0;
}

std::uint64_t Rendezvous::ask(const DeviceId& device, std::uint64_t bytes,
                              std::uint64_t group) noexcept try {
  const std::lock_guard guard(mutex_);
  const Descriptor probe = device == DeviceId{} ? Descriptor() : join_as_asker();
  if (!probe) {
    return 0;
  }
  std::vector<Other> others = others_with(device, group, probe);
  std::sort(others.begin(), others.end(),
            [](const Other& a, const Other& b) { return a.bytes > b.bytes; });
  std::vector<Other> asked;
  for (Other& other : others) {
    other.bytes = std::min(bytes, other.bytes);
    if (other.bytes > 0) {
      bytes -= other.bytes;
      asked.push_back(other);
    }
  }
  return ring(asked, Wanted::kBytes, probe, Waiting());
} catch (const std::bad_alloc&) {
  return 0;
}

std::size_t Rendezvous::givers(const DeviceId& device) noexcept try {
  const std::lock_guard guard(mutex_);
  const Descriptor probe = join_as_asker();
  return probe ? others_at(device, 0, probe).size() : 0;
} catch (const std::bad_alloc&) {
  return 0;
}

bool Rendezvous::is_any_closing(const DeviceId& device) noexcept try {
  const std::lock_guard guard(mutex_);
  const Descriptor probe = join_as_asker();
  return probe && !others_at(device, 0, probe, Taken::kByOneThatCloses).empty();
} catch (const std::bad_alloc&) {
  return false;
}

std::uint32_t Rendezvous::changes() noexcept try {
  const std::lock_guard guard(mutex_);
  join_as_asker();
  return file_ ? table_.load()->header.changes.load() : 0;
} catch (const std::bad_alloc&) {
  return 0;
}

std::vector<Rendezvous::Answer> Rendezvous::ask_for_all(std::optional<std::int32_t> pid,
                                                        const Waiting& waiting) {
  const std::lock_guard guard(mutex_);
  std::vector<Answer> answers;
  const Descriptor probe = join_as_asker();
  if (!probe) {
    return answers;
  }
  std::vector<Other> others = others_that(
      [&](const Slot& slot, const Entry& /*entry*/) {
        return !pid || slot.pid.load(std::memory_order_relaxed) == *pid;
      },
      probe);
  const std::vector<Other> all = others;
  std::vector<std::uint64_t> given_before;
  for (const Other& other : all) {
    given_before.push_back(other.entry->given.load(std::memory_order_relaxed));
  }
  // What is given first may be what has kept more from being given.
  constexpr int kMostRounds = 8;
  for (int round = 0; round < kMostRounds; ++round) {
    ask_what_is_left(others, probe, waiting);
    if (ring(others, Wanted::kBytes, probe, waiting) == 0) {
      break;
    }
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Entry& entry = *all[i].entry;
    const bool is_answered = std::any_of(others.begin(), others.end(),
                                         [&](const Other& other) { return other.entry == &entry; });
    answers.push_back({table_.load()->slots[all[i].slot].pid.load(std::memory_order_relaxed),
                       entry.device, entry.given.load(std::memory_order_relaxed) - given_before[i],
                       is_answered});
  }
  return answers;
}

void Rendezvous::leave() noexcept {
  const std::unique_lock guard(mutex_, std::try_to_lock);
  if (!guard.owns_lock() || mark_.is_in_child()) {
    return;  // a thread waits for an answer still: the next that leaves removes the file
  }
  left_ = true;
  own_ = nullptr;
  table_ = nullptr;
  if (file_) {
    leave_shared_file(*file_);
    file_.reset();
  }
}

}  // namespace cubfc
