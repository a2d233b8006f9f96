// Finds the file that is mapped at an address, in /proc/self/maps. Takes no lock of the dynamic
// linker's, and also finds code that the linker has not loaded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace cubfc {

struct MappedFile {
  std::uintptr_t start;  // of the mapping that contains the address
  std::uintptr_t end;
  std::string path;  // empty: no file is mapped there
};

// Nothing if there is no mapping at the address, or the kernel does not tell. Thread-safe; takes
// tens of microseconds to a few milliseconds. Throws std::bad_alloc.
std::optional<MappedFile> mapped_file_at(std::uintptr_t address);

}  // namespace cubfc
