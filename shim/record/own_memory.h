// Reads this process's own memory at addresses where there may be none: by a system call, which
// answers with an error where a load would end the process. Knows nothing of what is read.
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
  bool is_read = false;  // whether all of it was read
};

// For reading memory that does not change while this object lives. Pages are read whole, and each
// once: a call costs much, and more bytes in it cost little. For one thread. Throws std::bad_alloc.
class OwnMemory {
 public:
  // Reads those of the pieces that are there, many pages with one call.
  void read(std::span<MemoryPiece> pieces);
  // One value of plain data; false where it is not there.
  template <typename T>
  bool read(std::uintptr_t from, T& to) {
    MemoryPiece piece{from, &to, sizeof(to)};
    read(std::span(&piece, 1));
    return piece.is_read;
  }
  // Whether the system refuses the call (process_vm_readv), as a sandbox may.
  bool is_forbidden() const { return is_forbidden_; }

 private:
  static constexpr std::size_t kPageBytes = 4096;  // pages as read here; the system's may be larger
  using Page = std::array<char, kPageBytes>;
  void fetch(std::vector<std::uintptr_t> numbers);
  bool copy(const MemoryPiece& piece) const;

  // By address / kPageBytes; nullptr: there is no memory.
  std::unordered_map<std::uintptr_t, std::unique_ptr<Page>> pages_;
  bool is_forbidden_ = false;
};

}  // namespace cubfc
