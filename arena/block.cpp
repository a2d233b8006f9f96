#include "arena/block.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace cubfc::arena {
namespace {

constexpr std::size_t kFirstRecords = 2048;  // 64 KiB

}  // namespace

BlockSlab::~BlockSlab() {
  if (records_ != nullptr) {
    munmap(records_, capacity_ * sizeof(Block));
  }
}

// The kernel moves the pages, not their bytes: growing costs no copy however many records there
// are.
void BlockSlab::grow(std::uint32_t count) {
  const std::size_t wanted = std::max({kFirstRecords, capacity_ * 2, std::size_t{size_} + count});
  const std::size_t bytes = wanted * sizeof(Block);
  void* const memory =
      records_ == nullptr
          ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
          : mremap(records_, capacity_ * sizeof(Block), bytes, MREMAP_MAYMOVE);
  if (memory == MAP_FAILED) {
    throw std::bad_alloc();
  }
  records_ = static_cast<Block*>(memory);
  capacity_ = wanted;
}

}  // namespace cubfc::arena
