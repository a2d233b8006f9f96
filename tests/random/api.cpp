#include "api.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#define RANDOM_PROGRAM_TEXT(name) #name
#define RANDOM_PROGRAM_NAME(name) RANDOM_PROGRAM_TEXT(name)

namespace random_programs {
namespace {

// Every function here is served in its present form at this version, also by later drivers.
constexpr int kVersion = 12000;

using GetProcAddress = CUresult(CUDAAPI*)(const char*, void**, int, cuuint64_t,
                                          CUdriverProcAddressQueryResult*);

void* look_up(programs::Via via, const std::string& symbol) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  void* function = nullptr;
  if (via == programs::Via::kDlsym) {
    function = dlsym(library, symbol.c_str());
  } else {
    const auto get = reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
    const std::string base = symbol.substr(0, symbol.rfind("_v"));
    get(base.c_str(), &function, kVersion, 0, &status);
  }
  if (function == nullptr) {
    std::fprintf(stderr, "the driver has no %s\n", symbol.c_str());
    std::exit(1);
  }
  return function;
}

}  // namespace

Api open_api(programs::Via via) {
  Api api{};
  static_cast<programs::Driver&>(api) = programs::open_driver(via);
  const bool linked = via == programs::Via::kLinked;
#define RANDOM_PROGRAM_FIND(function) \
  api.function =                      \
      linked                          \
          ? &::function               \
          : reinterpret_cast<decltype(&::function)>(look_up(via, RANDOM_PROGRAM_NAME(function)));
  RANDOM_PROGRAM_FUNCTIONS(RANDOM_PROGRAM_FIND)
#undef RANDOM_PROGRAM_FIND
  return api;
}

}  // namespace random_programs
