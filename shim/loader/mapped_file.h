// Which file is mapped at an address. By /proc/self/maps, which takes no lock of the dynamic
// linker's, and knows code that was loaded in whatever way.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace cubfc {

struct MappedFile {
  std::uintptr_t start;  // of the mapping that contains the address
  std::uintptr_t end;
  std::string path;  // empty: memory that is no file's
};

// Nothing where nothing is mapped, or Linux does not tell. Thread-safe; tens of microseconds to a
// few milliseconds. Throws std::bad_alloc.
std::optional<MappedFile> mapped_file_at(std::uintptr_t address);

}  // namespace cubfc
