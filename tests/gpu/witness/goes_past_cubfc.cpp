// Allocates once as programs do, and then by a function that it finds in the driver's symbol table
// itself, where no preloaded library can stand in between. Arguments: how often it does the latter,
// and a library through which those calls are made (without_unwind_tables.cpp).
#include <cuda.h>
#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace {

using Allocate = decltype(&cuMemAlloc);
using CallForMe = CUresult (*)(Allocate, CUdeviceptr*, std::size_t);

// DT_GNU_HASH: a header of four words (buckets, first symbol, words of the filter, shift), the
// filter, the buckets with each one's first symbol, and the chains, whose last entry is odd.
std::uint32_t symbols_in_gnu_hash(const std::uint32_t* table) {
  const std::uint32_t bucket_count = table[0];
  const std::uint32_t first = table[1];
  const auto* const buckets = reinterpret_cast<const std::uint32_t*>(
      reinterpret_cast<const ElfW(Addr)*>(table + 4) + table[2]);
  const std::uint32_t* const chains = buckets + bucket_count;
  std::uint32_t last = *std::max_element(buckets, buckets + bucket_count);
  if (last < first) {
    return first;
  }
  while ((chains[last - first] & 1U) == 0) {
    ++last;
  }
  return last + 1;
}

struct Search {
  std::string_view library;
  std::string_view symbol;
  void* found = nullptr;
};

int look_in(dl_phdr_info* info, std::size_t, void* data) {
  auto& search = *static_cast<Search*>(data);
  const std::string_view path = info->dlpi_name;
  const ElfW(Dyn)* entry = nullptr;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    if (info->dlpi_phdr[i].p_type == PT_DYNAMIC) {
      entry = reinterpret_cast<const ElfW(Dyn)*>(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    }
  }
  if (path.substr(path.rfind('/') + 1) != search.library || entry == nullptr) {
    return 0;
  }
  const ElfW(Sym)* symbols = nullptr;
  const char* names = nullptr;
  std::uint32_t count = 0;
  for (; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_SYMTAB) {
      symbols = reinterpret_cast<const ElfW(Sym)*>(entry->d_un.d_ptr);
    } else if (entry->d_tag == DT_STRTAB) {
      names = reinterpret_cast<const char*>(entry->d_un.d_ptr);
    } else if (entry->d_tag == DT_HASH) {
      count = reinterpret_cast<const std::uint32_t*>(entry->d_un.d_ptr)[1];
    } else if (entry->d_tag == DT_GNU_HASH) {
      count = symbols_in_gnu_hash(reinterpret_cast<const std::uint32_t*>(entry->d_un.d_ptr));
    }
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    if (symbols[i].st_shndx != SHN_UNDEF && search.symbol == names + symbols[i].st_name) {
      search.found = reinterpret_cast<void*>(info->dlpi_addr + symbols[i].st_value);
    }
  }
  return 1;
}

void* need(const char* what, void* found) {
  if (found == nullptr) {
    std::fprintf(stderr, "%s was not found\n", what);
    std::exit(1);
  }
  return found;
}

void must(const char* what, CUresult result) {
  if (result != CUDA_SUCCESS) {
    std::fprintf(stderr, "%s: %d\n", what, static_cast<int>(result));
    std::exit(1);
  }
}

template <class Function>
Function* looked_up(void* library, const char* name) {
  return reinterpret_cast<Function*>(need(name, dlsym(library, name)));
}

}  // namespace

int main(int argc, char** argv) {
  const int calls = argc > 1 ? std::atoi(argv[1]) : 1;
  void* const driver = need("libcuda.so.1", dlopen("libcuda.so.1", RTLD_NOW));
  CallForMe call_for_me = [](Allocate allocate, CUdeviceptr* address, std::size_t bytes) {
    return allocate(address, bytes);
  };
  if (argc > 2) {
    void* const library = need(argv[2], dlopen(argv[2], RTLD_NOW));
    call_for_me = looked_up<CUresult(Allocate, CUdeviceptr*, std::size_t)>(library, "call_for_me");
  }
  Search search{"libcuda.so.1", "cuMemAlloc_v2"};
  dl_iterate_phdr(&look_in, &search);
  const auto past = reinterpret_cast<Allocate>(need("cuMemAlloc_v2", search.found));

  CUdevice device = 0;
  CUcontext context = nullptr;
  must("cuInit", looked_up<decltype(cuInit)>(driver, "cuInit")(0));
  must("cuDeviceGet", looked_up<decltype(cuDeviceGet)>(driver, "cuDeviceGet")(&device, 0));
  must("cuDevicePrimaryCtxRetain", looked_up<decltype(cuDevicePrimaryCtxRetain)>(
                                       driver, "cuDevicePrimaryCtxRetain")(&context, device));
  must("cuCtxSetCurrent", looked_up<decltype(cuCtxSetCurrent)>(driver, "cuCtxSetCurrent")(context));
  CUdeviceptr block = 0;
  must("cuMemAlloc", looked_up<decltype(cuMemAlloc)>(driver, "cuMemAlloc_v2")(&block, 1000));
  for (int i = 0; i < calls; ++i) {
    must("cuMemAlloc past cubfc", call_for_me(past, &block, 1000));
  }
  return 0;
}
