#include "shim/meet/rendezvous.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include "shim/meet/locked_mapping.h"

namespace cubfc {

using meeting::kSlots;
using meeting::wait_while;
using meeting::wake_all;

std::optional<SharedFile> Rendezvous::join_with_slot() {
  return join_shared_file(name_, sizeof(Table), IfMissing::kMake, [&](int file, void* data) {
    return take_slot(file, *static_cast<Table*>(data));
  });
}

// Begins to use an entry for a device. Its counts go on from their last values, because somebody
// may have rung for the process that had the slot before.
void Rendezvous::begin(Entry& entry, const DeviceId& device, std::uint64_t group) noexcept {
  entry.device = device;
  entry.group = group;
  entry.wanted = 0;
  entry.left = 0;
  entry.is_taking = false;
  entry.answered_ns = 0;
  entry.lasts_while = entry.changes - 1;
  entry.good_while = entry.resizes - 1;
  entry.answers = entry.rings.load();
}

// Joins the file as a process that gives, with a slot. If this process has asked before, without a
// slot, it leaves the file and joins again.
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
  forget_others();
  file_ = joined;
  return true;
}

// Takes the first slot that no living process has. False: errno says why.
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
    table.header.taken[i].store(Taken::kNot, std::memory_order_relaxed);  // of a dead process
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

// Joins the file as a process that asks. Nothing if there is no file, or if no other process gives
// or closes.
std::optional<Asking> Rendezvous::join_as_asker() {
  if (left_ || mark_.is_in_child()) {
    return std::nullopt;
  }
  const Slot* const own = own_;
  if (own != nullptr && taken_by_others(*table_, own, Taken::kByGiver).empty() &&
      taken_by_others(*table_, own, Taken::kByOneThatCloses).empty()) {
    return std::nullopt;
  }
  Descriptor probe = file_ ? open_again(*file_) : Descriptor();
  if (!probe && own == nullptr) {
    if (file_) {  // somebody has removed it
      leave_shared_file(*file_);
      file_.reset();
      forget_others();
    }
    file_ = join_shared_file(name_, sizeof(Table), IfMissing::kNothing);
    if (file_) {
      table_ = static_cast<Table*>(file_->data);
      probe = open_again(*file_);
    }
  }
  if (!probe) {
    return std::nullopt;
  }
  return std::optional<Asking>(std::in_place, *table_, own, std::move(probe), unanswered_, now_);
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
  const std::size_t number = slot.num_devices();
  if (number == meeting::kDevices) {
    errno = ENOSPC;
    return std::nullopt;
  }
  begin(slot.entries[number], device, group);
  slot.devices.store(static_cast<std::uint32_t>(number + 1), std::memory_order_release);
  return number;
} catch (const std::bad_alloc&) {
  errno = ENOMEM;
  return std::nullopt;
}

Rendezvous::Woken Rendezvous::wait_for_ring(std::chrono::nanoseconds most) noexcept {
  Slot& slot = *own_;
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + most;
  for (;;) {
    const std::uint32_t before = slot.bell.load(std::memory_order_acquire);
    if (interrupted_.load(std::memory_order_acquire)) {
      return Woken::kByInterrupt;
    }
    for (std::size_t i = 0; i < slot.num_devices(); ++i) {
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

void Rendezvous::answer(const std::function<std::uint64_t(std::size_t, std::uint64_t)>& give,
                        const std::function<Left(std::size_t)>& left) noexcept {
  Slot& slot = *own_;
  for (std::size_t number = 0; number < slot.num_devices(); ++number) {
    Entry& entry = slot.entries[number];
    const std::uint32_t rings = entry.rings.load(std::memory_order_acquire);
    if (rings == entry.answers.load(std::memory_order_relaxed)) {
      continue;
    }
    std::uint64_t wanted = entry.wanted.exchange(0, std::memory_order_acquire);
    while (wanted > 0) {
      const std::uint64_t given = give(number, wanted);
      entry.given.fetch_add(given, std::memory_order_relaxed);
      if (given == 0) {
        break;
      }
      resized(number);
      note_change();
      wanted -= std::min(wanted, given);
    }
    const Before before{rings, entry.changes.load(std::memory_order_acquire),
                        entry.resizes.load(std::memory_order_acquire)};
    put(entry, before, left(number));
  }
}

// Stores an answer. The order matters: a process first reads when the answer was given and how long
// it lasts (Asking::is_good()). The bytes that the process reads then are of that answer or of a
// newer one.
void Rendezvous::put(Entry& entry, const Before& before, Left left) const noexcept {
  entry.left.store(left.bytes, std::memory_order_relaxed);
  entry.is_taking.store(left.is_taking, std::memory_order_relaxed);
  entry.good_while.store(before.resizes, std::memory_order_release);
  entry.lasts_while.store(left.is_lasting ? before.changes : before.changes - 1,
                          std::memory_order_release);
  entry.answered_ns.store(Asking::ns_of(now_()), std::memory_order_release);
  entry.answers.store(before.rings, std::memory_order_release);
  wake_all(entry.answers);
}

void Rendezvous::changed(std::size_t number) noexcept {
  Slot* const slot = own_.load(std::memory_order_acquire);
  if (slot != nullptr && !mark_.is_in_child()) {
    slot->entries[number].changes.fetch_add(1, std::memory_order_release);
  }
}

void Rendezvous::resized(std::size_t number) noexcept {
  Slot* const slot = own_.load(std::memory_order_acquire);
  if (slot != nullptr && !mark_.is_in_child()) {
    slot->entries[number].resizes.fetch_add(1, std::memory_order_release);
  }
}

// The removed file stays mapped: interrupt() may be using it.
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
  const std::size_t devices = before.num_devices();
  for (std::size_t i = 0; i < devices; ++i) {
    begin(now.entries[i], before.entries[i].device, before.entries[i].group);
  }
  now.devices.store(static_cast<std::uint32_t>(devices), std::memory_order_release);
  forget_others();
  file_ = joined;
} catch (const std::bad_alloc&) {  // the next call tries again
}

void Rendezvous::interrupt() noexcept {
  interrupted_.store(true, std::memory_order_release);
  Slot* const slot = own_.load(std::memory_order_acquire);
  if (slot != nullptr && !mark_.is_in_child()) {
    slot->bell.fetch_add(1, std::memory_order_release);
    wake_all(slot->bell);
  }
}

// Processes that wait for an answer look every now and then (Asking::is_there()), and see that this
// process has gone.
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

Rendezvous::Left Rendezvous::look(const DeviceId& device, std::uint64_t group) noexcept try {
  const std::lock_guard guard(mutex_);
  auto asking = device == DeviceId{} ? std::nullopt : join_as_asker();
  if (!asking) {
    return 0;
  }
  Left all = 0;
  Asking::Others others = asking->at(device, group);
  asking->ask_what_is_left(others, Waiting());
  for (const Asking::Other& other : others) {
    all.bytes += other.bytes;
    all.is_taking = all.is_taking || other.entry->is_taking.load(std::memory_order_relaxed);
  }
  return all;
} catch (const std::bad_alloc&) {
  return 0;
}

Rendezvous::Lately Rendezvous::offered_lately(const DeviceId& device, std::uint64_t group) noexcept
    try {
  const std::lock_guard guard(mutex_);
  auto asking = device == DeviceId{} ? std::nullopt : join_as_asker();
  return asking ? asking->lately_left(asking->at(device, 0), group) : Lately();
} catch (const std::bad_alloc&) {
  return {};
}

std::uint64_t Rendezvous::ask(const DeviceId& device, std::uint64_t bytes,
                              std::uint64_t group) noexcept try {
  const std::lock_guard guard(mutex_);
  auto asking = device == DeviceId{} ? std::nullopt : join_as_asker();
  if (!asking) {
    return 0;
  }
  Asking::Others others = asking->at(device, group);
  asking->ask_what_is_left(others, Waiting());
  std::sort(others.begin(), others.end(),
            [](const Asking::Other& a, const Asking::Other& b) { return a.bytes > b.bytes; });
  Asking::Others asked;
  for (Asking::Other& other : others) {
    other.bytes = std::min(bytes, other.bytes);
    if (other.bytes > 0) {
      bytes -= other.bytes;
      asked.push_back(other);
    }
  }
  return asking->ask_for_bytes(asked, Waiting());
} catch (const std::bad_alloc&) {
  return 0;
}

std::size_t Rendezvous::givers(const DeviceId& device) noexcept try {
  const std::lock_guard guard(mutex_);
  auto asking = join_as_asker();
  return asking ? asking->at(device, 0).size() : 0;
} catch (const std::bad_alloc&) {
  return 0;
}

bool Rendezvous::is_any_closing(const DeviceId& device) noexcept try {
  const std::lock_guard guard(mutex_);
  auto asking = join_as_asker();
  const Asking::Processes closing =
      asking ? asking->processes(device, Taken::kByOneThatCloses) : Asking::Processes();
  return !std::includes(closing_in_vain_.begin(), closing_in_vain_.end(), closing.begin(),
                        closing.end());
} catch (const std::bad_alloc&) {
  return false;
}

void Rendezvous::give_up_on_closing(const DeviceId& device) noexcept try {
  const std::lock_guard guard(mutex_);
  if (auto asking = join_as_asker()) {
    closing_in_vain_.merge(asking->processes(device, Taken::kByOneThatCloses));
  }
} catch (const std::bad_alloc&) {  // they are waited for once more
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
  auto asking = join_as_asker();
  if (!asking) {
    return answers;
  }
  Asking::Others others = asking->of_process(pid);
  const Asking::Others all = others;
  std::vector<std::uint64_t> given_before;
  for (const Asking::Other& other : all) {
    given_before.push_back(other.entry->given.load(std::memory_order_relaxed));
  }
  // After a round has given memory back, a process may be able to give more back than before.
  constexpr int kMostRounds = 8;
  for (int round = 0; round < kMostRounds; ++round) {
    asking->ask_what_is_left(others, waiting);
    if (asking->ask_for_bytes(others, waiting) == 0) {
      break;
    }
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Entry& entry = *all[i].entry;
    const bool is_answered =
        std::any_of(others.begin(), others.end(),
                    [&](const Asking::Other& other) { return other.entry == &entry; });
    answers.push_back({asking->pid_of(all[i]), entry.device,
                       entry.given.load(std::memory_order_relaxed) - given_before[i], is_answered});
  }
  return answers;
}

void Rendezvous::leave() noexcept {
  const std::unique_lock guard(mutex_, std::try_to_lock);
  if (!guard.owns_lock() || mark_.is_in_child()) {
    return;  // a thread still waits for an answer: the next process that leaves removes the file
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
