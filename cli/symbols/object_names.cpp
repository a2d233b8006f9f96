#include "cli/symbols/object_names.h"

#include <cxxabi.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <gelf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>

namespace cubfc::symbols {
namespace {

struct FreeMemory {
  void operator()(void* memory) const { std::free(memory); }
};

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, FreeMemory> text(
      abi::__cxa_demangle(name, nullptr, nullptr, &status));
  return status == 0 && text != nullptr ? text.get() : name;
}

// Opens a regular file; -1 and `problem` for all else. Does not wait for the other end of a pipe,
// and takes no terminal.
int open_file(const std::string& path, std::string& problem) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  struct stat status {};
  if (file < 0) {
    problem = std::strerror(errno);
  } else if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    problem = "is no file";
    close(file);
    return -1;
  }
  return file;
}

std::string build_id_of(Dwfl_Module* module) {
  const unsigned char* bits = nullptr;
  GElf_Addr address = 0;
  const int bytes = dwfl_module_build_id(module, &bits, &address);
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (int i = 0; i < bytes; ++i) {
    text += kDigits[bits[i] / 16];
    text += kDigits[bits[i] % 16];
  }
  return text;
}

// The name of a function. An inlined copy, or a definition apart from its declaration, has the name
// of the entry that it stands for.
std::string name_of(Dwarf_Die* die) {
  for (const unsigned kind : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name}) {
    Dwarf_Attribute attribute;
    const char* const name = dwarf_formstring(dwarf_attr_integrate(die, kind, &attribute));
    if (name != nullptr) {
      return demangled(name);
    }
  }
  const char* const name = dwarf_diename(die);
  return name == nullptr ? "" : name;
}

std::uint32_t number_of(Dwarf_Die* die, unsigned kind) {
  Dwarf_Attribute attribute;
  Dwarf_Word value = 0;
  return dwarf_formudata(dwarf_attr(die, kind, &attribute), &value) == 0
             ? static_cast<std::uint32_t>(value)
             : 0;
}

constexpr Dwfl_Callbacks kCallbacks{dwfl_build_id_find_elf, dwfl_standard_find_debuginfo,
                                    dwfl_offline_section_address, nullptr};

}  // namespace

struct ObjectNames::Parts {
  struct Symbol {
    GElf_Addr start;
    GElf_Addr end;
    const char* name;
  };

  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;
  Parts() : session(dwfl_begin(&kCallbacks)) {}
  ~Parts() { dwfl_end(session); }

  void read_symbols();
  std::optional<GElf_Addr> address_of(std::uint64_t offset) const;
  std::string symbol_at(GElf_Addr address) const;
  Function line_at(GElf_Addr address) const;
  Dwarf_Die* unit_at(GElf_Addr address, Dwarf_Addr& bias) const;
  std::vector<Function> by_debug_information(GElf_Addr address) const;

  Dwfl* session;
  Dwfl_Module* module = nullptr;
  std::vector<Symbol> symbols;
};

ObjectNames::ObjectNames(const std::string& path, const std::string& build_id,
                         std::string& problem) {
  unsetenv("DEBUGINFOD_URLS");  // downloads nothing: it may be hundreds of megabytes
  const int file = open_file(path, problem);
  if (file < 0) {
    return;
  }
  auto parts = std::make_unique<Parts>();
  dwfl_report_begin(parts->session);
  parts->module = dwfl_report_offline(parts->session, path.c_str(), path.c_str(), file);
  dwfl_report_end(parts->session, nullptr, nullptr);
  if (parts->module == nullptr) {
    problem = "is no program or library that can be read";
    close(file);  // else the session closes it
    return;
  }
  if (!build_id.empty() && build_id_of(parts->module) != build_id) {
    problem = "is another build than was recorded";
    return;
  }
  parts->read_symbols();
  parts_ = std::move(parts);
}

ObjectNames::~ObjectNames() = default;

// Reads the symbols of functions, sorted by address. Of several at one address keeps the first of
// the longest.
void ObjectNames::Parts::read_symbols() {
  const int count = dwfl_module_getsymtab(module);
  for (int i = 1; i < count; ++i) {
    GElf_Sym symbol;
    GElf_Addr address = 0;
    const char* const name =
        dwfl_module_getsym_info(module, i, &symbol, &address, nullptr, nullptr, nullptr);
    const int type = GELF_ST_TYPE(symbol.st_info);
    if (name != nullptr && *name != '\0' && symbol.st_shndx != SHN_UNDEF &&
        (type == STT_FUNC || type == STT_GNU_IFUNC)) {
      symbols.push_back({address, address + std::max<GElf_Xword>(symbol.st_size, 1), name});
    }
  }
  std::ranges::stable_sort(symbols, [](const Symbol& a, const Symbol& b) {
    return a.start != b.start ? a.start < b.start : a.end > b.end;
  });
  const auto behind = std::ranges::unique(symbols, {}, &Symbol::start);
  symbols.erase(behind.begin(), behind.end());
}

// The address in the session of what lies at this offset in the file; nothing where that is not
// loaded.
std::optional<GElf_Addr> ObjectNames::Parts::address_of(std::uint64_t offset) const {
  GElf_Addr bias = 0;
  Elf* const elf = dwfl_module_getelf(module, &bias);
  std::size_t count = 0;
  if (elf == nullptr || elf_getphdrnum(elf, &count) != 0) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < count; ++i) {
    GElf_Phdr header;
    if (gelf_getphdr(elf, static_cast<int>(i), &header) != nullptr && header.p_type == PT_LOAD &&
        offset - header.p_offset < header.p_filesz) {
      return offset - header.p_offset + header.p_vaddr + bias;
    }
  }
  return std::nullopt;
}

std::string ObjectNames::Parts::symbol_at(GElf_Addr address) const {
  const auto after = std::ranges::upper_bound(symbols, address, {}, &Symbol::start);
  return after == symbols.begin() || address >= std::prev(after)->end
             ? ""
             : demangled(std::prev(after)->name);
}

// The source file and line, without the function's name.
Function ObjectNames::Parts::line_at(GElf_Addr address) const {
  Function function;
  Dwfl_Line* const line = dwfl_module_getsrc(module, address);
  int number = 0;
  const char* const file =
      line == nullptr ? nullptr : dwfl_lineinfo(line, nullptr, &number, nullptr, nullptr, nullptr);
  if (file != nullptr) {
    function.file = file;
    function.line = static_cast<std::uint32_t>(std::max(number, 0));
  }
  return function;
}

// The compilation unit that has the address. Some compilers write no table of the units' addresses:
// then looks through all units.
Dwarf_Die* ObjectNames::Parts::unit_at(GElf_Addr address, Dwarf_Addr& bias) const {
  Dwarf_Die* unit = dwfl_module_addrdie(module, address, &bias);
  if (unit != nullptr) {
    return unit;
  }
  while ((unit = dwfl_module_nextcu(module, unit, &bias)) != nullptr) {
    if (dwarf_haspc(unit, address - bias) == 1) {
      return unit;
    }
  }
  return nullptr;
}

std::vector<Function> ObjectNames::Parts::by_debug_information(GElf_Addr address) const {
  std::vector<Function> functions;
  Dwarf_Addr bias = 0;
  Dwarf_Die* const unit = unit_at(address, bias);
  Dwarf_Die* found = nullptr;
  const int found_count = unit == nullptr ? 0 : dwarf_getscopes(unit, address - bias, &found);
  const std::unique_ptr<Dwarf_Die, FreeMemory> found_owner(found);
  if (found_count <= 0) {
    return functions;
  }
  // found[0] is the innermost scope. The rest of `found` are the scopes around it in the source;
  // `scopes` are those around it as the program runs, inlined calls included.
  Dwarf_Die* scopes = nullptr;
  const int count = dwarf_getscopes_die(found, &scopes);
  const std::unique_ptr<Dwarf_Die, FreeMemory> owner(scopes);
  Dwarf_Files* files = nullptr;
  dwarf_getsrcfiles(unit, &files, nullptr);
  Function here = line_at(address);
  for (Dwarf_Die& scope : std::span(scopes, static_cast<std::size_t>(std::max(count, 0)))) {
    const int tag = dwarf_tag(&scope);
    if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_subprogram) {
      continue;
    }
    here.name = name_of(&scope);
    functions.push_back(here);
    if (tag == DW_TAG_subprogram) {
      break;
    }
    const char* const file =
        files == nullptr
            ? nullptr
            : dwarf_filesrc(files, number_of(&scope, DW_AT_call_file), nullptr, nullptr);
    here = {"", file == nullptr ? "" : file, number_of(&scope, DW_AT_call_line)};
  }
  return functions;
}

std::vector<Function> ObjectNames::at(std::uint64_t return_offset) const {
  // The call lies before the place it returns to, which may belong to another function.
  const auto address = parts_ == nullptr || return_offset == 0
                           ? std::nullopt
                           : parts_->address_of(return_offset - 1);
  if (!address) {
    return {};
  }
  std::vector<Function> functions = parts_->by_debug_information(*address);
  if (functions.empty()) {
    functions.push_back(parts_->line_at(*address));
  }
  if (functions.back().name.empty()) {
    functions.back().name = parts_->symbol_at(*address);
  }
  if (functions.size() == 1 && functions[0].name.empty() && functions[0].file.empty()) {
    functions.clear();
  }
  return functions;
}

}  // namespace cubfc::symbols
