#include "contents.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "settings.h"
#include "state.h"
#include "vmm.h"

namespace standin {
namespace {

constexpr std::size_t kLeft = std::size_t{64} << 10;

std::size_t PageSize() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

// Of the device alone: what the host reads by itself, and what another process shares, stay as
// written. Wants state().mutex held.
bool IsWithoutData(CUdeviceptr address) {
  if (settings().keeps_data) return false;
  const Allocation* const found = FindAllocation(address);
  return found && (found->kind == Kind::kDevice || found->kind == Kind::kPool ||
                   found->kind == Kind::kGraph || found->kind == Kind::kReserved);
}

bool IsWithoutDataNow(CUdeviceptr address) {
  if (settings().keeps_data) return false;
  const Lock lock(state().mutex);
  return IsWithoutData(address);
}

// Calls each(start, bytes, has_page) for the parts of the range that lie in one page each.
template <typename Each>
void ForEachPage(CUdeviceptr start, std::size_t bytes, Each each) {
  const std::size_t page = PageSize();
  const CUdeviceptr end = start + bytes;
  std::array<unsigned char, 256> there{};
  for (CUdeviceptr at = start; at < end;) {
    const CUdeviceptr first = at / page * page;
    const std::size_t pages = std::min<std::size_t>((end - first + page - 1) / page, there.size());
    // What is mapped no more has no pages.
    if (mincore(reinterpret_cast<void*>(first), pages * page, there.data()) != 0) there.fill(0);
    for (std::size_t i = 0; i < pages; ++i) {
      const std::size_t part = std::min<CUdeviceptr>(end, first + (i + 1) * page) - at;
      each(at, part, (there[i] & 1U) != 0);
      at += part;
    }
  }
}

// A page that is not there reads as zeros; to read it from the memory itself would make it.
void Read(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  ForEachPage(from, bytes, [&](CUdeviceptr at, std::size_t part, bool has_page) {
    auto* const target = reinterpret_cast<void*>(to + (at - from));
    if (has_page) {
      std::memmove(target, reinterpret_cast<const void*>(at), part);
    } else {
      std::memset(target, 0, part);
    }
  });
}

}  // namespace

bool LeavesItsBytes(CUdeviceptr to, std::size_t bytes) {
  return bytes <= kLeft || !IsWithoutData(to);
}

void MoveBytes(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, std::size_t of) {
  if (of > kLeft && IsWithoutDataNow(to)) {
    Empty(to, bytes);
  } else if (IsWithoutDataNow(from)) {
    Read(to, from, bytes);
  } else {
    std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  }
}

void Empty(CUdeviceptr start, std::size_t bytes) {
  const std::size_t page = PageSize();
  const CUdeviceptr end = start + bytes;
  const CUdeviceptr first = std::min<CUdeviceptr>((start + page - 1) / page * page, end);
  const CUdeviceptr last = std::max<CUdeviceptr>(end / page * page, first);
  const auto clear = [](CUdeviceptr at, std::size_t part, bool has_page) {
    if (has_page) std::memset(reinterpret_cast<void*>(at), 0, part);
  };
  ForEachPage(start, first - start, clear);
  if (last > first) madvise(reinterpret_cast<void*>(first), last - first, MADV_REMOVE);
  ForEachPage(last, end - last, clear);
}

bool EmptyInsteadOfSet(CUdeviceptr to, std::size_t pitch, std::size_t row, std::size_t height) {
  if (row * height <= kLeft || !IsWithoutDataNow(to)) return false;
  for (std::size_t i = 0; i < height; ++i) Empty(to + i * pitch, row);
  return true;
}

void EmptyBlocksOf(const std::vector<CUdeviceptr>& addresses) {
  for (const CUdeviceptr address : addresses) {
    CUdeviceptr base = 0;
    std::size_t bytes = 0;
    {
      const Lock lock(state().mutex);
      const Allocation* const found = FindAllocation(address);
      if (!found || !IsWithoutData(address)) continue;
      base = found->base;
      bytes = found->bytes;
      if (found->kind == Kind::kReserved && !FindMapping(address, &base, &bytes)) continue;
    }
    Empty(base, bytes);
  }
}

}  // namespace standin
