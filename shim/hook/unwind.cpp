// What the static libgcc and libstdc++ would bring along is replaced by something smaller.
//
// _dl_find_object for the unwinder of the static libgcc. The C library has one since glibc 2.35;
// using it would raise the oldest glibc that libcubfc.so runs on from 2.34. Exceptions here are
// rare, so a walk over the loaded objects is quick enough.
#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstdlib>

namespace {

// The layout of glibc 2.35's struct dl_find_object (dlfcn.h).
struct FoundObject {
  unsigned long long flags;
  void* map_start;
  void* map_end;
  link_map* map;
  void* eh_frame;
#if defined(__arm__)
#error "this layout has more members on 32-bit ARM"
#endif
  unsigned long long reserved[7];
};

struct Search {
  std::uintptr_t address;
  FoundObject* result;
};

int look_at(dl_phdr_info* info, std::size_t, void* data) {
  const auto& search = *static_cast<Search*>(data);
  std::uintptr_t start = UINTPTR_MAX;
  std::uintptr_t end = 0;
  void* eh_frame = nullptr;
  bool inside = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    const std::uintptr_t from = info->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_LOAD) {
      start = from < start ? from : start;
      end = from + header.p_memsz > end ? from + header.p_memsz : end;
      inside = inside || (search.address >= from && search.address < from + header.p_memsz);
    } else if (header.p_type == PT_GNU_EH_FRAME) {
      eh_frame = reinterpret_cast<void*>(from);
    }
  }
  if (!inside || eh_frame == nullptr) {
    return 0;
  }
  *search.result = {};
  search.result->map_start = reinterpret_cast<void*>(start);
  search.result->map_end = reinterpret_cast<void*>(end);
  search.result->eh_frame = eh_frame;
  return 1;
}

}  // namespace

// 0 when the object was found, -1 otherwise, as in glibc. Under a name of ours in the source: newer
// headers declare the real one, with the type that is spelled out above.
extern "C" __attribute__((visibility("hidden"))) int cubfc_find_object(void* address,
                                                                       FoundObject* result) noexcept
    __asm__("_dl_find_object");
extern "C" int cubfc_find_object(void* address, FoundObject* result) noexcept {
  Search search{reinterpret_cast<std::uintptr_t>(address), result};
  return dl_iterate_phdr(&look_at, &search) == 1 ? 0 : -1;
}

// libstdc++'s names the exception that nobody has caught, for which its demangler has several
// hundred addresses that would have to be relocated in every process. None of ours leaves the
// library.
namespace __gnu_cxx {
__attribute__((visibility("hidden"))) void __verbose_terminate_handler() {
  std::abort();
}
}  // namespace __gnu_cxx
