#include "images.h"

#include <elf.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <vector>

namespace standin {
namespace {

constexpr Elf64_Half kCudaMachine = 190;        // EM_CUDA
constexpr unsigned char kKernelSymbol = 0x10;   // in st_other: a function that can be launched
constexpr unsigned char kManagedSymbol = 0x04;  // in st_other: a variable of managed memory
constexpr std::size_t kReservedShared = 1024;   // of each block, from compute capability 8.0 on
constexpr std::size_t kLongestHead = 64 << 10;  // in which PTX says that it is PTX
constexpr int kOldestPtx = 310;                 // 3.1: libnvJitLink compiles no older one

// .nv.info is a row of entries: a format, an attribute, and a value of two bytes or, in this
// format, its length and as many bytes.
constexpr std::uint8_t kSizedValue = 4;
constexpr std::uint8_t kMostThreads = 0x05;  // of a block, in each of three dimensions
constexpr std::uint8_t kFrameSize = 0x11;
constexpr std::uint8_t kParameter = 0x17;
constexpr std::uint8_t kRegisterCount = 0x2f;

template <typename T>
T Read(std::string_view bytes, std::size_t at) {
  T value{};
  if (at <= bytes.size() && sizeof value <= bytes.size() - at) {
    std::memcpy(&value, bytes.data() + at, sizeof value);
  }
  return value;
}

class Cubin {
 public:
  explicit Cubin(std::string_view file) : file_(file), header_(Read<Elf64_Ehdr>(file, 0)) {
    for (std::size_t i = 0; i < header_.e_shnum; ++i) {
      sections_.push_back(Read<Elf64_Shdr>(file, header_.e_shoff + i * header_.e_shentsize));
    }
  }

  Image Contents() const {
    Image image;
    bool reserves_shared = false;
    for (const Elf64_Shdr& section : sections_) {
      if (section.sh_type == SHT_SYMTAB) AddSymbols(section, image, reserves_shared);
    }
    const std::size_t reserved = reserves_shared ? kReservedShared : 0;
    const Elf64_Shdr* const constants = Find(".nv.constant3");
    for (auto& [name, needs] : image.kernels) {
      const Elf64_Shdr* const shared = Find(".nv.shared." + name);
      if (shared && shared->sh_size > reserved) needs.shared_bytes = shared->sh_size - reserved;
      if (constants) needs.constant_bytes = constants->sh_size;
      if (const Elf64_Shdr* const own = Find(".nv.info." + name)) AddOwnNeeds(Bytes(*own), needs);
    }
    return image;
  }

 private:
  std::string_view NameAt(const Elf64_Shdr& strings, std::size_t offset) const {
    const std::string_view text = Bytes(strings);
    if (offset >= text.size()) return {};
    return text.substr(offset, text.find('\0', offset) - offset);
  }

  std::string_view NameOf(const Elf64_Shdr& section) const {
    if (header_.e_shstrndx >= sections_.size()) return {};
    return NameAt(sections_[header_.e_shstrndx], section.sh_name);
  }

  const Elf64_Shdr* Find(std::string_view name) const {
    for (const Elf64_Shdr& section : sections_) {
      if (NameOf(section) == name) return &section;
    }
    return nullptr;
  }

  std::string_view Bytes(const Elf64_Shdr& section) const {
    if (section.sh_type == SHT_NOBITS || section.sh_offset > file_.size()) return {};
    return file_.substr(section.sh_offset, section.sh_size);
  }

  // Kernels and variables, and what .nv.info says of the former by their symbols' numbers.
  void AddSymbols(const Elf64_Shdr& table, Image& image, bool& reserves_shared) const {
    if (table.sh_link >= sections_.size()) return;
    const std::string_view symbols = Bytes(table);
    std::map<std::uint32_t, KernelNeeds*> numbered;
    for (std::uint32_t i = 0; i < symbols.size() / sizeof(Elf64_Sym); ++i) {
      const auto symbol = Read<Elf64_Sym>(symbols, i * sizeof(Elf64_Sym));
      const std::string name(NameAt(sections_[table.sh_link], symbol.st_name));
      const unsigned char type = ELF64_ST_TYPE(symbol.st_info);
      if (type == STT_FUNC && (symbol.st_other & kKernelSymbol) != 0) {
        numbered[i] = &image.kernels[name];
      } else if (name == ".nv.reservedSmem.offset0") {
        reserves_shared = true;
      } else if (type == STT_OBJECT && symbol.st_shndx != SHN_UNDEF &&
                 symbol.st_shndx < sections_.size()) {
        AddVariable(symbol, name, image);
      }
    }
    if (const Elf64_Shdr* const info = Find(".nv.info")) AddNeeds(Bytes(*info), numbered);
  }

  void AddVariable(const Elf64_Sym& symbol, const std::string& name, Image& image) const {
    const Elf64_Shdr& section = sections_[symbol.st_shndx];
    const std::string_view place = NameOf(section);
    if (!place.starts_with(".nv.global") && place != ".nv.constant3") return;
    const std::string_view bytes = Bytes(section);
    Variable& variable = image.variables[name];
    variable.is_managed = (symbol.st_other & kManagedSymbol) != 0;
    variable.bytes = symbol.st_size;
    if (symbol.st_value < bytes.size()) {
      variable.initial = bytes.substr(symbol.st_value, symbol.st_size);
    }
  }

  // Calls `take` for each entry with a sized value: its attribute and where the value is.
  template <typename Take>
  static void ForEachEntry(std::string_view info, Take take) {
    std::size_t at = 0;
    while (at + 4 <= info.size()) {
      const auto format = Read<std::uint8_t>(info, at);
      const auto attribute = Read<std::uint8_t>(info, at + 1);
      const auto length = Read<std::uint16_t>(info, at + 2);
      at += 4;
      if (format != kSizedValue) continue;
      take(attribute, at);
      at += length;
    }
  }

  // Of all kernels, by their symbols' numbers.
  static void AddNeeds(std::string_view info,
                       const std::map<std::uint32_t, KernelNeeds*>& numbered) {
    ForEachEntry(info, [&](std::uint8_t attribute, std::size_t at) {
      const auto found = numbered.find(Read<std::uint32_t>(info, at));
      const auto value = Read<std::uint32_t>(info, at + 4);
      if (found == numbered.end()) return;
      if (attribute == kRegisterCount) found->second->registers = value;
      if (attribute == kFrameSize) found->second->local_bytes = value;
    });
  }

  // Of one kernel, from its own section. A parameter has its number and its offset in 16 bits each
  // behind the first word, and its bytes in the upper 14 of the third.
  static void AddOwnNeeds(std::string_view info, KernelNeeds& needs) {
    ForEachEntry(info, [&](std::uint8_t attribute, std::size_t at) {
      if (attribute == kMostThreads) {
        needs.most_threads = std::size_t{Read<std::uint32_t>(info, at)} *
                             Read<std::uint32_t>(info, at + 4) * Read<std::uint32_t>(info, at + 8);
      } else if (attribute == kParameter) {
        needs.parameters[Read<std::uint16_t>(info, at + 4)] = {
            Read<std::uint16_t>(info, at + 6), Read<std::uint32_t>(info, at + 8) >> 18U};
      }
    });
  }

  const std::string_view file_;
  const Elf64_Ehdr header_;
  std::vector<Elf64_Shdr> sections_;
};

bool IsCubin(const char* start) {
  return std::strncmp(start, ELFMAG, SELFMAG) == 0 &&
         reinterpret_cast<const Elf64_Ehdr*>(start)->e_machine == kCudaMachine;
}

// The end of what lies last: the section headers, the program headers or a section.
std::size_t BytesOfCubin(const char* start) {
  Elf64_Ehdr header;
  std::memcpy(&header, start, sizeof header);
  std::size_t end = header.e_shoff + std::size_t{header.e_shnum} * header.e_shentsize;
  end =
      std::max<std::size_t>(end, header.e_phoff + std::size_t{header.e_phnum} * header.e_phentsize);
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, start + header.e_shoff + i * header.e_shentsize, sizeof section);
    if (section.sh_type != SHT_NOBITS) {
      end = std::max<std::size_t>(end, section.sh_offset + section.sh_size);
    }
  }
  return end;
}

// The version that PTX names near its beginning, on a line of its own: 830 for 8.3. 0 for what is
// no PTX.
int VersionOfPtx(const char* start) {
  for (std::size_t i = 0; i < kLongestHead; ++i) {
    const auto letter = static_cast<unsigned char>(start[i]);
    if (letter == 0 || (!std::isprint(letter) && !std::isspace(letter))) return 0;
    int major = 0;
    int minor = 0;
    const bool begins_line = i == 0 || start[i - 1] == '\n';
    if (begins_line && std::sscanf(start + i, " .version %d.%d", &major, &minor) == 2) {
      return major * 100 + minor * 10;
    }
  }
  return 0;
}

// A fat binary: a wrapper that CUDA programs register, and what it points to, a header and entries
// behind one another. Fields that nothing here reads are not named.
struct FatWrapper {
  std::uint32_t magic;
  std::uint32_t version;
  const char* data;
};
struct FatHeader {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t header_bytes;
  std::uint64_t bytes;  // of all entries
};
struct FatEntry {
  std::uint16_t kind;
  std::uint16_t version;
  std::uint32_t header_bytes;
  std::uint64_t bytes;  // of the code
  std::uint32_t unread[3];
  std::uint32_t architecture;
};
constexpr std::uint32_t kFatWrapper = 0x466243b1;
constexpr std::uint32_t kFatHeader = 0xba55ed50;
constexpr std::uint16_t kFatPtx = 1;
constexpr std::uint16_t kFatElf = 2;

}  // namespace

Architecture ArchitectureIn(const void* image, int capability) {
  FatWrapper wrapper{};
  std::memcpy(&wrapper.magic, image, sizeof(wrapper.magic));
  const char* at = static_cast<const char*>(image);
  if (wrapper.magic == kFatWrapper) {
    std::memcpy(&wrapper, image, sizeof(wrapper));
    at = wrapper.data;
  }
  FatHeader header{};
  if (at) std::memcpy(&header.magic, at, sizeof(header.magic));
  if (header.magic != kFatHeader) return {};
  std::memcpy(&header, at, sizeof(header));
  int elf = 0;
  int ptx = 0;
  const char* const end = at + header.header_bytes + header.bytes;
  for (at += header.header_bytes; end - at >= static_cast<std::ptrdiff_t>(sizeof(FatEntry));) {
    FatEntry entry{};
    std::memcpy(&entry, at, sizeof(entry));
    const int architecture = static_cast<int>(entry.architecture);
    if (entry.kind == kFatElf && architecture / 10 == capability / 10 &&
        architecture <= capability) {
      elf = std::max(elf, architecture);
    }
    if (entry.kind == kFatPtx && architecture <= capability) ptx = std::max(ptx, architecture);
    const std::uint64_t bytes = entry.header_bytes + entry.bytes;
    if (bytes == 0 || bytes > static_cast<std::uint64_t>(end - at)) break;
    at += bytes;
  }
  if (elf != 0) return {elf, elf};
  return {ptx, ptx == 0 ? 0 : capability};  // compiled when it is loaded
}

std::optional<Image> ReadImage(const void* image, const JitOptions& options, CUresult& error,
                               std::string& log) {
  const auto* const start = static_cast<const char*>(image);
  error = CUDA_SUCCESS;
  if (IsCubin(start)) return Cubin({start, BytesOfCubin(start)}).Contents();
  if (!CanCompile() || VersionOfPtx(start) < kOldestPtx) return std::nullopt;
  JitLink link(options);
  std::string cubin;
  error = link.Add(CU_JIT_INPUT_PTX, start, "image");
  if (error == CUDA_SUCCESS) error = link.Complete(cubin);
  if (error != CUDA_SUCCESS) {
    log = link.Log();
    return std::nullopt;
  }
  return Cubin(cubin).Contents();
}

}  // namespace standin
