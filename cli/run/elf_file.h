// How an ELF file is started, by its headers. The file may hold anything.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cubfc::cli {

struct ElfFile {
  bool is_64_bit = false;
  std::uint16_t machine = 0;        // EM_X86_64, ...
  std::string interpreter;          // the dynamic linker; empty: linked statically
  std::vector<std::string> needed;  // the libraries that it names; of 64-bit files
};

// Nothing when the file cannot be read, or is no ELF file.
std::optional<ElfFile> read_elf_file(const std::string& path);

}  // namespace cubfc::cli
