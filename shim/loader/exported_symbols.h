// Finds what a loaded object exports in the object's own tables. dlsym would wait for the dynamic
// linker's lock. A thread that runs a library's constructor holds that lock, and may be waiting for
// the thread that calls here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace cubfc {

// The addresses at which an object is loaded.
struct ObjectRange {
  std::uintptr_t start = 0;
  std::uintptr_t end = 0;  // one past the last; both 0: there is no object
  bool contains(std::uintptr_t address) const noexcept { return address >= start && address < end; }
};

// Looks for the first loaded object, in load order, that exports all of these names. Stores the
// address of each and returns the range of the object; an empty range if there is none. The object
// may not be fully loaded yet. So the caller may call the object's functions only if it knows
// otherwise that the object is loaded: because the thread is in a call that a function of the
// object has made (record/python_frames.h), or that an object linked with it has made
// (hook/pytorch.cpp). Objects without a GNU hash table are passed over. Allocates nothing.
ObjectRange find_exported_together(std::span<const char* const> names,
                                   std::span<void*> addresses) noexcept;

template <std::size_t kNames>
ObjectRange find_exported_together(const std::array<const char*, kNames>& names,
                                   std::array<void*, kNames>& addresses) noexcept {
  return find_exported_together(std::span<const char* const>(names), std::span<void*>(addresses));
}

}  // namespace cubfc
