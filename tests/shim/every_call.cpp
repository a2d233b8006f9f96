// A program that does something of everything that cubfc has a hand in, for fail_each_call.py,
// which makes one call of the driver fail in each run, be it one of the program's or one that cubfc
// makes for itself. Whatever fails is tried once more and must work then: an error has changed
// nothing. No block may overlap another, and each keeps what was written to it.
//
// With FAIL_HOST_ALLOCATION=N in the environment it is the host that has no memory, for the Nth
// allocation of its memory that cubfc makes in the program's calls.
//
// With the argument "but-the-last" it leaves out the last of its contexts, in which nothing happens
// but that what the others left behind is given back.
// Exit status 0 and "all done" on stdout, with the number of those allocations, or 1 and what is
// wrong on stderr.
#include <cuda.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "shim/cubfc.h"
#include "shim/device/contexts.h"
#include "shim/host_allocations.h"
#include "shim/process.h"
#include "standin/standin.h"

// Newer headers declare only the newest form.
extern "C" CUresult CUDAAPI cuCtxCreate_v2(CUcontext* context, unsigned flags, CUdevice device);

namespace {

constexpr std::size_t kKiB = 1 << 10;
constexpr std::size_t kMiB = 1 << 20;

std::atomic<long> host_allocations{0};  // made in the program's calls
long failing_host_allocation = 0;

bool count_host_allocation() {
  return ++host_allocations != failing_host_allocation;
}

// A call of the program's.
template <typename Call>
CUresult make(Call call) {
  cubfc::test::may_allocate = count_host_allocation;
  const CUresult result = call();
  cubfc::test::may_allocate = nullptr;
  return result;
}

[[noreturn]] void wrong(std::string_view what, CUresult result = CUDA_SUCCESS) {
  const char* name = nullptr;
  if (result != CUDA_SUCCESS && cuGetErrorName(result, &name) != CUDA_SUCCESS) {
    name = "an error without a name";
  }
  std::fprintf(stderr, "%.*s%s%s\n", static_cast<int>(what.size()), what.data(),
               name == nullptr ? "" : ": ", name == nullptr ? "" : name);
  std::_Exit(1);
}

// Once more when it fails.
template <typename Call>
void must(std::string_view what, Call call) {
  CUresult result = make(call);
  if (result != CUDA_SUCCESS) {
    result = make(call);
  }
  if (result != CUDA_SUCCESS) {
    wrong(what, result);
  }
}

void must_refuse(std::string_view what, CUresult result) {
  if (result == CUDA_SUCCESS) {
    wrong(std::string(what) + " is accepted");
  }
}

// The program's memory: what it has written where.
class Blocks {
 public:
  // `call` asks for so many bytes.
  template <typename Call>
  CUdeviceptr take(std::string_view what, std::size_t bytes, Call call) {
    CUdeviceptr address = 0;
    must(what, [&] { return call(&address); });
    enter(address, bytes);
    return address;
  }

  CUdeviceptr allocate(std::size_t bytes) {
    return take("cuMemAlloc", bytes,
                [&](CUdeviceptr* address) { return cuMemAlloc(address, bytes); });
  }

  // What the program has got.
  void enter(CUdeviceptr address, std::size_t bytes) {
    const auto after = live_.lower_bound(address);
    const bool overlaps_next = after != live_.end() && after->first < address + bytes;
    const bool overlaps_previous = after != live_.begin() && address - std::prev(after)->first <
                                                                 std::prev(after)->second.first;
    if (address == 0 || overlaps_next || overlaps_previous) {
      wrong("a block overlaps another one");
    }
    live_.emplace(address, std::pair{bytes, ++last_word_});
    must("cuMemsetD2D32", [&] {
      return cuMemsetD2D32(address, row_of(bytes), last_word_, words_of_row(bytes), rows_of(bytes));
    });
  }

  // Not tried again. False when there is no memory.
  bool try_allocate(std::size_t bytes) {
    CUdeviceptr address = 0;
    if (make([&] { return cuMemAlloc(&address, bytes); }) != CUDA_SUCCESS) {
      return false;
    }
    enter(address, bytes);
    return true;
  }

  // With a call that frees the address.
  template <typename Call>
  void free(std::string_view what, CUdeviceptr address, Call call) {
    check(address);
    live_.erase(address);
    must(what, [&] { return call(address); });
  }

  void free(CUdeviceptr address) {
    free("cuMemFree", address, [](CUdeviceptr each) { return cuMemFree(each); });
  }

  // While work of the program's own may be writing there.
  void free_unseen(CUdeviceptr address) {
    live_.erase(address);
    must("cuMemFree", [&] { return cuMemFree(address); });
  }

  void free_all() {
    while (!live_.empty()) {
      free(live_.begin()->first);
    }
  }

  void check(CUdeviceptr address) const {
    const auto& [bytes, word] = live_.at(address);
    std::vector<std::uint32_t> found(words_of_row(bytes) * rows_of(bytes));
    CUDA_MEMCPY2D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = address;
    copy.srcPitch = row_of(bytes);
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = found.data();
    copy.WidthInBytes = words_of_row(bytes) * sizeof(word);
    copy.dstPitch = copy.WidthInBytes;
    copy.Height = rows_of(bytes);
    must("cuMemcpy2D", [&] { return cuMemcpy2D(&copy); });
    // The first word is right, and each other one is like the one before.
    if (found.front() != word ||
        std::memcmp(found.data(), found.data() + 1, (found.size() - 1) * sizeof(word)) != 0) {
      wrong("a block has lost what was written to it");
    }
  }

  void check_all() const {
    for (const auto& [address, content] : live_) {
      check(address);
    }
  }

 private:
  // What is written of a block: all of it, as one row, when it is small; of a large one the
  // beginning of each row of 64 KiB, for memory that is mapped in no smaller pieces keeps all of a
  // row or nothing, and each page of the host's that is written to costs as much as ten calls.
  static constexpr std::size_t kSmall = 256 * kKiB;
  static std::size_t row_of(std::size_t bytes) { return bytes <= kSmall ? kSmall : 64 * kKiB; }
  static std::size_t rows_of(std::size_t bytes) {
    return bytes <= kSmall ? 1 : bytes / row_of(bytes);
  }
  static std::size_t words_of_row(std::size_t bytes) {
    return (bytes <= kSmall ? bytes : 64) / sizeof(std::uint32_t);
  }

  std::map<CUdeviceptr, std::pair<std::size_t, std::uint32_t>> live_;
  std::uint32_t last_word_ = 0;
};

struct Stream {
  Stream() {
    must("cuStreamCreate", [&] { return cuStreamCreate(&handle, CU_STREAM_NON_BLOCKING); });
  }
  ~Stream() {
    must("cuStreamDestroy", [&] { return cuStreamDestroy_v2(handle); });
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  CUstream handle = nullptr;
};

void queries(Blocks& blocks) {
  const CUdeviceptr block = blocks.allocate(3 * kMiB);
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  must("cuMemGetAddressRange",
       [&] { return cuMemGetAddressRange(&base, &bytes, block + 5 * kKiB); });
  if (base != block || bytes < 3 * kMiB) {
    wrong("cuMemGetAddressRange does not tell of the block");
  }
  unsigned long long id = 0;
  must("cuPointerGetAttribute",
       [&] { return cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, block); });
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  must("cuMemGetInfo", [&] { return cuMemGetInfo(&free_bytes, &total_bytes); });
  must("cuDeviceTotalMem", [&] { return cuDeviceTotalMem(&total_bytes, 0); });
  if (free_bytes > total_bytes) {
    wrong("more is free than there is");
  }
  std::size_t pitch = 0;
  const CUdeviceptr rows = blocks.take(
      "cuMemAllocPitch", std::size_t{100} * 7,
      [&](CUdeviceptr* address) { return cuMemAllocPitch(address, &pitch, 100, 7, 4); });
  must_refuse("a free inside a block", cuMemFree(block + 512));
  blocks.free(block);
  must_refuse("a second free", cuMemFree(block));
  blocks.free(rows);
}

// Frees while work still writes there: what is given to others meanwhile must not be written to.
void busy_streams(Blocks& blocks) {
  const Stream stream;
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < 20; ++i) {
      const std::size_t bytes = 4 * kKiB + i * 8 * kKiB;
      const CUdeviceptr block = blocks.allocate(bytes);
      must("cuMemsetD8Async", [&] { return cuMemsetD8Async(block, 0xee, bytes, stream.handle); });
      blocks.free_unseen(block);
      blocks.allocate(bytes);
    }
    must("cuStreamSynchronize", [&] { return cuStreamSynchronize(stream.handle); });
    blocks.check_all();
    blocks.free_all();
  }
}

void stream_ordered(Blocks& blocks) {
  const Stream stream;
  const auto free_in_order = [&](CUdeviceptr address) {
    return cuMemFreeAsync(address, stream.handle);
  };
  CUmemoryPool pool = nullptr;
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  must("cuMemPoolCreate", [&] { return cuMemPoolCreate(&pool, &properties); });
  for (const std::size_t bytes : {10 * kKiB, 2 * kMiB}) {
    CUdeviceptr own = 0;
    CUdeviceptr named = 0;
    must("cuMemAllocAsync", [&] { return cuMemAllocAsync(&own, bytes, stream.handle); });
    must("cuMemAllocFromPoolAsync",
         [&] { return cuMemAllocFromPoolAsync(&named, bytes, pool, stream.handle); });
    must("cuStreamSynchronize", [&] { return cuStreamSynchronize(stream.handle); });
    blocks.enter(own, bytes);
    blocks.enter(named, bytes);
    const CUdeviceptr plain = blocks.allocate(bytes);
    blocks.free("cuMemFreeAsync", own, free_in_order);
    blocks.free("cuMemFreeAsync", plain, free_in_order);
    blocks.free(named);
  }
  must("cuMemPoolDestroy", [&] { return cuMemPoolDestroy(pool); });
}

// An allocation for which the arena must grow, and a free, while a stream captures.
void capture(Blocks& blocks) {
  const Stream stream;
  const CUdeviceptr before = blocks.allocate(64 * kKiB);
  const CUdeviceptr written = blocks.allocate(64 * kKiB);
  must("cuStreamBeginCapture",
       [&] { return cuStreamBeginCapture_v2(stream.handle, CU_STREAM_CAPTURE_MODE_RELAXED); });
  must("cuMemsetD8Async", [&] { return cuMemsetD8Async(written, 0x11, 64 * kKiB, stream.handle); });
  blocks.free(before);
  const CUdeviceptr inside = blocks.allocate(12 * kMiB);
  CUgraph graph = nullptr;
  must("cuStreamEndCapture", [&] { return cuStreamEndCapture(stream.handle, &graph); });
  CUgraphExec program = nullptr;
  must("cuGraphInstantiate", [&] { return cuGraphInstantiateWithFlags(&program, graph, 0); });
  blocks.free(inside);
  blocks.check(written);
  must("cuGraphLaunch", [&] { return cuGraphLaunch(program, stream.handle); });
  must("cuStreamSynchronize", [&] { return cuStreamSynchronize(stream.handle); });
  must("cuGraphExecDestroy", [&] { return cuGraphExecDestroy(program); });
  must("cuGraphDestroy", [&] { return cuGraphDestroy(graph); });
  blocks.free_unseen(written);
}

// What only the driver has, which cubfc counts.
void other_memory(Blocks& blocks) {
  CUarray array = nullptr;
  CUDA_ARRAY_DESCRIPTOR shape{};
  shape.Width = 64;
  shape.Height = 64;
  shape.Format = CU_AD_FORMAT_FLOAT;
  shape.NumChannels = 1;
  must("cuArrayCreate", [&] { return cuArrayCreate(&array, &shape); });
  const CUdeviceptr managed = blocks.take("cuMemAllocManaged", 4096, [](CUdeviceptr* address) {
    return cuMemAllocManaged(address, 4096, CU_MEM_ATTACH_GLOBAL);
  });
  blocks.free(managed);
  must("cuArrayDestroy", [&] { return cuArrayDestroy(array); });

  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemGenericAllocationHandle memory = 0;
  CUdeviceptr address = 0;
  const std::size_t bytes = 2 * kMiB;
  must("cuMemCreate", [&] { return cuMemCreate(&memory, bytes, &properties, 0); });
  must("cuMemAddressReserve", [&] { return cuMemAddressReserve(&address, bytes, 0, 0, 0); });
  must("cuMemMap", [&] { return cuMemMap(address, bytes, 0, memory, 0); });
  CUmemGenericAllocationHandle again = 0;
  must("cuMemRetainAllocationHandle",
       [&] { return cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(address)); });
  must("cuMemRelease", [&] { return cuMemRelease(again); });
  must("cuMemUnmap", [&] { return cuMemUnmap(address, bytes); });
  must("cuMemRelease", [&] { return cuMemRelease(memory); });
  must("cuMemAddressFree", [&] { return cuMemAddressFree(address, bytes); });
}

// A context beside the primary one, on another device that may use the memory of the first.
void second_context(Blocks& blocks, CUcontext primary) {
  CUcontext second = nullptr;
  must("cuCtxCreate", [&] { return cuCtxCreate_v2(&second, 0, 1); });
  must("cuCtxEnablePeerAccess", [&] { return cuCtxEnablePeerAccess(primary, 0); });
  Blocks of_second;
  of_second.allocate(100 * kKiB);
  const CUdeviceptr freed_there = of_second.allocate(5 * kMiB);
  const CUdeviceptr freed_here = blocks.allocate(100 * kKiB);  // of the second context, too
  must("cuCtxSynchronize", [] { return cuCtxSynchronize(); });
  must("cuCtxSetCurrent", [&] { return cuCtxSetCurrent(primary); });
  of_second.free(freed_there);
  blocks.free(freed_here);
  blocks.allocate(100 * kKiB);
  must("cuCtxDestroy", [&] { return cuCtxDestroy_v2(second); });
  blocks.allocate(100 * kKiB);
  blocks.check_all();
  blocks.free_all();
}

void threads(Blocks& blocks, CUcontext primary) {
  const CUdeviceptr from_here = blocks.allocate(100 * kKiB);
  std::thread([&] {
    must("cuCtxSetCurrent", [&] { return cuCtxSetCurrent(primary); });
    blocks.free(from_here);
    blocks.allocate(200 * kKiB);
  }).join();
  std::thread([] {
    CUdeviceptr address = 0;
    must_refuse("an allocation without a context", cuMemAlloc(&address, 4096));
  }).join();
  blocks.free_all();
}

// All that there is, and back again.
void exhaustion(Blocks& blocks) {
  std::size_t count = 0;
  while (blocks.try_allocate(4 * kMiB) || blocks.try_allocate(4 * kMiB)) {
    ++count;
  }
  if (count < 4) {
    wrong("there is too little memory");
  }
  blocks.free_all();
  blocks.allocate(count / 2 * 4 * kMiB);
  blocks.free_all();
}

// Memory that has come back goes to others.
void trim() {
  make([] { return cubfc_trim(CUBFC_TRIM_PREALLOCATED), CUDA_SUCCESS; });
  std::size_t free_bytes = 0;
  must("cuMemGetInfo", [&] { return cuMemGetInfo(&free_bytes, nullptr); });
}

// With the device's primary context, which ends with it.
template <typename Do>
void live(Do what) {
  CUcontext primary = nullptr;
  must("cuDevicePrimaryCtxRetain", [&] { return cuDevicePrimaryCtxRetain(&primary, 0); });
  must("cuCtxSetCurrent", [&] { return cuCtxSetCurrent(primary); });
  what(primary);
  auto* const process = cubfc::Process::active();  // nullptr: it stands aside
  auto* each = process == nullptr ? nullptr : process->contexts().first();
  for (; each != nullptr; each = each->next) {
    if (const std::string fault = each->arena.verify(); !fault.empty()) {
      wrong(fault);
    }
  }
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  must("cuThreadExchangeStreamCaptureMode",
       [&] { return cuThreadExchangeStreamCaptureMode(&mode); });
  if (mode != CU_STREAM_CAPTURE_MODE_GLOBAL) {
    wrong("the thread is left in another capture mode");
  }
  must("cuDevicePrimaryCtxRelease", [] { return cuDevicePrimaryCtxRelease_v2(0); });
}

}  // namespace

int main(int argc, char** argv) {
  // What is read back lies in the same pages each time: new ones would be most of the time that
  // this takes.
  mallopt(M_MMAP_THRESHOLD, 32 * kMiB);
  mallopt(M_TRIM_THRESHOLD, 32 * kMiB);
  if (const char* const which = std::getenv("FAIL_HOST_ALLOCATION"); which != nullptr) {
    failing_host_allocation = std::atol(which);
  }
  must("cuInit", [] { return cuInit(0); });
  live([](CUcontext primary) {
    Blocks blocks;
    queries(blocks);
    busy_streams(blocks);
    stream_ordered(blocks);
    capture(blocks);
    other_memory(blocks);
    second_context(blocks, primary);
    threads(blocks, primary);
    exhaustion(blocks);
    trim();
    queries(blocks);
    blocks.allocate(512);  // goes with its context
    must("cuDevicePrimaryCtxReset", [] { return cuDevicePrimaryCtxReset_v2(0); });
  });
  live([](CUcontext /*primary*/) {
    Blocks blocks;
    queries(blocks);
    blocks.allocate(512);  // this one, too
  });
  if (argc == 1 || std::string_view(argv[1]) != "but-the-last") {
    live([](CUcontext /*primary*/) {
      Blocks blocks;
      queries(blocks);
    });
  }
  std::printf("all done, %ld host allocations\n", host_allocations.load());
  return 0;
}
