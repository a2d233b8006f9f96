// What a loaded object exports, read from its own tables: dlsym waits for the dynamic linker's
// lock, which a thread may hold that runs a library's constructor, and that waits for the thread
// that asks here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace cubfc {

// Where an object lies.
struct ObjectRange {
  std::uintptr_t start = 0;
  std::uintptr_t end = 0;  // behind it; both 0: there is none
  bool contains(std::uintptr_t address) const noexcept { return address >= start && address < end; }
};

// The addresses of these names in the first loaded object, in load order, that exports all of them,
// and where it lies; nowhere if none does. It may be half loaded yet: nothing of it may be called
// by a thread that it has not called. Objects without a GNU hash table are passed over. Allocates
// nothing.
ObjectRange find_exported_together(std::span<const char* const> names,
                                   std::span<void*> addresses) noexcept;

template <std::size_t kNames>
ObjectRange find_exported_together(const std::array<const char*, kNames>& names,
                                   std::array<void*, kNames>& addresses) noexcept {
  return find_exported_together(std::span<const char* const>(names), std::span<void*>(addresses));
}

}  // namespace cubfc
