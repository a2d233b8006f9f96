#include "caller.h"

#include <dlfcn.h>
#include <link.h>
#include <unwind.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <new>
#include <string_view>
#include <vector>

namespace witness {
namespace {

// What a frame in a library says of the call.
enum class Place {
  kBeneath,    // the driver, CUPTI and this library, which lie between the caller and us
  kCubfc,      //
  kOutermost,  // where every stack begins: the program, the C library, the dynamic linker
  kElsewhere
};

struct Object {
  std::uintptr_t start;
  std::uintptr_t end;
  Place place;
};

// Never changed and never freed: threads read one while another learns the next.
struct Objects {
  std::vector<Object> list;  // without those that are kElsewhere
  unsigned long long loads = 0;
  bool cubfc = false;
};

std::atomic<const Objects*> known{nullptr};

std::string_view base_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

Place place_of_library(std::string_view name) {
  if (name == "libcubfc.so") {
    return Place::kCubfc;
  }
  for (const std::string_view prefix : {"libcuda.so", "libcupti.so", "libcubfc_witness.so"}) {
    if (name.starts_with(prefix)) {
      return Place::kBeneath;
    }
  }
  for (const std::string_view prefix : {"libc.so", "libpthread.so", "ld-linux", "ld64.so"}) {
    if (name.starts_with(prefix)) {
      return Place::kOutermost;
    }
  }
  return Place::kElsewhere;
}

int add_object(dl_phdr_info* info, std::size_t, void* data) {
  auto& objects = *static_cast<Objects*>(data);
  objects.loads = info->dlpi_adds;
  // dl_iterate_phdr(3): the first one is the program.
  const bool program = objects.list.empty();
  const Place place = program ? Place::kOutermost : place_of_library(base_name(info->dlpi_name));
  if (place == Place::kElsewhere) {
    return 0;
  }
  std::uintptr_t start = UINTPTR_MAX;
  std::uintptr_t end = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    if (header.p_type == PT_LOAD) {
      start = std::min(start, info->dlpi_addr + header.p_vaddr);
      end = std::max(end, info->dlpi_addr + header.p_vaddr + header.p_memsz);
    }
  }
  objects.list.push_back({start, end, place});
  objects.cubfc = objects.cubfc || place == Place::kCubfc;
  return 0;
}

int read_loads(dl_phdr_info* info, std::size_t, void* data) {
  *static_cast<unsigned long long*>(data) = info->dlpi_adds;
  return 1;
}

// A program may load libcubfc.so late, by dlopen.
const Objects* up_to_date_objects() {
  const Objects* objects = known.load(std::memory_order_acquire);
  if (!objects->cubfc) {
    unsigned long long loads = 0;
    dl_iterate_phdr(&read_loads, &loads);
    if (loads != objects->loads) {
      learn_objects();
      objects = known.load(std::memory_order_acquire);
    }
  }
  return objects;
}

struct Walk {
  const Objects& objects;
  Finding finding;
  std::size_t frames = 0;
  bool at_caller = false;
  Place last = Place::kElsewhere;

  Place place_of(std::uintptr_t address) const {
    for (const Object& object : objects.list) {
      if (address >= object.start && address < object.end) {
        return object.place;
      }
    }
    return Place::kElsewhere;
  }
};

// More than a program's stack has; an unwinder that goes round in a circle is stopped.
constexpr std::size_t kMostFrames = 4096;

_Unwind_Reason_Code at_frame(_Unwind_Context* context, void* data) {
  auto& walk = *static_cast<Walk*>(data);
  int before_instruction = 0;
  const std::uintptr_t next = _Unwind_GetIPInfo(context, &before_instruction);
  if (next == 0) {  // behind the outermost frame
    return _URC_END_OF_STACK;
  }
  // A return address may be the first byte behind its function, even behind its library.
  const std::uintptr_t address = before_instruction != 0 ? next : next - 1;
  Stack& stack = walk.finding.stack;
  if (stack.depth < stack.addresses.size()) {
    stack.addresses[stack.depth++] = address;
  }
  walk.last = walk.place_of(address);
  // Only the first frame above the driver counts: where cubfc calls the runtime, which then calls
  // the driver by a way that passes cubfc by, there is a frame of cubfc's further out.
  if (!walk.at_caller && walk.last != Place::kBeneath) {
    walk.at_caller = true;
    if (walk.last == Place::kCubfc) {
      walk.finding.caller = Caller::kCubfc;
      return _URC_END_OF_STACK;
    }
  }
  if (++walk.frames == kMostFrames) {
    walk.last = Place::kElsewhere;
    return _URC_END_OF_STACK;
  }
  return _URC_NO_REASON;
}

}  // namespace

void learn_objects() {
  auto* objects = new Objects;
  objects->list.reserve(16);  // the list is locked while objects are added
  dl_iterate_phdr(&add_object, objects);
  known.store(objects, std::memory_order_release);
}

Finding find_caller() noexcept try {
  Walk walk{.objects = *up_to_date_objects(), .finding = {}};
  _Unwind_Backtrace(&at_frame, &walk);
  if (walk.finding.caller != Caller::kCubfc) {
    walk.finding.caller = walk.last == Place::kOutermost ? Caller::kPastCubfc : Caller::kUnknown;
  }
  return walk.finding;
} catch (const std::bad_alloc&) {
  return {};
}

std::string text_of(std::uintptr_t address) {
  Dl_info info{};
  char number[32];
  if (dladdr(reinterpret_cast<void*>(address), &info) == 0 || info.dli_fname == nullptr) {
    std::snprintf(number, sizeof number, "0x%zx", static_cast<std::size_t>(address));
    return number;
  }
  const auto offset_from = [&](const void* start) {
    const auto offset = address - reinterpret_cast<std::uintptr_t>(start);
    std::snprintf(number, sizeof number, "0x%zx", static_cast<std::size_t>(offset));
    return std::string(number);
  };
  const std::string object = std::string(base_name(info.dli_fname)) + ": ";
  return info.dli_sname == nullptr ? object + offset_from(info.dli_fbase)
                                   : object + info.dli_sname + "+" + offset_from(info.dli_saddr);
}

}  // namespace witness
