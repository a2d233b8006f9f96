#include "shim/record/own_memory.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace cubfc {
namespace {

// A piece that is longer, or that ends beyond the last address, is not read: its address or its
// length is wrong.
constexpr std::size_t kMostBytes = std::size_t{1} << 20U;

bool is_possible(const MemoryPiece& piece) noexcept {
  return piece.bytes <= kMostBytes && piece.from <= UINTPTR_MAX - piece.bytes;
}

}  // namespace

void OwnMemory::read(std::span<MemoryPiece> pieces) {
  std::vector<std::uintptr_t> wanted;
  for (const MemoryPiece& piece : pieces) {
    if (piece.bytes > 0 && is_possible(piece)) {
      const std::uintptr_t last = (piece.from + piece.bytes - 1) / kPageBytes;
      for (std::uintptr_t number = piece.from / kPageBytes; number <= last; ++number) {
        if (pages_.try_emplace(number).second) {
          wanted.push_back(number);
        }
      }
    }
  }
  if (!wanted.empty()) {
    fetch(std::move(wanted));
  }
  for (MemoryPiece& piece : pieces) {
    piece.is_read = copy(piece);
  }
}

// Reads pages by number. Linux copies page by page, and stops at the first that is not there. That
// page is passed over, and the rest is asked for again.
void OwnMemory::fetch(std::vector<std::uintptr_t> numbers) {
  constexpr std::size_t kAtOnce = 64;
  for (std::size_t done = 0; done < numbers.size() && !is_forbidden_;) {
    std::array<iovec, kAtOnce> from{};
    std::array<iovec, kAtOnce> to{};
    std::array<std::unique_ptr<Page>, kAtOnce> made;
    const std::size_t count = std::min(numbers.size() - done, kAtOnce);
    for (std::size_t i = 0; i < count; ++i) {
      made[i] = std::make_unique_for_overwrite<Page>();
      from[i] = {reinterpret_cast<void*>(numbers[done + i] * kPageBytes), kPageBytes};
      to[i] = {made[i]->data(), kPageBytes};
    }
    const ssize_t copied = process_vm_readv(getpid(), to.data(), count, from.data(), count, 0);
    is_forbidden_ = copied < 0 && errno != EFAULT;
    const auto whole = static_cast<std::size_t>(std::max<ssize_t>(copied, 0)) / kPageBytes;
    for (std::size_t i = 0; i < whole; ++i) {
      pages_[numbers[done + i]] = std::move(made[i]);
    }
    done += whole + (whole < count ? 1 : 0);
  }
}

bool OwnMemory::copy(const MemoryPiece& piece) const {
  if (!is_possible(piece)) {
    return false;
  }
  for (std::size_t done = 0; done < piece.bytes;) {
    const std::uintptr_t at = piece.from + done;
    const auto page = pages_.find(at / kPageBytes);
    if (page == pages_.end() || page->second == nullptr) {
      return false;
    }
    const std::size_t bytes = std::min(piece.bytes - done, kPageBytes - at % kPageBytes);
    std::memcpy(static_cast<char*>(piece.to) + done, page->second->data() + at % kPageBytes, bytes);
    done += bytes;
  }
  return true;
}

}  // namespace cubfc
