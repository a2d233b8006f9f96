#include "cli/run/elf_file.h"

#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "shim/meet/descriptor.h"

namespace cubfc::cli {
namespace {

// The most that is read of a file: more than any program has.
constexpr std::size_t kMostHeaders = 512;
constexpr std::size_t kMostDynamic = 4096;
constexpr std::size_t kMostName = 4096;

class Reader {
 public:
  explicit Reader(const std::string& path)
      : file_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}

  template <typename T>
  bool read(std::uint64_t at, T* into, std::size_t count) const {
    const std::size_t bytes = count * sizeof(T);
    return file_ && at < (std::uint64_t{1} << 62) &&
           pread(file_.get(), into, bytes, static_cast<off_t>(at)) == static_cast<ssize_t>(bytes);
  }
  // The string at this offset; empty where no zero ends it within kMostName bytes.
  std::string text(std::uint64_t at) const {
    std::array<char, kMostName> buffer{};
    if (!file_ || at >= (std::uint64_t{1} << 62)) {
      return {};
    }
    const ssize_t got = pread(file_.get(), buffer.data(), buffer.size(), static_cast<off_t>(at));
    const std::string_view found(buffer.data(),
                                 static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    const std::size_t end = found.find('\0');
    return end == std::string_view::npos ? std::string() : std::string(found.substr(0, end));
  }

 private:
  Descriptor file_;
};

std::uint64_t offset_of(const std::vector<Elf64_Phdr>& headers, std::uint64_t address) {
  for (const Elf64_Phdr& header : headers) {
    if (header.p_type == PT_LOAD && address - header.p_vaddr < header.p_filesz) {
      return address - header.p_vaddr + header.p_offset;
    }
  }
  return ~std::uint64_t{0};
}

std::vector<std::string> needed_by(const Reader& reader, const std::vector<Elf64_Phdr>& headers,
                                   const Elf64_Phdr& dynamic) {
  std::vector<Elf64_Dyn> entries(
      std::min<std::size_t>(dynamic.p_filesz / sizeof(Elf64_Dyn), kMostDynamic));
  if (!reader.read(dynamic.p_offset, entries.data(), entries.size())) {
    return {};
  }
  entries.resize(static_cast<std::size_t>(
      std::find_if(entries.begin(), entries.end(),
                   [](const Elf64_Dyn& entry) { return entry.d_tag == DT_NULL; }) -
      entries.begin()));
  const auto strings = std::find_if(entries.begin(), entries.end(), [](const Elf64_Dyn& entry) {
    return entry.d_tag == DT_STRTAB;
  });
  std::vector<std::string> needed;
  for (const Elf64_Dyn& entry : entries) {
    if (entry.d_tag == DT_NEEDED && strings != entries.end()) {
      needed.push_back(reader.text(offset_of(headers, strings->d_un.d_ptr + entry.d_un.d_val)));
    }
  }
  return needed;
}

}  // namespace

std::optional<ElfFile> read_elf_file(const std::string& path) {
  const Reader reader(path);
  Elf64_Ehdr head{};
  if (!reader.read(0, head.e_ident, EI_NIDENT) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0) {
    return std::nullopt;
  }
  ElfFile found;
  found.is_64_bit = head.e_ident[EI_CLASS] == ELFCLASS64;
  if (!found.is_64_bit) {
    return found;
  }
  if (!reader.read(0, &head, 1)) {
    return std::nullopt;
  }
  found.machine = head.e_machine;
  std::vector<Elf64_Phdr> headers(std::min<std::size_t>(head.e_phnum, kMostHeaders));
  if (head.e_phentsize != sizeof(Elf64_Phdr) ||
      !reader.read(head.e_phoff, headers.data(), headers.size())) {
    return std::nullopt;
  }
  for (const Elf64_Phdr& header : headers) {
    if (header.p_type == PT_INTERP) {
      found.interpreter = reader.text(header.p_offset);
    } else if (header.p_type == PT_DYNAMIC) {
      found.needed = needed_by(reader, headers, header);
    }
  }
  return found;
}

}  // namespace cubfc::cli
