// What the software driver reads of images: kernels' needs, variables. The image is made here, byte
// by byte as NVIDIA's compilers lay them out, so that no compiler is needed.
#include <cuda.h>
#include <elf.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "catch.h"
#include "test_device.h"

using standin_test::Device;

namespace {

// An ELF file of machine 190 with a section table, added to in order.
class Cubin {
 public:
  Cubin() {
    Add("", SHT_NULL, "");
    names_ = Add(".shstrtab", SHT_STRTAB, "");
    strings_ = Add(".strtab", SHT_STRTAB, std::string(1, '\0'));
    symbols_ = Add(".symtab", SHT_SYMTAB, std::string(sizeof(Elf64_Sym), '\0'));
    sections_[symbols_].header.sh_link = static_cast<Elf64_Word>(strings_);
  }

  std::size_t Add(const std::string& name, Elf64_Word type, const std::string& bytes,
                  std::size_t size = 0) {
    Section section{.header = {}, .bytes = bytes};
    section.header.sh_name = static_cast<Elf64_Word>(name_bytes_.size());
    section.header.sh_type = type;
    section.header.sh_size = size != 0 ? size : bytes.size();
    name_bytes_ += name + '\0';
    sections_.push_back(section);
    return sections_.size() - 1;
  }

  // The number of the symbol.
  std::uint32_t AddSymbol(const std::string& name, unsigned char type, unsigned char other,
                          std::size_t section, std::uint64_t offset, std::uint64_t bytes) {
    Elf64_Sym symbol{};
    symbol.st_name = static_cast<Elf64_Word>(sections_[strings_].bytes.size());
    symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, type);
    symbol.st_other = other;
    symbol.st_shndx = static_cast<Elf64_Section>(section);
    symbol.st_value = offset;
    symbol.st_size = bytes;
    sections_[strings_].bytes += name + '\0';
    std::string& table = sections_[symbols_].bytes;
    table.append(reinterpret_cast<const char*>(&symbol), sizeof symbol);
    return static_cast<std::uint32_t>(table.size() / sizeof symbol - 1);
  }

  std::string Bytes() {
    sections_[names_].bytes = name_bytes_;
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_machine = 190;
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shnum = static_cast<Elf64_Half>(sections_.size());
    header.e_shstrndx = static_cast<Elf64_Half>(names_);
    std::string contents;
    for (Section& section : sections_) {
      section.header.sh_offset = sizeof header + contents.size();
      if (section.header.sh_type != SHT_NOBITS) section.header.sh_size = section.bytes.size();
      contents += section.bytes;
    }
    header.e_shoff = sizeof header + contents.size();
    std::string file(reinterpret_cast<const char*>(&header), sizeof header);
    file += contents;
    for (const Section& section : sections_) {
      file.append(reinterpret_cast<const char*>(&section.header), sizeof section.header);
    }
    return file;
  }

 private:
  struct Section {
    Elf64_Shdr header;
    std::string bytes;
  };
  std::vector<Section> sections_;
  std::string name_bytes_;
  std::size_t names_ = 0;
  std::size_t strings_ = 0;
  std::size_t symbols_ = 0;
};

constexpr std::uint8_t kMostThreads = 0x05;
constexpr std::uint8_t kFrameSize = 0x11;
constexpr std::uint8_t kParameter = 0x17;
constexpr std::uint8_t kRegisterCount = 0x2f;

std::string Info(std::uint8_t attribute, const std::vector<std::uint32_t>& words) {
  const std::size_t bytes = words.size() * sizeof(std::uint32_t);
  std::string entry{'\x04', static_cast<char>(attribute), static_cast<char>(bytes), '\0'};
  entry.append(reinterpret_cast<const char*>(words.data()), bytes);
  return entry;
}

// __device__ int counter = 7; __device__ char zeroes[3000]; __constant__ char table[400];
// __launch_bounds__(128) __global__ void kernel(int*, short): 12 registers, 256 bytes of shared
// memory, 512 of local memory.
std::string Sample() {
  Cubin cubin;
  const std::size_t text = cubin.Add(".text.kernel", SHT_PROGBITS, std::string(128, '\x90'));
  const std::size_t initial =
      cubin.Add(".nv.global.init", SHT_PROGBITS, {'\x07', '\0', '\0', '\0'});
  const std::size_t zeroed = cubin.Add(".nv.global", SHT_NOBITS, "", 3000);
  const std::size_t constant = cubin.Add(".nv.constant3", SHT_PROGBITS, std::string(400, 'c'));
  cubin.Add(".nv.shared.kernel", SHT_NOBITS, "", 1024 + 256);
  const std::uint32_t kernel = cubin.AddSymbol("kernel", STT_FUNC, 0x10, text, 0, 128);
  cubin.AddSymbol("helper", STT_FUNC, 0, text, 64, 64);
  cubin.AddSymbol(".nv.reservedSmem.offset0", STT_OBJECT, 0, SHN_UNDEF, 0, 4);
  cubin.AddSymbol("counter", STT_OBJECT, 0, initial, 0, 4);
  cubin.AddSymbol("zeroes", STT_OBJECT, 0, zeroed, 0, 3000);
  cubin.AddSymbol("table", STT_OBJECT, 0, constant, 0, 400);
  const std::string skipped{'\x03', '\x19', '\x08', '\0'};
  cubin.Add(".nv.info", 0x70000000,
            Info(kFrameSize, {kernel, 512}) + skipped + Info(kRegisterCount, {kernel, 12}));
  cubin.Add(".nv.info.kernel", 0x70000000,
            Info(kParameter, {0, 1U | 8U << 16U, 2U << 18U}) + skipped +
                Info(kParameter, {0, 0, 8U << 18U}) + Info(kMostThreads, {64, 2, 1}));
  return cubin.Bytes();
}

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
  CHECK(Find(module, "kernel").result == CUDA_ERROR_NOT_FOUND);

  value = 8;
  REQUIRE(cuMemcpyHtoD_v2(counter.address, &value, 4) == CUDA_SUCCESS);
  CHECK(Find(module, "counter").address == counter.address);  // it is where it was
  CHECK(cuMemFree_v2(counter.address) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuModuleUnload(module) == CUDA_SUCCESS);
  REQUIRE(cuMemGetInfo_v2(&loaded, &total) == CUDA_SUCCESS);
  CHECK(loaded == before);
  CHECK(cuMemsetD8_v2(counter.address, 0, 4) != CUDA_SUCCESS);
}

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
