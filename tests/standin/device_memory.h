// One device's memory: a range of addresses with real bytes behind it, handed out first fit, and
// the count of what is in use. It is taken from the device in large chunks ("size.accounting" of
// the behaviour data), which allocations share. Where "cuMemAlloc.fragmented" succeeds there are
// several times as many addresses as memory, as with page tables: holes between allocations make
// none fail then. Knows nothing of contexts or of CUDA's rules. Not thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "usage.h"

namespace standin {

class DeviceMemory {
 public:
  DeviceMemory(int device, std::size_t bytes, std::size_t reserved, Usage& usage);

  // The address of `bytes` bytes, or nothing when the device is full (or in pieces, where there are
  // no addresses to spare).
  std::optional<std::uintptr_t> Take(std::size_t bytes);
  void Give(std::uintptr_t address, std::size_t bytes);

  // Bytes that count but lie elsewhere (physical memory of the virtual memory functions).
  bool Count(std::size_t bytes);
  void Discount(std::size_t bytes);

  std::size_t total() const { return total_; }
  std::size_t free();
  // Whether `bytes` that could not be taken are free, in pieces.
  bool InPieces(std::size_t bytes) { return addresses_ == capacity_ && bytes <= free(); }
  std::size_t live() const { return live_; }  // of this process, without what is free in chunks
  std::size_t peak() const { return peak_; }
  bool Contains(std::uintptr_t address) const { return address - base_ < addresses_; }

  // The bytes are those of this file, so that another process can map them.
  int fd() const { return fd_; }
  std::size_t OffsetOf(std::uintptr_t address) const { return address - base_; }

 private:
  static std::size_t Round(std::size_t bytes);
  bool EnterChunks(std::size_t begin, std::size_t bytes);
  void LeaveChunks(std::size_t begin, std::size_t bytes);
  std::size_t ChunkBytes(std::size_t chunk) const;
  void Lives(std::size_t bytes);

  const int device_;
  const std::size_t total_;
  const std::size_t capacity_;   // total without what others hold
  const std::size_t addresses_;  // so many bytes of them, from base_ on
  Usage& usage_;
  int fd_ = -1;
  std::uintptr_t base_ = 0;
  std::map<std::size_t, std::size_t> holes_;  // offset to size
  std::vector<unsigned> users_;               // allocations by the chunks that they lie in
  std::size_t live_ = 0;
  std::size_t peak_ = 0;
};

}  // namespace standin
