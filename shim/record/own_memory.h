// Reads this process's own memory at addresses that may be no memory at all: by a system call,
// which answers where a load would end the process. Knows nothing of what is read.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

namespace cubfc {

struct MemoryPiece {
  std::uintptr_t from = 0;
  void* to = nullptr;
  std::size_t bytes = 0;
  bool is_read = false;  // all of it
};

// For one look at what does not change meanwhile: pages are read whole, each once, because that
// call costs much, and more bytes cost little. Of one thread. Throws std::bad_alloc.
class OwnMemory {
 public:
  // Reads as many of the pieces as are there, with one call for many pages.
  void read(std::span<MemoryPiece> pieces);
  // One value of plain data; false where it is not there.
  template <typename T>
  bool read(std::uintptr_t from, T& to) {
    MemoryPiece piece{from, &to, sizeof(to)};
    read(std::span(&piece, 1));
    return piece.is_read;
  }
  // The system does not let this process read so (process_vm_readv, which a sandbox may forbid).
  bool is_forbidden() const { return is_forbidden_; }

 private:
  static constexpr std::size_t kPageBytes =
      4096;  // of what is read; a page of the system's or more
  using Page = std::array<char, kPageBytes>;
  void fetch(std::vector<std::uintptr_t> numbers);
  bool copy(const MemoryPiece& piece) const;

  // By address / kPageBytes; nullptr: it is not there.
  std::unordered_map<std::uintptr_t, std::unique_ptr<Page>> pages_;
  bool is_forbidden_ = false;
};

}  // namespace cubfc
