// The ways to a function: the symbol, and cuGetProcAddress with a version and flags.
#include <dlfcn.h>

#include <array>

#include "promise.h"

using namespace conformance;

namespace {

constexpr std::size_t kBytes = 100'000;

template <class Function = void>
Function* resolve(const char* name, int version, cuuint64_t flags = 0) {
  void* function = nullptr;
  ok(cu.cuGetProcAddress(name, &function, version, flags, nullptr));
  return reinterpret_cast<Function*>(function);
}

template <class Function = void>
Function* symbol(const char* name) {
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  void* const function = dlsym(driver, name);
  if (function == nullptr) {
    lacks(name);
  }
  return reinterpret_cast<Function*>(function);
}

}  // namespace

PROMISE(functions_of_all_ways_work_together,
        "What one form of a function allocated, every other form of cuMemFree takes.") {
  const std::array allocates{cu.cuMemAlloc, symbol<decltype(cuMemAlloc)>("cuMemAlloc_v2"),
                             resolve<decltype(cuMemAlloc)>("cuMemAlloc", 3020),
                             resolve<decltype(cuMemAlloc)>("cuMemAlloc", 12000)};
  const std::array frees{resolve<decltype(cuMemFree)>("cuMemFree", 12000),
                         resolve<decltype(cuMemFree)>("cuMemFree", 3020),
                         symbol<decltype(cuMemFree)>("cuMemFree_v2"), cu.cuMemFree};
  for (const auto allocate_by : allocates) {
    for (const auto free_by : frees) {
      CUdeviceptr block = 0;
      ok(allocate_by(&block, kBytes));
      grants("free", free_by(block));
      refuses("again", cu.cuMemFree(block), CUDA_ERROR_INVALID_VALUE);
    }
  }
}

PROMISE(an_old_version_means_an_old_function,
        "cuMemAlloc at version 2000 is the form of CUDA 2, with addresses of 32 bits.") {
  auto* const old = resolve<CUresult(unsigned*, unsigned)>("cuMemAlloc", 2000);
  holds("it is another function", reinterpret_cast<void*>(old) != resolve<>("cuMemAlloc", 3020));
  // Were it the present form, it would write 64 bits.
  std::array<unsigned, 2> words{0x5a5a5a5a, 0x5a5a5a5a};
  sees("its result", old(words.data(), 4096));
  holds("it writes no more than 32 bits", words[1] == 0x5a5a5a5a);
}

PROMISE(a_name_and_a_version_mean_one_function,
        "cuGetProcAddress gives the same function each time, and the symbol's.") {
  for (const auto& [name, symbol_name] : {std::pair{"cuMemAlloc", "cuMemAlloc_v2"},
                                          {"cuMemFree", "cuMemFree_v2"},
                                          {"cuMemAllocPitch", "cuMemAllocPitch_v2"},
                                          {"cuMemGetInfo", "cuMemGetInfo_v2"},
                                          {"cuMemGetAddressRange", "cuMemGetAddressRange_v2"},
                                          {"cuCtxDestroy", "cuCtxDestroy_v2"},
                                          {"cuPointerGetAttribute", "cuPointerGetAttribute"},
                                          {"cuMemcpyHtoD", "cuMemcpyHtoD_v2"}}) {
    void* const first = resolve<>(name, 12000);
    holds(name, first == resolve<>(name, 12000) && first == symbol<>(symbol_name));
  }
}

PROMISE(a_name_that_is_none_is_not_found,
        "cuGetProcAddress says of an unknown name, or one too new, that it is not there.") {
  for (const auto& [name, version] : {std::pair{"cuNoSuchFunction", 12000},
                                      {"cuMemAllocAsync", 3020},
                                      {"cuMemAlloc_v2", 12000},
                                      {"", 12000}}) {
    void* function = &function;
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
    sees(name, cu.cuGetProcAddress(name, &function, version, 0, &status));
    sees("  status", static_cast<long long>(status));
    holds("  nothing is given", function == nullptr);
  }
}

PROMISE(the_per_thread_flag_means_another_function,
        "With CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM stream 0 is the thread's own.") {
  constexpr auto kPerThread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  auto* const plain = resolve<decltype(cuMemFreeAsync)>("cuMemFreeAsync", 12000);
  auto* const of_thread = resolve<decltype(cuMemFreeAsync)>("cuMemFreeAsync", 12000, kPerThread);
  holds("cuMemFreeAsync has two", plain != of_thread);
  holds("cuMemAlloc has one",
        resolve<>("cuMemAlloc", 12000) == resolve<>("cuMemAlloc", 12000, kPerThread));
  const CUdeviceptr block = allocate(kBytes, 1);
  const CUdeviceptr copy = allocate(kBytes);
  keep_busy(CU_STREAM_PER_THREAD);
  ok(cu.cuMemcpyDtoDAsync(copy, block, kBytes, CU_STREAM_PER_THREAD));
  grants("a free in the thread's stream", of_thread(block, nullptr));
  Successors(kBytes).are_left_alone();
  has_pattern("what was read", copy, kBytes, 1);
}

PROMISE(the_resolver_resolves_itself,
        "cuGetProcAddress finds cuGetProcAddress, and that one finds the same functions.") {
  auto* const again = resolve<decltype(cuGetProcAddress)>("cuGetProcAddress", 12000);
  void* function = nullptr;
  ok(again("cuMemAlloc", &function, 12000, 0, nullptr));
  holds("the same cuMemAlloc", function == resolve<>("cuMemAlloc", 12000));
  using OldResolver = CUresult(const char*, void**, int, cuuint64_t);
  auto* const old = resolve<OldResolver>("cuGetProcAddress", 11030);
  function = nullptr;
  ok(old("cuMemAlloc", &function, 12000, 0));
  holds("also by its first form", function == resolve<>("cuMemAlloc", 12000));
}
