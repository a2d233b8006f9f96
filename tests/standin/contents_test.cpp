// What device memory holds where STANDIN_DATA is none. A program of its own, for the setting is
// read once.
#include <cuda.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "catch.h"
#include "made_up_cubin.h"
#include "standin.h"

namespace {

constexpr std::size_t kKiB = 1 << 10;
constexpr std::size_t kMiB = 1 << 20;
constexpr std::size_t kGiB = 1 << 30;

// A context of a device of 16 GiB for the length of a test.
class Device {
 public:
  Device() {
    static const bool started = [] {
      return standin_configure("STANDIN_DATA", "none") == 1 &&
             standin_configure("STANDIN_MEMORY", "16GiB") == 1 && cuInit(0) == CUDA_SUCCESS;
    }();
    REQUIRE(started);
    REQUIRE(cuDevicePrimaryCtxRetain(&context_, 0) == CUDA_SUCCESS);
    REQUIRE(cuCtxSetCurrent(context_) == CUDA_SUCCESS);
  }
  ~Device() {
    cuDevicePrimaryCtxReset_v2(0);
    cuDevicePrimaryCtxRelease_v2(0);
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Freed with the context.
  CUdeviceptr allocate(std::size_t bytes) const {
    CUdeviceptr address = 0;
    REQUIRE(cuMemAlloc(&address, bytes) == CUDA_SUCCESS);
    return address;
  }

 private:
  CUcontext context_ = nullptr;
};

void write(CUdeviceptr to, std::uint32_t value) {
  REQUIRE(cuMemcpyHtoD(to, &value, sizeof(value)) == CUDA_SUCCESS);
}

std::uint32_t read(CUdeviceptr from) {
  std::uint32_t value = 1234567;
  REQUIRE(cuMemcpyDtoH(&value, from, sizeof(value)) == CUDA_SUCCESS);
  return value;
}

// Of the device's memory, what takes memory of the host's.
std::size_t host_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssShmem:")) return std::stoul(line.substr(9)) * kKiB;
  }
  FAIL("no RssShmem");
  return 0;
}

// `name`: mangled, or of the image.
CUfunction kernel(const char* name, const char* image = "an image that nobody can read") {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  REQUIRE(cuModuleLoadData(&module, image) == CUDA_SUCCESS);
  REQUIRE(cuModuleGetFunction(&function, module, name) == CUDA_SUCCESS);
  return function;
}

void launch(CUfunction function, void** arguments, void** packed = nullptr,
            CUstream stream = nullptr) {
  REQUIRE(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, packed) == CUDA_SUCCESS);
}

}  // namespace

TEST_CASE("large sets and copies take no memory of the host's") {
  const Device device;
  const CUdeviceptr one = device.allocate(6 * kGiB);
  const CUdeviceptr other = device.allocate(6 * kGiB);
  const std::size_t before = host_bytes();
  REQUIRE(cuMemsetD8(one, 7, 6 * kGiB) == CUDA_SUCCESS);
  REQUIRE(cuMemsetD2D32(one, 2 * kMiB, 7, 1000, 2000) == CUDA_SUCCESS);
  REQUIRE(cuMemcpyDtoD(other, one, 6 * kGiB) == CUDA_SUCCESS);
  const std::vector<char> host(16 * kMiB, 'x');
  REQUIRE(cuMemcpyHtoDAsync(other, host.data(), host.size(), nullptr) == CUDA_SUCCESS);
  std::vector<char> back(16 * kMiB, 'x');
  REQUIRE(cuMemcpyDtoH(back.data(), other, back.size()) == CUDA_SUCCESS);
  CHECK(back == std::vector<char>(back.size()));
  CHECK(read(one + kGiB) == 0);
  CHECK(host_bytes() <= before + kMiB);
}

TEST_CASE("what is written in small pieces is read again, in small ones and in large") {
  const Device device;
  const CUdeviceptr block = device.allocate(64 * kMiB);
  std::vector<std::uint32_t> piece(16 * kKiB);
  for (std::size_t i = 0; i < piece.size(); ++i) piece[i] = static_cast<std::uint32_t>(i + 1);
  REQUIRE(cuMemcpyHtoD(block + 100, piece.data(), 64 * kKiB) == CUDA_SUCCESS);
  REQUIRE(cuMemcpyDtoD(block + 32 * kMiB, block + 100, 64 * kKiB) == CUDA_SUCCESS);
  REQUIRE(cuMemsetD32(block + 48 * kMiB, 9, 16 * kKiB) == CUDA_SUCCESS);
  CHECK(read(block + 104) == 2);
  CHECK(read(block + 48 * kMiB + 8) == 9);
  std::vector<std::uint32_t> all(16 * kMiB);
  REQUIRE(cuMemcpyDtoH(all.data(), block, 64 * kMiB) == CUDA_SUCCESS);
  std::vector<std::uint32_t> expected(all.size());
  std::copy(piece.begin(), piece.end(), expected.begin() + 25);
  std::copy(piece.begin(), piece.end(), expected.begin() + 8 * kMiB);
  std::fill_n(expected.begin() + 12 * kMiB, 16 * kKiB, 9);
  CHECK((all == expected));
}

TEST_CASE("what is written in a large piece takes what was there before, to the byte") {
  const Device device;
  const CUdeviceptr block = device.allocate(kMiB);
  const std::size_t large = 64 * kKiB + 1;
  for (const std::size_t start : {std::size_t{0}, std::size_t{4}, 4 * kKiB, 4 * kKiB + 12}) {
    REQUIRE(cuMemsetD8(block, 5, 64 * kKiB) == CUDA_SUCCESS);
    REQUIRE(cuMemsetD8(block + 64 * kKiB, 5, 64 * kKiB) == CUDA_SUCCESS);
    REQUIRE(cuMemsetD8(block + start, 6, large) == CUDA_SUCCESS);
    std::vector<unsigned char> all(128 * kKiB);
    REQUIRE(cuMemcpyDtoH(all.data(), block, all.size()) == CUDA_SUCCESS);
    std::vector<unsigned char> expected(all.size(), 5);
    std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(start), large, 0);
    CHECK((all == expected));
  }
}

TEST_CASE("a kernel that computes nothing leaves zeros in the blocks that it gets") {
  const Device device;
  const CUdeviceptr had = device.allocate(3 * kMiB);
  const CUdeviceptr other = device.allocate(3 * kMiB);
  const auto write_both = [&] {
    write(had, 11);
    write(had + 2 * kMiB, 12);
    write(other, 13);
  };
  const auto check = [&](bool emptied) {
    CHECK(read(had) == (emptied ? 0 : 11));
    CHECK(read(had + 2 * kMiB) == (emptied ? 0 : 12));
    CHECK(read(other) == 13);
  };
  // As the arguments of a caller lie on its stack, and behind them what else is there.
  struct {
    int count = 5;
    struct {
      int scale = 2;
      CUdeviceptr to;
    } operation;
    CUdeviceptr behind;
  } stack;
  stack.operation.to = had + kMiB + 8;
  stack.behind = other;
  SECTION("by the number of arguments that its name tells") {
    write_both();
    void* arguments[] = {&stack.count, &stack.operation, &stack.behind};
    // work(int, Operation<float, 4>, long)
    launch(kernel("_Z4worki9OperationIfLi4EEl"), arguments);
    CHECK(read(had) == 0);
    CHECK(read(other) == 0);
    write_both();
    launch(kernel("_Z4worki"), arguments);  // work(int)
    check(false);
    launch(kernel("_Z4workv"), arguments);  // work()
    check(false);
    launch(kernel("no_mangled_name"), arguments);
    check(false);
  }
  SECTION("packed") {
    write_both();
    std::array<CUdeviceptr, 2> buffer{1, had};
    std::size_t bytes = sizeof(buffer);
    void* packed[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer.data(), CU_LAUNCH_PARAM_BUFFER_SIZE,
                      &bytes, CU_LAUNCH_PARAM_END};
    launch(kernel("no_mangled_name"), nullptr, packed);
    check(true);
  }
  SECTION("as its image says") {
    write_both();
    const std::string image = standin_test::Sample();
    short last = 3;
    void* arguments[] = {&stack.operation.to, &last};
    launch(kernel("kernel", image.c_str()), arguments);
    check(true);
  }
  SECTION("in a graph") {
    CUstream stream = nullptr;
    CUgraph graph = nullptr;
    CUgraphExec executable = nullptr;
    REQUIRE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    REQUIRE(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
    void* arguments[] = {&stack.operation.to};
    launch(kernel("_Z4workPf"), arguments, nullptr, stream);
    REQUIRE(cuMemsetD8Async(had, 1, 3 * kMiB, stream) == CUDA_SUCCESS);
    REQUIRE(cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS);
    REQUIRE(cuGraphInstantiateWithFlags(&executable, graph, 0) == CUDA_SUCCESS);
    write_both();
    check(false);
    REQUIRE(cuGraphLaunch(executable, stream) == CUDA_SUCCESS);
    REQUIRE(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    check(true);
  }
}

TEST_CASE("where arguments lie at the end of what is mapped, what is there is read") {
  const Device device;
  const CUdeviceptr block = device.allocate(kMiB);
  write(block, 1);
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  auto* const mapped = static_cast<char*>(
      mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  REQUIRE(mapped != MAP_FAILED);
  REQUIRE(munmap(mapped + page, page) == 0);
  auto* const argument = reinterpret_cast<CUdeviceptr*>(mapped + page) - 1;
  *argument = block;
  void* arguments[] = {argument};
  launch(kernel("_Z4workPf"), arguments);
  CHECK(read(block) == 0);
  REQUIRE(munmap(mapped, page) == 0);
}

TEST_CASE("mapped memory is emptied mapping by mapping") {
  const Device device;
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, {0}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUdeviceptr range = 0;
  REQUIRE(cuMemAddressReserve(&range, 8 * kMiB, 0, 0, 0) == CUDA_SUCCESS);
  for (const std::size_t at : {std::size_t{0}, 4 * kMiB}) {
    CUmemGenericAllocationHandle memory = 0;
    REQUIRE(cuMemCreate(&memory, 4 * kMiB, &properties, 0) == CUDA_SUCCESS);
    REQUIRE(cuMemMap(range + at, 4 * kMiB, 0, memory, 0) == CUDA_SUCCESS);
    REQUIRE(cuMemRelease(memory) == CUDA_SUCCESS);
  }
  REQUIRE(cuMemSetAccess(range, 8 * kMiB, &access, 1) == CUDA_SUCCESS);
  write(range, 1);
  write(range + 4 * kMiB, 2);
  CUdeviceptr second = range + 5 * kMiB;
  void* arguments[] = {&second};
  launch(kernel("_Z4workPf"), arguments);
  CHECK(read(range) == 1);
  CHECK(read(range + 4 * kMiB) == 0);
  REQUIRE(cuMemUnmap(range, 8 * kMiB) == CUDA_SUCCESS);
  REQUIRE(cuMemAddressFree(range, 8 * kMiB) == CUDA_SUCCESS);
}

TEST_CASE("what is freed holds zeros for who gets it next") {
  const Device device;
  const CUdeviceptr first = device.allocate(3 * kKiB);
  write(first, 1);
  write(first + 2 * kKiB, 2);
  REQUIRE(cuMemFree(first) == CUDA_SUCCESS);
  const CUdeviceptr next = device.allocate(3 * kKiB);
  REQUIRE(next == first);
  CHECK(read(next) == 0);
  CHECK(read(next + 2 * kKiB) == 0);
}

TEST_CASE("the host's memory, and managed memory, hold what is written") {
  const Device device;
  const CUdeviceptr block = device.allocate(kMiB);
  void* pinned = nullptr;
  void* other = nullptr;
  CUdeviceptr managed = 0;
  REQUIRE(cuMemAllocHost(&pinned, kMiB) == CUDA_SUCCESS);
  REQUIRE(cuMemAllocHost(&other, kMiB) == CUDA_SUCCESS);
  REQUIRE(cuMemAllocManaged(&managed, kMiB, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS);
  std::memset(pinned, 7, kMiB);
  const auto pointer = [](void* host) { return reinterpret_cast<CUdeviceptr>(host); };
  REQUIRE(cuMemcpy(pointer(other), pointer(pinned), kMiB) == CUDA_SUCCESS);
  CHECK(std::memcmp(other, pinned, kMiB) == 0);
  REQUIRE(cuMemcpy(managed, pointer(pinned), kMiB) == CUDA_SUCCESS);
  CHECK(std::memcmp(reinterpret_cast<void*>(managed), pinned, kMiB) == 0);
  REQUIRE(cuMemsetD8(managed, 8, kMiB) == CUDA_SUCCESS);
  CHECK(read(managed) == 0x08080808);
  REQUIRE(cuMemcpy(pointer(pinned), block, kMiB) == CUDA_SUCCESS);
  CHECK(static_cast<char*>(pinned)[kMiB - 1] == 0);
}

TEST_CASE("a number that the driver has not computed is read as its caller was told") {
  const Device device;
  const CUdeviceptr memory = device.allocate(64);
  write(memory, 5);
  const std::array<std::uint64_t, 2> numbers{7, std::uint64_t{1} << 40};
  standin_answer_reads(numbers.data(), numbers.size());
  std::array<std::uint32_t, 3> block{};  // is no number
  REQUIRE(cuMemcpyDtoH(block.data(), memory, sizeof block) == CUDA_SUCCESS);
  CHECK(block[0] == 5);
  write(memory, 6);  // nor is what is written
  CHECK(read(memory) == 7);
  std::uint64_t wide = 0;
  REQUIRE(cuMemcpyDtoHAsync(&wide, memory, sizeof wide, nullptr) == CUDA_SUCCESS);
  CHECK(wide == std::uint64_t{1} << 40);
  CHECK(read(memory) == 6);  // nothing is left
  standin_answer_reads(numbers.data(), numbers.size());
  std::array<std::uint64_t, 3> more_than_told{};
  REQUIRE(cuMemcpyDtoH(more_than_told.data(), memory, sizeof more_than_told) == CUDA_SUCCESS);
  CHECK(more_than_told[0] == 6);
  std::array<std::uint64_t, 2> both{};
  REQUIRE(cuMemcpyDtoH(both.data(), memory, sizeof both) == CUDA_SUCCESS);
  CHECK(both == numbers);
  standin_answer_reads(numbers.data(), numbers.size());
  standin_answer_reads(nullptr, 0);
  CHECK(read(memory) == 6);
  // Another thread's reads are its own.
  standin_answer_reads(numbers.data(), 1);
  CUcontext context = nullptr;
  REQUIRE(cuCtxGetCurrent(&context) == CUDA_SUCCESS);
  std::uint32_t elsewhere = 0;
  std::thread([&] {
    cuCtxSetCurrent(context);
    cuMemcpyDtoH(&elsewhere, memory, sizeof elsewhere);
  }).join();
  CHECK(elsewhere == 6);
  CHECK(read(memory) == 7);
}
