// An image of a module, made byte by byte as NVIDIA's compilers lay them out, so that no compiler
// is needed.
#pragma once

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace standin_test {

// An ELF file of machine 190 with a section table, added to in order.
class Cubin {
 public:
  Cubin() {
    Add("", SHT_NULL, "");
    names_ = Add(".shstrtab", SHT_STRTAB, "");
    strings_ = Add(".strtab", SHT_STRTAB, std::string(1, '\0'));
    symbols_ = Add(".symtab", SHT_SYMTAB, std::string(sizeof(Elf64_Sym), '\0'));
    sections_[symbols_].header.sh_link = static_cast<Elf64_Word>(strings_);
  }

  std::size_t Add(const std::string& name, Elf64_Word type, const std::string& bytes,
                  std::size_t size = 0) {
    Section section{.header = {}, .bytes = bytes};
    section.header.sh_name = static_cast<Elf64_Word>(name_bytes_.size());
    section.header.sh_type = type;
    section.header.sh_size = size != 0 ? size : bytes.size();
    name_bytes_ += name + '\0';
    sections_.push_back(section);
    return sections_.size() - 1;
  }

  // The number of the symbol.
  std::uint32_t AddSymbol(const std::string& name, unsigned char type, unsigned char other,
                          std::size_t section, std::uint64_t offset, std::uint64_t bytes) {
    Elf64_Sym symbol{};
    symbol.st_name = static_cast<Elf64_Word>(sections_[strings_].bytes.size());
    symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, type);
    symbol.st_other = other;
    symbol.st_shndx = static_cast<Elf64_Section>(section);
    symbol.st_value = offset;
    symbol.st_size = bytes;
    sections_[strings_].bytes += name + '\0';
    std::string& table = sections_[symbols_].bytes;
    table.append(reinterpret_cast<const char*>(&symbol), sizeof symbol);
    return static_cast<std::uint32_t>(table.size() / sizeof symbol - 1);
  }

  std::string Bytes() {
    sections_[names_].bytes = name_bytes_;
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_machine = 190;
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shnum = static_cast<Elf64_Half>(sections_.size());
    header.e_shstrndx = static_cast<Elf64_Half>(names_);
    std::string contents;
    for (Section& section : sections_) {
      section.header.sh_offset = sizeof header + contents.size();
      if (section.header.sh_type != SHT_NOBITS) section.header.sh_size = section.bytes.size();
      contents += section.bytes;
    }
    header.e_shoff = sizeof header + contents.size();
    std::string file(reinterpret_cast<const char*>(&header), sizeof header);
    file += contents;
    for (const Section& section : sections_) {
      file.append(reinterpret_cast<const char*>(&section.header), sizeof section.header);
    }
    return file;
  }

 private:
  struct Section {
    Elf64_Shdr header;
    std::string bytes;
  };
  std::vector<Section> sections_;
  std::string name_bytes_;
  std::size_t names_ = 0;
  std::size_t strings_ = 0;
  std::size_t symbols_ = 0;
};

inline constexpr std::uint8_t kMostThreads = 0x05;
inline constexpr std::uint8_t kFrameSize = 0x11;
inline constexpr std::uint8_t kParameter = 0x17;
inline constexpr std::uint8_t kRegisterCount = 0x2f;

inline std::string Info(std::uint8_t attribute, const std::vector<std::uint32_t>& words) {
  const std::size_t bytes = words.size() * sizeof(std::uint32_t);
  std::string entry{'\x04', static_cast<char>(attribute), static_cast<char>(bytes), '\0'};
  entry.append(reinterpret_cast<const char*>(words.data()), bytes);
  return entry;
}

// __device__ int counter = 7; __device__ char zeroes[3000]; __constant__ char table[400];
// __launch_bounds__(128) __global__ void kernel(int*, short): 12 registers, 256 bytes of shared
// memory, 512 of local memory.
inline std::string Sample() {
  Cubin cubin;
  const std::size_t text = cubin.Add(".text.kernel", SHT_PROGBITS, std::string(128, '\x90'));
  const std::size_t initial =
      cubin.Add(".nv.global.init", SHT_PROGBITS, {'\x07', '\0', '\0', '\0'});
  const std::size_t zeroed = cubin.Add(".nv.global", SHT_NOBITS, "", 3000);
  const std::size_t constant = cubin.Add(".nv.constant3", SHT_PROGBITS, std::string(400, 'c'));
  cubin.Add(".nv.shared.kernel", SHT_NOBITS, "", 1024 + 256);
  const std::uint32_t kernel = cubin.AddSymbol("kernel", STT_FUNC, 0x10, text, 0, 128);
  cubin.AddSymbol("helper", STT_FUNC, 0, text, 64, 64);
  cubin.AddSymbol(".nv.reservedSmem.offset0", STT_OBJECT, 0, SHN_UNDEF, 0, 4);
  cubin.AddSymbol("counter", STT_OBJECT, 0, initial, 0, 4);
  cubin.AddSymbol("zeroes", STT_OBJECT, 0, zeroed, 0, 3000);
  cubin.AddSymbol("table", STT_OBJECT, 0, constant, 0, 400);
  const std::string skipped{'\x03', '\x19', '\x08', '\0'};
  cubin.Add(".nv.info", 0x70000000,
            Info(kFrameSize, {kernel, 512}) + skipped + Info(kRegisterCount, {kernel, 12}));
  cubin.Add(".nv.info.kernel", 0x70000000,
            Info(kParameter, {0, 1U | 8U << 16U, 2U << 18U}) + skipped +
                Info(kParameter, {0, 0, 8U << 18U}) + Info(kMostThreads, {64, 2, 1}));
  return cubin.Bytes();
}

}  // namespace standin_test
