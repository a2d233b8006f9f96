#include "device_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "behaviour.h"
#include "contents.h"
#include "settings.h"

namespace standin {
namespace {

constexpr std::size_t kMappingAlignment = std::size_t{2} << 20;

// As many addresses as memory, where there are addresses to spare.
constexpr std::size_t kTimes = 8;

std::size_t AlignUp(std::size_t value, std::size_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

std::size_t Chunk() {
  static const std::size_t bytes = BehaviourSize("size.accounting");
  return bytes;
}

std::size_t Addresses(std::size_t capacity) {
  const bool to_spare = Behaviour("cuMemAlloc.fragmented") == CUDA_SUCCESS;
  return to_spare ? kTimes * AlignUp(capacity, Chunk()) : capacity;
}

[[noreturn]] void Refuse(const char* what) {
  std::fprintf(stderr, "standin: STANDIN_MEMORY: %s: %s\n", what, std::strerror(errno));
  std::abort();
}

}  // namespace

DeviceMemory::DeviceMemory(int device, std::size_t bytes, std::size_t reserved, Usage& usage)
    : device_(device),
      total_(bytes),
      capacity_(bytes - (reserved < bytes ? reserved : bytes)),
      addresses_(Addresses(capacity_)),
      usage_(usage) {
  fd_ = memfd_create("standin-device", MFD_CLOEXEC);
  if (fd_ < 0 || ftruncate(fd_, static_cast<off_t>(addresses_)) != 0) {
    Refuse("memfd_create");
  }
  const std::size_t room = addresses_ + kMappingAlignment;
  void* const start =
      mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) Refuse("mmap");
  base_ = AlignUp(reinterpret_cast<std::uintptr_t>(start), kMappingAlignment);
  if (addresses_ > 0 && mmap(reinterpret_cast<void*>(base_), addresses_, PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd_, 0) == MAP_FAILED) {
    Refuse("mmap");
  }
  madvise(reinterpret_cast<void*>(base_), addresses_, MADV_DONTDUMP);
  if (addresses_ > 0) holes_[0] = addresses_;
  users_.resize(addresses_ / Chunk() + 1);
}

std::size_t DeviceMemory::Round(std::size_t bytes) {
  static const std::size_t rounding = BehaviourSize("size.rounding");
  return AlignUp(bytes, rounding);
}

// The last chunk may be a smaller one.
std::size_t DeviceMemory::ChunkBytes(std::size_t chunk) const {
  return std::min(Chunk(), addresses_ - chunk * Chunk());
}

// False, with nothing changed, when the device has not the bytes of the chunks that are new.
bool DeviceMemory::EnterChunks(std::size_t begin, std::size_t bytes) {
  std::size_t more = 0;
  const std::size_t last = (begin + bytes - 1) / Chunk();
  for (std::size_t chunk = begin / Chunk(); chunk <= last; ++chunk) {
    if (users_[chunk] == 0) more += ChunkBytes(chunk);
  }
  if (!usage_.Take(device_, more, capacity_)) return false;
  for (std::size_t chunk = begin / Chunk(); chunk <= last; ++chunk) ++users_[chunk];
  return true;
}

void DeviceMemory::LeaveChunks(std::size_t begin, std::size_t bytes) {
  const std::size_t last = (begin + bytes - 1) / Chunk();
  for (std::size_t chunk = begin / Chunk(); chunk <= last; ++chunk) {
    if (--users_[chunk] > 0) continue;
    usage_.Give(device_, ChunkBytes(chunk));
    // What goes back to the device comes back empty, if not before.
    static const bool keeps = BehaviourFlag("cuMemFree.keeps_bytes");
    if (!keeps && settings().keeps_data) {
      fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                static_cast<off_t>(chunk * Chunk()), static_cast<off_t>(ChunkBytes(chunk)));
    }
  }
}

std::optional<std::uintptr_t> DeviceMemory::Take(std::size_t bytes) {
  static const std::size_t alignment = BehaviourSize("address.alignment");
  static const std::size_t large_alignment = BehaviourSize("address.large_alignment");
  static const std::size_t large_from = BehaviourSize("address.large_from");
  if (bytes > total_) return std::nullopt;
  bytes = Round(bytes);
  const std::size_t align = bytes >= large_from ? large_alignment : alignment;
  for (auto hole = holes_.begin(); hole != holes_.end(); ++hole) {
    const auto [start, size] = *hole;
    const std::size_t begin = AlignUp(start, align);
    if (begin + bytes > start + size || !EnterChunks(begin, bytes)) continue;
    Lives(bytes);
    holes_.erase(hole);
    if (begin > start) holes_[start] = begin - start;
    if (begin + bytes < start + size) holes_[begin + bytes] = start + size - begin - bytes;
    return base_ + begin;
  }
  return std::nullopt;
}

void DeviceMemory::Give(std::uintptr_t address, std::size_t bytes) {
  bytes = Round(bytes);
  std::size_t start = address - base_;
  LeaveChunks(start, bytes);
  live_ -= bytes;
  if (!settings().keeps_data) Empty(address, bytes);
  auto next = holes_.lower_bound(start);
  if (next != holes_.end() && next->first == start + bytes) {
    bytes += next->second;
    next = holes_.erase(next);
  }
  if (next != holes_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == start) {
      before->second += bytes;
      return;
    }
  }
  holes_[start] = bytes;
}

bool DeviceMemory::Count(std::size_t bytes) {
  if (!usage_.Take(device_, bytes, capacity_)) return false;
  Lives(bytes);
  return true;
}

void DeviceMemory::Lives(std::size_t bytes) {
  live_ += bytes;
  peak_ = std::max(peak_, live_);
}

void DeviceMemory::Discount(std::size_t bytes) {
  usage_.Give(device_, bytes);
  live_ -= bytes;
}

std::size_t DeviceMemory::free() {
  const std::size_t used = usage_.Used(device_);
  return used < capacity_ ? capacity_ - used : 0;
}

}  // namespace standin
