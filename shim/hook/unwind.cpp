// Takes the place of two functions: _dl_find_object(), which the static libgcc's unwinder calls,
// and the terminate handler that the static libstdc++ would bring along.
//
// The C library has a _dl_find_object() since glibc 2.35. If libcubfc.so used that one, it would no
// longer run with glibc 2.34. The one here walks over the loaded objects, and remembers for
// each thread the segments where it found something: the stacks of a trace lie in the same few
// objects again and again.
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

// The segments in which the calling thread has found an address. Forgotten when an object has been
// loaded or unloaded.
struct Remembered {
  struct Segment {
    std::uintptr_t start;
    std::uintptr_t end;
    FoundObject object;
  };
  unsigned long long loaded;
  unsigned long long unloaded;
  unsigned next;  // the index of the segment that is replaced next
  Segment segments[8];
};
[[gnu::tls_model("initial-exec")]] constinit thread_local Remembered remembered{};

struct Search {
  std::uintptr_t address;
  FoundObject* result;
  bool is_begun;
};

bool remembers(Search& search, const dl_phdr_info& info) {
  if (remembered.loaded != info.dlpi_adds || remembered.unloaded != info.dlpi_subs) {
    remembered = {info.dlpi_adds, info.dlpi_subs, 0, {}};
    return false;
  }
  for (const Remembered::Segment& segment : remembered.segments) {
    if (search.address >= segment.start && search.address < segment.end) {
      *search.result = segment.object;
      return true;
    }
  }
  return false;
}

int look_at(dl_phdr_info* info, std::size_t, void* data) {
  auto& search = *static_cast<Search*>(data);
  if (!search.is_begun && remembers(search, *info)) {
    return 1;
  }
  search.is_begun = true;
  std::uintptr_t start = UINTPTR_MAX;
  std::uintptr_t end = 0;
  void* eh_frame = nullptr;
  Remembered::Segment* found = nullptr;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    const std::uintptr_t from = info->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_LOAD) {
      start = from < start ? from : start;
      end = from + header.p_memsz > end ? from + header.p_memsz : end;
      if (search.address >= from && search.address < from + header.p_memsz) {
        found = &remembered.segments[remembered.next];
        *found = {from, from + header.p_memsz, {}};
      }
    } else if (header.p_type == PT_GNU_EH_FRAME) {
      eh_frame = reinterpret_cast<void*>(from);
    }
  }
  if (found == nullptr || eh_frame == nullptr) {
    if (found != nullptr) {
      *found = {};
    }
    return 0;
  }
  constexpr unsigned kSegments = sizeof(remembered.segments) / sizeof(remembered.segments[0]);
  remembered.next = (remembered.next + 1) % kSegments;
  found->object.map_start = reinterpret_cast<void*>(start);
  found->object.map_end = reinterpret_cast<void*>(end);
  found->object.eh_frame = eh_frame;
  *search.result = found->object;
  return 1;
}

}  // namespace

// Returns 0 when the object was found, -1 otherwise, as in glibc. In the source it has another
// name, because newer headers declare _dl_find_object with the type that FoundObject stands for.
extern "C" __attribute__((visibility("hidden"))) int cubfc_find_object(void* address,
                                                                       FoundObject* result) noexcept
    __asm__("_dl_find_object");
extern "C" int cubfc_find_object(void* address, FoundObject* result) noexcept {
  Search search{reinterpret_cast<std::uintptr_t>(address), result, false};
  return dl_iterate_phdr(&look_at, &search) == 1 ? 0 : -1;
}

// libstdc++'s own handler prints the name of an exception that nobody has caught. Its demangler has
// several hundred addresses that would have to be relocated in every process. No exception leaves
// this library, so its handler need not print any.
namespace __gnu_cxx {
__attribute__((visibility("hidden"))) void __verbose_terminate_handler() {
  std::abort();
}
}  // namespace __gnu_cxx
