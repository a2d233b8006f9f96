// What a loaded object exports, read from its own tables: dlsym waits for the dynamic linker's
// lock, which a thread may hold that runs a library's constructor, and that waits for the thread
// that asks here.
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace cubfc {

// The addresses of these names in the first loaded object, in load order, that exports all of them;
// false if none does. Objects without a GNU hash table are passed over. Allocates nothing.
bool find_exported_together(std::span<const char* const> names,
                            std::span<void*> addresses) noexcept;

template <std::size_t kNames>
bool find_exported_together(const std::array<const char*, kNames>& names,
                            std::array<void*, kNames>& addresses) noexcept {
  return find_exported_together(std::span<const char* const>(names), std::span<void*>(addresses));
}

}  // namespace cubfc
