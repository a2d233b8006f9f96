// What the software driver reads of images: kernels' needs, variables.
#include <cuda.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "catch.h"
#include "made_up_cubin.h"
#include "test_device.h"

using standin_test::Cubin;
using standin_test::Device;
using standin_test::Sample;

namespace {

int Attribute(CUfunction_attribute attribute, CUfunction function) {
  int value = -1;
  REQUIRE(cuFuncGetAttribute(&value, attribute, function) == CUDA_SUCCESS);
  return value;
}

struct Global {
  CUdeviceptr address = 0;
  std::size_t bytes = 0;
  CUresult result;
};

Global Find(CUmodule module, const char* name) {
  Global global;
  global.result = cuModuleGetGlobal_v2(&global.address, &global.bytes, module, name);
  return global;
}

}  // namespace

TEST_CASE("an image says which kernels there are, and what they take") {
  const Device device;
  CUmodule module = nullptr;
  const std::string image = Sample();
  REQUIRE(cuModuleLoadData(&module, image.data()) == CUDA_SUCCESS);
  CUfunction function = nullptr;
  REQUIRE(cuModuleGetFunction(&function, module, "kernel") == CUDA_SUCCESS);
  CHECK(Attribute(CU_FUNC_ATTRIBUTE_NUM_REGS, function) == 12);
  CHECK(Attribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function) == 256);
  CHECK(Attribute(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, function) == 512);
  CHECK(Attribute(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, function) == 400);
  CHECK(Attribute(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function) == 128);
  CHECK(cuLaunchKernel(function, 1, 1, 1, 128, 1, 1, 0, nullptr, nullptr, nullptr) == CUDA_SUCCESS);
  CHECK(cuLaunchKernel(function, 1, 1, 1, 129, 1, 1, 0, nullptr, nullptr, nullptr) ==
        CUDA_ERROR_INVALID_VALUE);
  int grid = 0;
  int block = 0;
  CHECK(cuOccupancyMaxPotentialBlockSize(&grid, &block, function, nullptr, 0, 0) == CUDA_SUCCESS);
  CHECK(block <= 128);
#if CUDA_VERSION >= 12040
  std::size_t offset = 0;
  std::size_t bytes = 0;
  CHECK(cuFuncGetParamInfo(function, 0, &offset, &bytes) == CUDA_SUCCESS);
  CHECK(offset == 0);
  CHECK(bytes == 8);
  CHECK(cuFuncGetParamInfo(function, 1, &offset, nullptr) == CUDA_SUCCESS);
  CHECK(offset == 8);
  CHECK(cuFuncGetParamInfo(function, 2, &offset, &bytes) == CUDA_ERROR_INVALID_VALUE);
  unsigned count = 0;
  CHECK(cuModuleGetFunctionCount(&count, module) == CUDA_SUCCESS);
  CHECK(count == 1);
  std::array<CUfunction, 2> all{};
  CHECK(cuModuleEnumerateFunctions(all.data(), 2, module) == CUDA_SUCCESS);
  CHECK(all[0] == function);
  CHECK(all[1] == nullptr);
  CUfunctionLoadingState loaded = CU_FUNCTION_LOADING_STATE_UNLOADED;
  CHECK(cuFuncIsLoaded(&loaded, function) == CUDA_SUCCESS);
  CHECK(loaded == CU_FUNCTION_LOADING_STATE_LOADED);
#endif
  CUmodule owner = nullptr;
  CHECK(cuFuncGetModule(&owner, function) == CUDA_SUCCESS);
  CHECK(owner == module);
  CHECK(cuModuleGetFunction(&function, module, "helper") == CUDA_ERROR_NOT_FOUND);
  CHECK(cuModuleGetFunction(&function, module, "another") == CUDA_ERROR_NOT_FOUND);
  CHECK(cuModuleUnload(module) == CUDA_SUCCESS);
}

TEST_CASE(
    "a module's variables are memory of its context, with what the image says, until it goes") {
  const Device device;
  std::size_t before = 0;
  std::size_t loaded = 0;
  std::size_t total = 0;
  REQUIRE(cuMemGetInfo_v2(&before, &total) == CUDA_SUCCESS);
  CUmodule module = nullptr;
  const std::string image = Sample();
  REQUIRE(cuModuleLoadData(&module, image.data()) == CUDA_SUCCESS);
  REQUIRE(cuMemGetInfo_v2(&loaded, &total) == CUDA_SUCCESS);
  CHECK(loaded < before);

  const Global counter = Find(module, "counter");
  REQUIRE(counter.result == CUDA_SUCCESS);
  CHECK(counter.bytes == 4);
  int value = 0;
  REQUIRE(cuMemcpyDtoH_v2(&value, counter.address, 4) == CUDA_SUCCESS);
  CHECK(value == 7);
  const Global zeroes = Find(module, "zeroes");
  REQUIRE(zeroes.bytes == 3000);
  std::string bytes(3000, 'x');
  REQUIRE(cuMemcpyDtoH_v2(bytes.data(), zeroes.address, 3000) == CUDA_SUCCESS);
  CHECK(bytes == std::string(3000, '\0'));
  CHECK(Find(module, "table").bytes == 400);
  CHECK(Find(module, "kernel").result == CUDA_ERROR_INVALID_VALUE);

  value = 8;
  REQUIRE(cuMemcpyHtoD_v2(counter.address, &value, 4) == CUDA_SUCCESS);
  CHECK(Find(module, "counter").address == counter.address);  // it is where it was
  CHECK(cuMemFree_v2(counter.address) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuModuleUnload(module) == CUDA_SUCCESS);
  REQUIRE(cuMemGetInfo_v2(&loaded, &total) == CUDA_SUCCESS);
  CHECK(loaded == before);
  CHECK(cuMemsetD8_v2(counter.address, 0, 4) != CUDA_SUCCESS);
}

TEST_CASE("the logs of a load are written, and how long they are") {
  const Device device;
  std::array<CUjit_option, 4> options{CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_INFO_LOG_BUFFER,
                                      CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_ERROR_LOG_BUFFER};
  std::array<char, 8> info{'x'};
  std::array<char, 8> errors{'x'};
  const auto room = reinterpret_cast<void*>(info.size());
  std::array<void*, 4> values{room, info.data(), room, errors.data()};
  CUmodule module = nullptr;
  REQUIRE(cuModuleLoadDataEx(&module, Sample().data(), 4, options.data(), values.data()) ==
          CUDA_SUCCESS);
  CHECK(values[0] == nullptr);
  CHECK(info[0] == '\0');
  CHECK(values[2] == nullptr);
  CHECK(errors[0] == '\0');
  CHECK(cuModuleUnload(module) == CUDA_SUCCESS);
}

#if CUDA_VERSION >= 12040
TEST_CASE("a kernel's parameters are told where there is a context") {
  const Device device;
  CUlibrary library = nullptr;
  CUkernel kernel = nullptr;
  std::size_t offset = 0;
  const std::string image = Sample();
  REQUIRE(cuLibraryLoadData(&library, image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0) ==
          CUDA_SUCCESS);
  REQUIRE(cuLibraryGetKernel(&kernel, library, "kernel") == CUDA_SUCCESS);
  REQUIRE(cuKernelGetParamInfo(kernel, 0, &offset, nullptr) == CUDA_SUCCESS);
  REQUIRE(cuCtxSetCurrent(nullptr) == CUDA_SUCCESS);
  CHECK(cuKernelGetParamInfo(kernel, 0, &offset, nullptr) == CUDA_ERROR_INVALID_CONTEXT);
  REQUIRE(cuCtxSetCurrent(device.context()) == CUDA_SUCCESS);
  REQUIRE(cuLibraryUnload(library) == CUDA_SUCCESS);
}
#endif

TEST_CASE("a library's variable is another one in each context, and goes with it") {
  const Device device;
  CUlibrary library = nullptr;
  const std::string image = Sample();
  REQUIRE(cuLibraryLoadData(&library, image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0) ==
          CUDA_SUCCESS);
  CUdeviceptr here = 0;
  std::size_t bytes = 0;
  REQUIRE(cuLibraryGetGlobal(&here, &bytes, library, "counter") == CUDA_SUCCESS);
  CUcontext other = nullptr;
  REQUIRE(cuCtxCreate_v2(&other, 0, 0) == CUDA_SUCCESS);
  CUdeviceptr there = 0;
  REQUIRE(cuLibraryGetGlobal(&there, &bytes, library, "counter") == CUDA_SUCCESS);
  CHECK(there != here);
  REQUIRE(cuCtxDestroy_v2(other) == CUDA_SUCCESS);
  CUdeviceptr again = 0;
  REQUIRE(cuLibraryGetGlobal(&again, nullptr, library, "counter") == CUDA_SUCCESS);
  CHECK(again == here);
  CHECK(cuLibraryGetGlobal(nullptr, nullptr, library, "counter") == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuLibraryGetGlobal(&again, nullptr, library, "none") == CUDA_ERROR_NOT_FOUND);
  // What lies where a variable was is not taken for it.
  CUdeviceptr reused = 0;
  REQUIRE(cuMemAlloc_v2(&reused, 4) == CUDA_SUCCESS);
  REQUIRE(cuLibraryUnload(library) == CUDA_SUCCESS);
  CHECK(cuMemsetD8_v2(reused, 0, 4) == CUDA_SUCCESS);
  CHECK(cuMemFree_v2(reused) == CUDA_SUCCESS);
}

TEST_CASE("a module whose variables do not fit is not loaded, and takes nothing") {
  const Device device;
  Cubin cubin;
  const std::size_t zeroed = cubin.Add(".nv.global", SHT_NOBITS, "", std::size_t{1} << 40);
  cubin.AddSymbol("small", STT_OBJECT, 0, zeroed, 0, 4);
  cubin.AddSymbol("vast", STT_OBJECT, 0, zeroed, 512, std::size_t{1} << 40);
  std::size_t before = 0;
  std::size_t after = 0;
  std::size_t total = 0;
  REQUIRE(cuMemGetInfo_v2(&before, &total) == CUDA_SUCCESS);
  CUmodule module = nullptr;
  const std::string image = cubin.Bytes();
  CHECK(cuModuleLoadData(&module, image.data()) == CUDA_ERROR_OUT_OF_MEMORY);
  REQUIRE(cuMemGetInfo_v2(&after, &total) == CUDA_SUCCESS);
  CHECK(after == before);
}

TEST_CASE("an image with wrong names in it is read without harm") {
  const Device device;
  const std::string image = Sample();
  // Each field of the section table in turn names what is not there.
  Elf64_Ehdr header;
  std::memcpy(&header, image.data(), sizeof header);
  for (std::size_t section = 0; section < header.e_shnum; ++section) {
    for (const std::size_t field : {offsetof(Elf64_Shdr, sh_name), offsetof(Elf64_Shdr, sh_link)}) {
      std::string wrong = image;
      const std::uint32_t nonsense = 0x7fffffff;
      std::memcpy(wrong.data() + header.e_shoff + section * sizeof(Elf64_Shdr) + field, &nonsense,
                  sizeof nonsense);
      CUmodule module = nullptr;
      if (cuModuleLoadData(&module, wrong.data()) == CUDA_SUCCESS) {
        CHECK(cuModuleUnload(module) == CUDA_SUCCESS);
      }
    }
  }
  // No section names.
  std::string wrong = image;
  header.e_shstrndx = 9999;
  std::memcpy(wrong.data(), &header, sizeof header);
  CUmodule module = nullptr;
  REQUIRE(cuModuleLoadData(&module, wrong.data()) == CUDA_SUCCESS);
  CHECK(cuModuleUnload(module) == CUDA_SUCCESS);
}

namespace {

// A fat binary with entries of these kinds (1: PTX, 2: a cubin) for these capabilities.
std::string FatBinary(const std::vector<std::pair<std::uint16_t, std::uint32_t>>& entries) {
  const auto add = [](std::string& to, const auto& value) {
    to.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  constexpr std::uint32_t kCode = 32;
  std::string all;
  for (const auto& [kind, capability] : entries) {
    std::string header;
    add(header, kind);
    add(header, std::uint16_t{0x101});
    add(header, std::uint32_t{64});
    add(header, std::uint64_t{kCode});
    header.append(12, 0);
    add(header, capability);
    header.resize(64 + kCode);
    all += header;
  }
  std::string out;
  add(out, std::uint32_t{0xba55ed50});
  add(out, std::uint16_t{1});
  add(out, std::uint16_t{16});
  add(out, static_cast<std::uint64_t>(all.size()));
  return out + all;
}

}  // namespace

TEST_CASE("of a fat binary a device takes the code for the nearest capability up to its own") {
  const Device device;  // of capability 9.0
  const auto chosen = [](const std::string& image) {
    CUmodule module = nullptr;
    CUfunction function = nullptr;
    REQUIRE(cuModuleLoadData(&module, image.data()) == CUDA_SUCCESS);
    REQUIRE(cuModuleGetFunction(&function, module, "any") == CUDA_SUCCESS);
    const std::pair found(Attribute(CU_FUNC_ATTRIBUTE_PTX_VERSION, function),
                          Attribute(CU_FUNC_ATTRIBUTE_BINARY_VERSION, function));
    REQUIRE(cuModuleUnload(module) == CUDA_SUCCESS);
    return found;
  };
  CHECK(chosen(FatBinary({{2, 75}, {2, 90}, {2, 100}, {1, 100}})) == std::pair(90, 90));
  CHECK(chosen(FatBinary({{2, 80}, {1, 75}, {1, 80}})) == std::pair(80, 90));  // PTX is compiled
  // Of what has nothing for the device it is not told.
  CHECK(chosen(FatBinary({{2, 80}, {2, 100}})) == std::pair(90, 90));
  CHECK(chosen(FatBinary({})) == std::pair(90, 90));
  std::string cut = FatBinary({{2, 75}, {1, 80}});  // its first entry goes beyond the end
  cut[16 + 8] = 127;
  cut[16 + 9] = 127;
  CHECK(chosen(cut) == std::pair(90, 90));
}
