// How the programs of this folder reach the driver, and how they print what it answers.
#include "driver.h"

#include <dlfcn.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define PROGRAM_TEXT(name) #name
#define PROGRAM_NAME(name) PROGRAM_TEXT(name)

namespace programs {
namespace {

using GetProcAddress = CUresult(CUDAAPI*)(const char*, void**, int, cuuint64_t,
                                          CUdriverProcAddressQueryResult*);

// Every function here is served in its present form at this version, also by later drivers.
constexpr int kVersion = 12000;
// The version at which cuCtxCreate meant cuCtxCreate_v2.
constexpr int kCtxCreateVersion = 3020;

void* library() {
  void* handle = dlopen("libcuda.so.1", RTLD_NOW);
  if (handle == nullptr) {
    std::fprintf(stderr, "no CUDA driver: %s\n", dlerror());
    std::exit(77);
  }
  return handle;
}

void* found(const char* name, void* function) {
  if (function == nullptr) {
    std::fprintf(stderr, "the driver has no %s\n", name);
    std::exit(1);
  }
  return function;
}

// cuMemAlloc_v2 -> cuMemAlloc: cuGetProcAddress is asked for base names.
std::string base_name(std::string_view symbol) {
  const std::size_t suffix = symbol.rfind("_v");
  return std::string(symbol.substr(0, suffix));
}

class Resolver {
 public:
  explicit Resolver(bool by_proc_address) : library_(library()) {
    if (by_proc_address) {
      get_ = reinterpret_cast<GetProcAddress>(symbol("cuGetProcAddress_v2"));
    }
  }

  void* operator()(const char* name, int version) const {
    if (get_ == nullptr) {
      return symbol(name);
    }
    void* function = nullptr;
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
    const CUresult result = get_(base_name(name).c_str(), &function, version, 0, &status);
    return found(name, result == CUDA_SUCCESS ? function : nullptr);
  }

 private:
  void* symbol(const char* name) const { return found(name, dlsym(library_, name)); }

  void* library_;
  GetProcAddress get_ = nullptr;
};

}  // namespace

Via take_via(int& argc, char** argv) {
  constexpr std::string_view kOption = "--via=";
  Via via = Via::kLinked;
  int kept = 0;
  for (int i = 0; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (!argument.starts_with(kOption)) {
      argv[kept++] = argv[i];
      continue;
    }
    const std::string_view word = argument.substr(kOption.size());
    if (word == "linked") {
      via = Via::kLinked;
    } else if (word == "dlsym") {
      via = Via::kDlsym;
    } else if (word == "getproc") {
      via = Via::kGetProcAddress;
    } else {
      std::fprintf(stderr, "%s: linked, dlsym or getproc is wanted\n", argv[i]);
      std::exit(2);
    }
  }
  argc = kept;
  return via;
}

Driver open_driver(Via via) {
  Driver driver;
  if (via == Via::kLinked) {
#define PROGRAM_TAKE(function) driver.function = &::function;
    PROGRAM_DRIVER_FUNCTIONS(PROGRAM_TAKE)
#undef PROGRAM_TAKE
    driver.create_context = &::cuCtxCreate_v2;
    return driver;
  }
  const Resolver resolve(via == Via::kGetProcAddress);
#define PROGRAM_FIND(function) \
  driver.function =            \
      reinterpret_cast<decltype(&::function)>(resolve(PROGRAM_NAME(function), kVersion));
  PROGRAM_DRIVER_FUNCTIONS(PROGRAM_FIND)
#undef PROGRAM_FIND
  driver.create_context =
      reinterpret_cast<decltype(&::cuCtxCreate_v2)>(resolve("cuCtxCreate_v2", kCtxCreateVersion));
  return driver;
}

std::string name_of(const Driver& driver, CUresult result) {
  const char* name = nullptr;
  if (driver.cuGetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr) {
    return "error " + std::to_string(static_cast<int>(result));
  }
  return name;
}

void print_result(const Driver& driver, std::string_view what, CUresult result) {
  std::printf("%.*s: %s\n", static_cast<int>(what.size()), what.data(),
              name_of(driver, result).c_str());
}

void print_truth(std::string_view what, bool truth) {
  std::printf("%.*s: %s\n", static_cast<int>(what.size()), what.data(), truth ? "yes" : "no");
}

void must(const Driver& driver, std::string_view what, CUresult result) {
  if (result != CUDA_SUCCESS) {
    std::fflush(stdout);
    std::fprintf(stderr, "%.*s: %s\n", static_cast<int>(what.size()), what.data(),
                 name_of(driver, result).c_str());
    std::exit(1);
  }
}

CUcontext use_device(const Driver& driver, int ordinal) {
  must(driver, "cuInit", driver.cuInit(0));
  CUdevice device = 0;
  must(driver, "cuDeviceGet", driver.cuDeviceGet(&device, ordinal));
  CUcontext context = nullptr;
  must(driver, "cuDevicePrimaryCtxRetain", driver.cuDevicePrimaryCtxRetain(&context, device));
  must(driver, "cuCtxSetCurrent", driver.cuCtxSetCurrent(context));
  return context;
}

std::uint64_t number_argument(std::string_view option, const char* text) {
  std::uint64_t value = 0;
  const char* const end = text == nullptr ? nullptr : text + std::strlen(text);
  if (text == nullptr || *text == '\0' || std::from_chars(text, end, value).ptr != end) {
    std::fprintf(stderr, "%.*s wants a whole number\n", static_cast<int>(option.size()),
                 option.data());
    std::exit(2);
  }
  return value;
}

}  // namespace programs
