#include "shim/loader/loaded_objects.h"

#include <dlfcn.h>
#include <link.h>

#include <array>
#include <climits>
#include <cstring>
#include <string_view>

#include "config/xla_runtimes.h"

namespace cubfc {
namespace {

struct Order {
  const void* one;
  const void* other;
  bool one_first;
};

bool holds(const dl_phdr_info& info, const void* address) noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const auto& segment = info.dlpi_phdr[i];
    if (segment.p_type == PT_LOAD && at - (info.dlpi_addr + segment.p_vaddr) < segment.p_memsz) {
      return true;
    }
  }
  return false;
}

bool is_named(const char* path, std::string_view start) noexcept {
  const std::string_view whole = path == nullptr ? "" : path;
  return whole.substr(whole.rfind('/') + 1).starts_with(start);
}

// True for libcudart.so.13, and for the names that Python packages give their copies.
bool is_name_of_cuda_runtime(const char* path) noexcept {
  return is_named(path, "libcudart");
}

}  // namespace

bool in_same_object(const void* one, const void* other) noexcept {
  Dl_info info_of_one;
  Dl_info info_of_other;
  return dladdr(one, &info_of_one) != 0 && dladdr(other, &info_of_other) != 0 &&
         info_of_one.dli_fbase == info_of_other.dli_fbase;
}

bool is_loaded_before(const void* one, const void* other) noexcept {
  Order order{one, other, false};
  const auto look = [](dl_phdr_info* info, std::size_t, void* data) {
    auto& wanted = *static_cast<Order*>(data);
    if (holds(*info, wanted.other)) {
      return 1;
    }
    wanted.one_first = holds(*info, wanted.one);
    return wanted.one_first ? 1 : 0;
  };
  dl_iterate_phdr(look, &order);
  return order.one_first;
}

const char* loaded_library(std::span<const std::string_view> beginnings) noexcept {
  struct Search {
    std::span<const std::string_view> beginnings;
    const char* found;
  };
  Search search{beginnings, nullptr};
  const auto look = [](dl_phdr_info* info, std::size_t, void* data) {
    auto& wanted = *static_cast<Search*>(data);
    for (const std::string_view beginning : wanted.beginnings) {
      if (is_named(info->dlpi_name, beginning)) {
        wanted.found = beginning.data();
        return 1;
      }
    }
    return 0;
  };
  dl_iterate_phdr(look, &search);
  return search.found;
}

bool is_of_cuda_runtime(const void* function) noexcept {
  Dl_info info;
  return dladdr(function, &info) != 0 && is_name_of_cuda_runtime(info.dli_fname);
}

bool is_of_nvml(const void* function) noexcept {
  Dl_info info;
  return dladdr(function, &info) != 0 && is_named(info.dli_fname, "libnvidia-ml");
}

void* open_object_with(const void* address) noexcept {
  Dl_info info;
  link_map* map = nullptr;
  if (dladdr1(address, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0 ||
      map == nullptr) {
    return nullptr;
  }
  const bool main_program = map->l_name == nullptr || map->l_name[0] == '\0';
  return dlopen(main_program ? nullptr : map->l_name, RTLD_LAZY | RTLD_NOLOAD);
}

void* open_cuda_runtime(std::size_t number) noexcept {
  struct Search {
    std::size_t number;
    std::array<char, PATH_MAX> path;
  };
  Search search{number, {}};
  const auto look = [](dl_phdr_info* info, std::size_t, void* data) {
    auto& wanted = *static_cast<Search*>(data);
    if (!is_name_of_cuda_runtime(info->dlpi_name) || wanted.number-- > 0) {
      return 0;
    }
    std::strncpy(wanted.path.data(), info->dlpi_name, wanted.path.size() - 1);
    return 1;
  };
  // dlopen is called after the walk: the walk holds a lock under which nothing may wait for the
  // loader's lock.
  return dl_iterate_phdr(look, &search) == 0 ? nullptr
                                             : dlopen(search.path.data(), RTLD_LAZY | RTLD_NOLOAD);
}

const char* loaded_xla_runtime() noexcept {
  const char* found = nullptr;
  const auto look = [](dl_phdr_info* info, std::size_t, void* data) {
    const char* const known =
        config::xla_runtime_at(info->dlpi_name == nullptr ? "" : info->dlpi_name);
    *static_cast<const char**>(data) = known;
    return known == nullptr ? 0 : 1;
  };
  dl_iterate_phdr(look, &found);
  return found;
}

std::uint64_t objects_generation() noexcept {
  std::uint64_t generation = 0;
  const auto first = [](dl_phdr_info* info, std::size_t, void* data) {
    *static_cast<std::uint64_t*>(data) = info->dlpi_adds + info->dlpi_subs;
    return 1;
  };
  dl_iterate_phdr(first, &generation);
  return generation;
}

}  // namespace cubfc
