#include "shim/share/rendezvous.h"

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

namespace cubfc {
namespace {

using Clock = std::chrono::steady_clock;

// For answers. A process that is stopped gives none.
constexpr std::chrono::seconds kPatience{1};
// Between two looks whether those who are waited for are still there.
constexpr std::chrono::milliseconds kLook{20};
// An answer that is no older needs no ring: who asks all the time does not keep others from work.
constexpr std::chrono::milliseconds kFresh{1};

int* futex_word(std::atomic<std::uint32_t>& word) {
  return reinterpret_cast<int*>(&word);
}

// Sleeps while the word has this value, a while at most; not at all if it has another.
void wait_while(std::atomic<std::uint32_t>& word, std::uint32_t value,
                std::optional<std::chrono::nanoseconds> most = std::nullopt) {
  timespec time{};
  if (most) {
    const auto seconds = std::chrono::floor<std::chrono::seconds>(*most);
    time.tv_sec = seconds.count();
    time.tv_nsec = (*most - seconds).count();
  }
  syscall(SYS_futex, futex_word(word), FUTEX_WAIT, value, most ? &time : nullptr, nullptr, 0);
}

void wake_all(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, futex_word(word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// The lock of a slot's byte. False when another process has it.
bool lock(const Descriptor& file, std::size_t slot, short type) {
  struct flock range {};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = static_cast<off_t>(slot);
  range.l_len = 1;
  return fcntl(file.get(), F_OFD_SETLK, &range) == 0;
}

bool is_answered(std::uint32_t answers, std::uint32_t ring) {
  return static_cast<std::int32_t>(answers - ring) >= 0;  // they count round
}

}  // namespace

bool Rendezvous::join(IfMissing if_missing) {
  if (left_) {
    return false;
  }
  if (file_ && (own_ != nullptr || if_missing == IfMissing::kNothing)) {
    return true;
  }
  if (file_) {  // to take a slot, it must be opened again
    leave_shared_file(*file_);
    table_ = nullptr;
    file_.reset();
    unanswered_.clear();
  }
  auto joined = join_shared_file(name_, sizeof(Table), if_missing);
  if (!joined) {
    return false;
  }
  auto* const table = static_cast<Table*>(joined->shared.data);
  table_ = table;
  if (if_missing == IfMissing::kMake && !take_slot(joined->file)) {
    table_ = nullptr;
    leave_shared_file(joined->shared);
    return false;
  }
  file_ = joined->shared;
  return true;
}

// The first that nobody has.
bool Rendezvous::take_slot(const Descriptor& file) {
  Table& table = *table_;
  for (std::size_t i = 0; i < kSlots; ++i) {
    if (!lock(file, i, F_WRLCK)) {
      if (errno != EAGAIN && errno != EACCES) {
        return false;
      }
      continue;
    }
    Slot& slot = table.slots[i];
    if (!make_room_in(file.get(), offsetof(Table, slots) + i * sizeof(Slot), sizeof(Slot))) {
      return false;
    }
    table.header.taken[i].store(0, std::memory_order_relaxed);  // of one that is dead
    slot.devices.store(0, std::memory_order_relaxed);
    slot.pid.store(getpid(), std::memory_order_relaxed);
    own_.store(&slot, std::memory_order_release);
    auto& known = table.header.slots;
    for (std::uint32_t before = known;
         before <= i && !known.compare_exchange_weak(before, static_cast<std::uint32_t>(i + 1));) {
    }
    table.header.taken[i].store(1, std::memory_order_release);
    return true;
  }
  errno = EUSERS;
  return false;
}

std::optional<std::size_t> Rendezvous::offer(const DeviceId& device) noexcept try {
  const std::lock_guard guard(mutex_);
  if (device == DeviceId{} || closed_ || !join(IfMissing::kMake)) {
    return std::nullopt;
  }
  Slot& slot = *own_;
  const std::uint32_t number = slot.devices.load(std::memory_order_relaxed);
  if (number == kDevices) {
    return std::nullopt;
  }
  Entry& entry = slot.entries[number];
  entry.device = device;
  entry.wanted = entry.given = entry.left = 0;
  entry.when = 0;
  entry.rings = 0;
  entry.answers = 0;
  slot.devices.store(number + 1, std::memory_order_release);
  return number;
} catch (const std::bad_alloc&) {
  return std::nullopt;
}

bool Rendezvous::wait_for_ring() noexcept {
  Slot& slot = *own_;
  for (;;) {
    const std::uint32_t before = slot.bell.load(std::memory_order_acquire);
    if (closed_.load(std::memory_order_acquire)) {
      return false;
    }
    for (std::size_t i = 0; i < slot.devices.load(std::memory_order_acquire); ++i) {
      const Entry& entry = slot.entries[i];
      if (entry.rings.load(std::memory_order_acquire) !=
          entry.answers.load(std::memory_order_relaxed)) {
        return true;
      }
    }
    wait_while(slot.bell, before);
  }
}

void Rendezvous::put(Entry& entry, std::uint32_t rings, const Answer& answer) noexcept {
  entry.given.fetch_add(answer.given, std::memory_order_relaxed);
  entry.left.store(answer.left, std::memory_order_relaxed);
  entry.when.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
  entry.answers.store(rings, std::memory_order_release);
  wake_all(entry.answers);
}

// Those who have rung see within kLook that nobody is there.
void Rendezvous::close() noexcept {
  closed_.store(true, std::memory_order_release);
  if (Slot* const slot = own_.load(std::memory_order_acquire); slot != nullptr) {
    Table& table = *table_;
    table.header.taken[static_cast<std::size_t>(slot - table.slots.data())].store(
        0, std::memory_order_release);
    slot->bell.fetch_add(1, std::memory_order_release);
    wake_all(slot->bell);
  }
}

std::vector<std::size_t> Rendezvous::taken_by_others() const {
  const Table& table = *table_;
  const std::size_t slots = std::min<std::size_t>(table.header.slots, kSlots);
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < slots; ++i) {
    if (table.header.taken[i].load(std::memory_order_acquire) == 1 && &table.slots[i] != own_) {
      found.push_back(i);
    }
  }
  return found;
}

// Whether the slot's process lives and offers something. The slot of a dead one is cleared.
bool Rendezvous::is_there(std::size_t slot, const Descriptor& probe) const {
  std::atomic<std::uint32_t>& taken = table_.load()->header.taken[slot];
  if (taken.load(std::memory_order_acquire) != 1) {
    return false;
  }
  if (!lock(probe, slot, F_WRLCK)) {
    return errno == EAGAIN || errno == EACCES;
  }
  taken.store(0, std::memory_order_relaxed);
  lock(probe, slot, F_UNLCK);
  return false;
}

// Those that offer memory of this device, with answers that are fresh. `probe` becomes the file,
// where there are any.
std::vector<Rendezvous::Other> Rendezvous::others_with(const DeviceId& device, Descriptor& probe) {
  const std::vector<std::size_t> taken = taken_by_others();
  if (taken.empty() || !(probe = open_again(*file_))) {
    return {};
  }
  std::vector<Other> fresh;
  std::vector<Other> old;
  const auto now = Clock::now().time_since_epoch();
  for (const std::size_t i : taken) {
    Slot& slot = table_.load()->slots[i];
    const std::uint32_t devices = slot.devices.load(std::memory_order_acquire);
    for (std::size_t number = 0; number < devices && number < kDevices; ++number) {
      Entry& entry = slot.entries[number];
      if (entry.device == device && is_there(i, probe)) {
        const auto age = now - Clock::duration(entry.when.load(std::memory_order_relaxed));
        (std::chrono::abs(age) < kFresh ? fresh : old).push_back({i, &entry, 0});
      }
    }
  }
  ring(old, Wanted::kWord, probe);
  fresh.insert(fresh.end(), old.begin(), old.end());
  for (Other& other : fresh) {
    other.bytes = other.entry->left.load(std::memory_order_relaxed);
  }
  return fresh;
}

// Rings all of them, then waits. Who does not answer is taken out, and is not waited for again
// until it has answered. Returns what they have given up meanwhile.
std::uint64_t Rendezvous::ring(std::vector<Other>& others, Wanted wanted, const Descriptor& probe) {
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
  const auto until = Clock::now() + kPatience;
  for (std::size_t i = 0; i < others.size(); ++i) {
    Entry& entry = *others[i].entry;
    const auto silent = unanswered_.find(&entry);
    std::uint32_t last = entry.answers.load(std::memory_order_acquire);
    while (!is_answered(last, rings[i].number) && Clock::now() < until &&
           (silent == unanswered_.end() || silent->second != last) &&
           is_there(others[i].slot, probe)) {
      wait_while(entry.answers, last, kLook);
      last = entry.answers.load(std::memory_order_acquire);
    }
    if (is_answered(last, rings[i].number)) {
      unanswered_.erase(&entry);
      given += entry.given.load(std::memory_order_relaxed) - rings[i].given_before;
      answered.push_back(others[i]);
    } else {
      unanswered_[&entry] = last;
    }
  }
  others = std::move(answered);
  return given;
}

std::uint64_t Rendezvous::offered(const DeviceId& device) noexcept try {
  const std::lock_guard guard(mutex_);
  if (device == DeviceId{} || !join(IfMissing::kNothing)) {
    return 0;
  }
  Descriptor probe;
  std::uint64_t bytes = 0;
  for (const Other& other : others_with(device, probe)) {
    bytes += other.bytes;
  }
  return bytes;
} catch (const std::bad_alloc&) {
  return 0;
}

std::uint64_t Rendezvous::ask(const DeviceId& device, std::uint64_t bytes) noexcept try {
  const std::lock_guard guard(mutex_);
  if (device == DeviceId{} || !join(IfMissing::kNothing)) {
    return 0;
  }
  Descriptor probe;
  std::vector<Other> others = others_with(device, probe);
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
  return ring(asked, Wanted::kBytes, probe);
} catch (const std::bad_alloc&) {
  return 0;
}

void Rendezvous::leave() noexcept {
  const std::unique_lock guard(mutex_, std::try_to_lock);
  if (!guard.owns_lock()) {
    return;  // a thread waits for an answer still: the next that leaves removes the file
  }
  left_ = true;
  if (file_) {
    own_ = nullptr;
    table_ = nullptr;
    leave_shared_file(*file_);
    file_.reset();
  }
}

}  // namespace cubfc
