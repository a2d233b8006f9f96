// What people would use instead, where it is at hand: OffsetAllocator, the virtual blocks of the
// Vulkan Memory Allocator, and RMM's list of free blocks. None is thread-safe, none finds a block
// by its address: they stand beside the engine by handle. CMakeLists.txt looks for their headers.
#pragma once

#include <cstdint>
#include <iterator>
#include <stdexcept>
#include <utility>
#include <vector>

#include "arena/units.h"
#include "arena_contenders.h"

#ifdef CUBFC_BENCH_OFFSET_ALLOCATOR
#include <offsetAllocator.hpp>
#endif
#ifdef CUBFC_BENCH_VMA
#include "vma.h"
#endif
#ifdef CUBFC_BENCH_RMM
#include <rmm/mr/detail/coalescing_free_list.hpp>
#endif

namespace cubfc::bench {

#ifdef CUBFC_BENCH_OFFSET_ALLOCATOR
// Counts in 32 bits: in our granules here.
class OffsetAllocatorBlocks {
 public:
  using Handle = OffsetAllocator::Allocation;

  explicit OffsetAllocatorBlocks(std::uint64_t capacity)
      : blocks_(static_cast<std::uint32_t>(capacity / arena::kGranuleBytes), 2'500'000) {}

  Handle allocate(std::uint64_t bytes) { return blocks_.allocate(arena::granules_for(bytes)); }
  void free(Handle handle) { blocks_.free(handle); }
  static bool failed(Handle handle) { return handle.offset == Handle::NO_SPACE; }
  static std::uint64_t address(Handle handle) {
    return kFirstBase + handle.offset * arena::kGranuleBytes;
  }

 private:
  OffsetAllocator::Allocator blocks_;
};
#endif

#ifdef CUBFC_BENCH_VMA
class VmaBlocks {
 public:
  struct Handle {
    VmaVirtualAllocation allocation;
    VkDeviceSize offset;
  };

  explicit VmaBlocks(std::uint64_t capacity) {
    VmaVirtualBlockCreateInfo info{};
    info.size = capacity;
    if (vmaCreateVirtualBlock(&info, &block_) != VK_SUCCESS) {
      throw std::runtime_error("vmaCreateVirtualBlock has failed");
    }
  }
  ~VmaBlocks() {
    vmaClearVirtualBlock(block_);
    vmaDestroyVirtualBlock(block_);
  }
  VmaBlocks(const VmaBlocks&) = delete;
  VmaBlocks& operator=(const VmaBlocks&) = delete;

  Handle allocate(std::uint64_t bytes) {
    const std::uint64_t rounded = arena::block_bytes_for(bytes);
    VmaVirtualAllocationCreateInfo info{};
    info.size = rounded;
    info.alignment = arena::alignment_for(rounded);
    Handle handle{};
    if (vmaVirtualAllocate(block_, &info, &handle.allocation, &handle.offset) != VK_SUCCESS) {
      handle.allocation = nullptr;
    }
    return handle;
  }
  void free(const Handle& handle) { vmaVirtualFree(block_, handle.allocation); }
  static bool failed(const Handle& handle) { return handle.allocation == nullptr; }
  static std::uint64_t address(const Handle& handle) { return kFirstBase + handle.offset; }

 private:
  VmaVirtualBlock block_ = nullptr;
};
#endif

#ifdef CUBFC_BENCH_RMM
// As its pool uses it: the best fit is taken out of the list, and what is left goes back.
class RmmBlocks {
 public:
  using Block = rmm::mr::detail::block;
  using Handle = Block;

  explicit RmmBlocks(std::uint64_t capacity) {
    free_.insert(Block(pointer(kFirstBase), capacity, true));
  }

  Handle allocate(std::uint64_t bytes) {
    const std::uint64_t rounded = arena::round_up(bytes, kAlignment);
    const Block found = free_.get_block(rounded);
    if (found.pointer() == nullptr || found.size() == rounded) {
      return found;
    }
    free_.insert(Block(found.pointer() + rounded, found.size() - rounded, false));
    return {found.pointer(), rounded, found.is_head()};
  }
  void free(const Handle& handle) { free_.insert(handle); }
  static bool failed(const Handle& handle) { return handle.pointer() == nullptr; }
  static std::uint64_t address(const Handle& handle) {
    return reinterpret_cast<std::uint64_t>(handle.pointer());
  }

 private:
  static constexpr std::uint64_t kAlignment = 256;
  static char* pointer(std::uint64_t address) { return reinterpret_cast<char*>(address); }

  rmm::mr::detail::coalescing_free_list free_;
};
#endif

}  // namespace cubfc::bench
