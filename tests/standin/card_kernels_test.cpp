// What a card answers about modules, kernels and their attributes, launches and textures.
#include <cuda.h>

#include <string>

#include "card_test.h"
#include "made_up_cubin.h"
#include "reported_test.h"

using namespace standin_test;

namespace {

constexpr int kStatic = 256;  // bytes of shared memory that Sample's kernel has of its own
constexpr int kWithoutOptIn = 49152 - kStatic;

CUmodule Load(const std::string& image = Sample()) {
  CUmodule module = nullptr;
  Must(cuModuleLoadData(&module, image.data()));
  return module;
}

CUlibrary LoadLibrary(const std::string& image = Sample()) {
  CUlibrary library = nullptr;
  Must(cuLibraryLoadData(&library, image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  return library;
}

CUfunction FunctionIn(CUmodule module) {
  CUfunction function = nullptr;
  Must(cuModuleGetFunction(&function, module, "kernel"));
  return function;
}

CUkernel KernelIn(CUlibrary library) {
  CUkernel kernel = nullptr;
  Must(cuLibraryGetKernel(&kernel, library, "kernel"));
  return kernel;
}

int ValueOf(CUfunction function, int attribute) {
  int value = 99;
  CHECK(cuFuncGetAttribute(&value, Numbered<CUfunction_attribute>(attribute), function) ==
        CUDA_SUCCESS);
  return value;
}

int ValueOn(CUkernel kernel, int attribute, CUdevice device) {
  int value = 99;
  CHECK(cuKernelGetAttribute(&value, Numbered<CUfunction_attribute>(attribute), kernel, device) ==
        CUDA_SUCCESS);
  return value;
}

int MostShared() {
  int most = 0;
  Must(cuDeviceGetAttribute(&most, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0));
  return most - kStatic;
}

constexpr auto kDynamic = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
constexpr auto kCarveout = CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;

}  // namespace

TEST_CASE("a card's answers: nothing where a module or a function must be named") {
  const Device device;
  unsigned count = 0;
  int value = 0;
  std::size_t offset = 0;
  CUfunction function = nullptr;
  CUmodule module = nullptr;
  (void)count, (void)offset, (void)function;
  CheckAnswers({
#if CUDA_VERSION >= 12040
    {"count", kValue, [&] { return cuModuleGetFunctionCount(&count, nullptr); }},
        {"enumerate", kValue, [&] { return cuModuleEnumerateFunctions(&function, 1, nullptr); }},
        {"a function's parameter", kValue,
         [&] { return cuFuncGetParamInfo(nullptr, 0, &offset, nullptr); }},
        {"a kernel's parameter", kValue,
         [&] { return cuKernelGetParamInfo(nullptr, 0, &offset, nullptr); }},
#endif
        {"the module", kValue, [&] { return cuFuncGetModule(&module, nullptr); }},
        {"an attribute", kValue, [&] { return cuFuncGetAttribute(&value, kDynamic, nullptr); }},
        {"to set one", kHandle, [&] { return cuFuncSetAttribute(nullptr, kDynamic, 1); }},
  });
}

TEST_CASE("a card's answers: variables, managed ones, and what is none") {
  const Device device;
  Cubin cubin;
  const std::size_t text = cubin.Add(".text.kernel", SHT_PROGBITS, std::string(128, '\x90'));
  const std::size_t zeroed = cubin.Add(".nv.global", SHT_NOBITS, "", 64);
  cubin.AddSymbol("kernel", STT_FUNC, 0x10, text, 0, 128);
  cubin.AddSymbol("plain", STT_OBJECT, 0, zeroed, 0, 32);
  cubin.AddSymbol("managed", STT_OBJECT, 0x04, zeroed, 32, 4);
  const std::string image = cubin.Bytes();
  const CUlibrary library = LoadLibrary(image);
  const CUmodule module = Load(image);
  CUdeviceptr address = 0;
  std::size_t bytes = 0;
  void* function = nullptr;
  const auto global = [&](const char* name) {
    return cuLibraryGetGlobal(&address, &bytes, library, name);
  };
  const auto managed = [&](const char* name) {
    return cuLibraryGetManaged(&address, &bytes, library, name);
  };
  CheckAnswers({
      {"a variable", kFine, [&] { return global("plain"); }},
      {"a kernel", kValue, [&] { return global("kernel"); }},
      {"a kernel of a module", kValue,
       [&] { return cuModuleGetGlobal_v2(&address, &bytes, module, "kernel"); }},
      {"missing", CUDA_ERROR_NOT_FOUND, [&] { return global("missing"); }},
      {"a plain one as managed", CUDA_ERROR_NOT_FOUND, [&] { return managed("plain"); }},
      {"missing as managed", CUDA_ERROR_NOT_FOUND, [&] { return managed("missing"); }},
      {"managed", kFine, [&] { return managed("managed"); }},
      {"a unified function", kValue,
       [&] { return cuLibraryGetUnifiedFunction(&function, library, "kernel"); }},
      {"a unified function of nothing", kHandle,
       [&] { return cuLibraryGetUnifiedFunction(&function, nullptr, "kernel"); }},
  });
  CHECK(bytes == 4);
  CHECK(address != 0);
}

TEST_CASE("a card's answers: what a function's attributes are at first") {
  const Device device;
  const CUfunction function = FunctionIn(Load());
  int major = 0;
  int minor = 0;
  Must(cuDeviceComputeCapability(&major, &minor, 0));
  CHECK(ValueOf(function, CU_FUNC_ATTRIBUTE_BINARY_VERSION) == 10 * major + minor);
  CHECK(ValueOf(function, CU_FUNC_ATTRIBUTE_PTX_VERSION) == 10 * major + minor);
  CHECK(ValueOf(function, kDynamic) == kWithoutOptIn);
  CHECK(ValueOf(function, kCarveout) == -1);
  for (const int unknown : {16, -1, 99}) {
    int value = -5;
    CHECK(cuFuncGetAttribute(&value, Numbered<CUfunction_attribute>(unknown), function) ==
          CUDA_ERROR_INVALID_VALUE);
    CHECK(value == -5);
  }
}

TEST_CASE("a card's answers: which attributes of a function can be set, and to what") {
  const Device device;
  const int most = MostShared();
  const struct {
    int attribute, value;
    CUresult result;
    int then;
  } rows[] = {
      {kDynamic, 1, kFine, 1},
      {kDynamic, -1, kValue, kWithoutOptIn},
      {kDynamic, 49152, kFine, 49152},
      {kDynamic, most, kFine, most},
      {kDynamic, most + 1, kValue, kWithoutOptIn},
      {kCarveout, -1, kFine, -1},
      {kCarveout, -2, kValue, -1},
      {kCarveout, 100, kFine, 100},
      {kCarveout, 101, kValue, -1},
      {10, 1, kValue, 0},
      {11, 3, kFine, 3},
      {12, -1, kValue, 0},
      {13, 5, kFine, 5},
      {14, 7, kFine, 1},
      {14, -1, kFine, 1},
      {15, 2, kFine, 2},
      {15, 3, kValue, 0},
      {CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1, kValue, 128},
      {CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, 1, kValue, kStatic},
      {CU_FUNC_ATTRIBUTE_CACHE_MODE_CA, 1, kValue, 0},
  };
  for (const auto& row : rows) {
    INFO(row.attribute << ", " << row.value);
    const CUfunction function = FunctionIn(Load());
    CHECK(cuFuncSetAttribute(function, Numbered<CUfunction_attribute>(row.attribute), row.value) ==
          row.result);
    CHECK(ValueOf(function, row.attribute) == row.then);
  }
}

TEST_CASE("a card's answers: attributes are set of one function, on one device") {
  const Device second(1);
  const Device device;
  const CUfunction function = FunctionIn(Load());
  const CUfunction other = FunctionIn(Load());
  Must(cuFuncSetAttribute(function, kDynamic, 60000));
  CHECK(ValueOf(function, kDynamic) == 60000);
  CHECK(ValueOf(other, kDynamic) == kWithoutOptIn);
  const CUkernel kernel = KernelIn(LoadLibrary());
  CUfunction its = nullptr;
  Must(cuKernelGetFunction(&its, kernel));
  Must(cuKernelSetAttribute(kDynamic, 70000, kernel, 0));
  CHECK(ValueOf(its, kDynamic) == 70000);
  CHECK(ValueOn(kernel, kDynamic, 0) == 70000);
  CHECK(ValueOn(kernel, kDynamic, 1) == kWithoutOptIn);
  int value = 0;
  const auto as_function = reinterpret_cast<CUfunction>(kernel);
  CheckAnswers({
      {"a kernel is no function", kHandle,
       [&] { return cuFuncGetAttribute(&value, kDynamic, as_function); }},
      {"of which nothing is set", kHandle,
       [&] { return cuFuncSetAttribute(as_function, kDynamic, 1); }},
      {"a kernel on no device", kDevice,
       [&] { return cuKernelGetAttribute(&value, kDynamic, kernel, 5); }},
      {"to set it there", kDevice, [&] { return cuKernelSetAttribute(kDynamic, 1, kernel, 5); }},
      {"its cache there", kDevice,
       [&] { return cuKernelSetCacheConfig(kernel, CU_FUNC_CACHE_PREFER_L1, -1); }},
      {"an unknown cache", kValue,
       [&] { return cuKernelSetCacheConfig(kernel, Numbered<CUfunc_cache>(9), 0); }},
  });
}

TEST_CASE("a card's answers: a launch with more shared memory than the function may have") {
  const Device device;
  const CUfunction function = FunctionIn(Load());
  CUdeviceptr address = device.Allocate(64);
  short number = 3;
  void* arguments[] = {&address, &number};
  const auto launch = [&](int shared) {
    return cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, static_cast<unsigned>(shared), nullptr,
                          arguments, nullptr);
  };
  const auto blocks = [&](int shared) {
    int out = -1;
    CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(
              &out, function, 128, static_cast<std::size_t>(shared)) == CUDA_SUCCESS);
    return out;
  };
  CHECK(launch(kWithoutOptIn) == CUDA_SUCCESS);
  CHECK(launch(kWithoutOptIn + 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(blocks(kWithoutOptIn) > 0);
  CHECK(blocks(kWithoutOptIn + 1) == 0);
  Must(cuFuncSetAttribute(function, kDynamic, 60000));
  CHECK(launch(60000) == CUDA_SUCCESS);
  CHECK(launch(60001) == CUDA_ERROR_INVALID_VALUE);
  CHECK(blocks(60000) > 0);
  CHECK(blocks(60001) == 0);
  Must(cuFuncSetAttribute(function, kDynamic, 100));
  CHECK(launch(101) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("a card's answers: modes of textures, banks of shared memory") {
  const Device device;
  CUtexref reference = nullptr;
  CUsharedconfig banks{};
  Must(cuTexRefCreate(&reference));
  CheckAnswers({
      {"mode 7 between levels", kValue,
       [&] { return cuTexRefSetMipmapFilterMode(reference, Numbered<CUfilter_mode>(7)); }},
      {"linear between levels", kFine,
       [&] { return cuTexRefSetMipmapFilterMode(reference, CU_TR_FILTER_MODE_LINEAR); }},
      {"eight bytes", kFine,
       [] { return cuCtxSetSharedMemConfig(CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE); }},
      {"ask", kFine, [&] { return cuCtxGetSharedMemConfig(&banks); }},
      {"config 3", kValue, [] { return cuCtxSetSharedMemConfig(Numbered<CUsharedconfig>(3)); }},
  });
  CHECK(banks == CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE);
}
