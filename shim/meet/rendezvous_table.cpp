#include "shim/meet/rendezvous_table.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>

namespace cubfc::meeting {
namespace {

int* futex_word(std::atomic<std::uint32_t>& word) {
  return reinterpret_cast<int*>(&word);
}

}  // namespace

void wait_while(std::atomic<std::uint32_t>& word, std::uint32_t value,
                std::chrono::nanoseconds most) noexcept {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(most);
  const timespec time{seconds.count(), (most - seconds).count()};
  syscall(SYS_futex, futex_word(word), FUTEX_WAIT, value, &time, nullptr, 0);
}

void wake_all(std::atomic<std::uint32_t>& word) noexcept {
  syscall(SYS_futex, futex_word(word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

std::vector<std::size_t> taken_by_others(const Table& table, const Slot* own, Taken how) {
  const std::size_t slots = std::min<std::size_t>(table.header.slots, kSlots);
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < slots; ++i) {
    if (table.header.taken[i].load(std::memory_order_acquire) == how && &table.slots[i] != own) {
      found.push_back(i);
    }
  }
  return found;
}

}  // namespace cubfc::meeting
