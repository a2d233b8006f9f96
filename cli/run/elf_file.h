// What the head of an ELF file says of how it is started. Reads the file only; it may be anything.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cubfc::cli {

struct ElfFile {
  bool is_64_bit = false;
  std::uint16_t machine = 0;        // EM_X86_64, ...
  std::string interpreter;          // the dynamic linker; empty: nothing is linked when it starts
  std::vector<std::string> needed;  // libraries that it names; of 64-bit files
};

// Nothing when it cannot be read, or is no ELF file.
std::optional<ElfFile> read_elf_file(const std::string& path);

}  // namespace cubfc::cli
