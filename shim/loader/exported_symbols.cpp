#include "shim/loader/exported_symbols.h"

#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstring>

namespace cubfc {
namespace {

// The hash of a name, as the GNU hash table has it.
std::uint32_t hash_of(const char* name) noexcept {
  std::uint32_t hash = 5381;
  for (; *name != '\0'; ++name) {
    hash = hash * 33 + static_cast<unsigned char>(*name);
  }
  return hash;
}

// The tables of one object. Layout: the ELF gABI, and glibc's elf/dl-lookup.c for the hash table.
class Exports {
 public:
  explicit Exports(const dl_phdr_info& info) noexcept : base_(info.dlpi_addr) {
    for (int i = 0; i < info.dlpi_phnum; ++i) {
      if (info.dlpi_phdr[i].p_type == PT_DYNAMIC) {
        read_dynamic(reinterpret_cast<const ElfW(Dyn)*>(base_ + info.dlpi_phdr[i].p_vaddr));
      }
    }
  }

  void* find(const char* name) const noexcept {
    if (hash_table_ == nullptr || symbols_ == nullptr || strings_ == nullptr) {
      return nullptr;
    }
    const std::uint32_t buckets = hash_table_[0];
    const std::uint32_t first_symbol = hash_table_[1];
    const std::uint32_t bloom_words = hash_table_[2];
    const std::uint32_t bloom_shift = hash_table_[3];
    if (buckets == 0 || bloom_words == 0) {
      return nullptr;
    }
    using Word = ElfW(Addr);
    constexpr std::uint32_t kBits = sizeof(Word) * 8;
    const auto* const bloom = reinterpret_cast<const Word*>(hash_table_ + 4);
    const auto* const bucket = reinterpret_cast<const std::uint32_t*>(bloom + bloom_words);
    const std::uint32_t* const chain = bucket + buckets;
    const std::uint32_t hash = hash_of(name);
    const Word bits = Word{1} << hash % kBits | Word{1} << (hash >> bloom_shift) % kBits;
    if ((bloom[hash / kBits % bloom_words] & bits) != bits) {
      return nullptr;
    }
    std::uint32_t symbol = bucket[hash % buckets];
    if (symbol < first_symbol) {
      return nullptr;
    }
    for (;; ++symbol) {
      const std::uint32_t its_hash = chain[symbol - first_symbol];
      if ((its_hash | 1) == (hash | 1) &&
          std::strcmp(strings_ + symbols_[symbol].st_name, name) == 0 &&
          symbols_[symbol].st_shndx != SHN_UNDEF) {
        return reinterpret_cast<void*>(base_ + symbols_[symbol].st_value);
      }
      if ((its_hash & 1) != 0) {  // the last of its bucket
        return nullptr;
      }
    }
  }

 private:
  void read_dynamic(const ElfW(Dyn) * entry) noexcept {
    for (; entry->d_tag != DT_NULL; ++entry) {
      // glibc has turned the values into addresses, except where the table is read-only.
      const std::uintptr_t value = entry->d_un.d_ptr;
      const std::uintptr_t address = value < base_ ? base_ + value : value;
      switch (entry->d_tag) {
        case DT_GNU_HASH:
          hash_table_ = reinterpret_cast<const std::uint32_t*>(address);
          break;
        case DT_SYMTAB:
          symbols_ = reinterpret_cast<const ElfW(Sym)*>(address);
          break;
        case DT_STRTAB:
          strings_ = reinterpret_cast<const char*>(address);
          break;
        default:
          break;
      }
    }
  }

  const std::uintptr_t base_;
  const std::uint32_t* hash_table_ = nullptr;
  const ElfW(Sym) * symbols_ = nullptr;
  const char* strings_ = nullptr;
};

struct Search {
  std::span<const char* const> names;
  std::span<void*> addresses;
  ObjectRange range;
};

ObjectRange range_of(const dl_phdr_info& info) noexcept {
  ObjectRange range{UINTPTR_MAX, 0};
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    if (info.dlpi_phdr[i].p_type == PT_LOAD) {
      const std::uintptr_t start = info.dlpi_addr + info.dlpi_phdr[i].p_vaddr;
      range.start = start < range.start ? start : range.start;
      range.end = start + info.dlpi_phdr[i].p_memsz > range.end ? start + info.dlpi_phdr[i].p_memsz
                                                                : range.end;
    }
  }
  return range;
}

int look_in(dl_phdr_info* info, std::size_t /*bytes*/, void* data) noexcept {
  Search& search = *static_cast<Search*>(data);
  const Exports exports(*info);
  for (std::size_t i = 0; i < search.names.size(); ++i) {
    search.addresses[i] = exports.find(search.names[i]);
    if (search.addresses[i] == nullptr) {
      return 0;
    }
  }
  search.range = range_of(*info);
  return 1;
}

}  // namespace

ObjectRange find_exported_together(std::span<const char* const> names,
                                   std::span<void*> addresses) noexcept {
  Search search{names, addresses, {}};
  return dl_iterate_phdr(&look_in, &search) == 1 ? search.range : ObjectRange{};
}

}  // namespace cubfc
