// Copies between devices, and between the host and another device than the stream's: as with memory
// of cuMemAlloc, whatever the blocks are made of, and whether the hardware lets the devices reach
// each other or not (STANDIN_PEERS).
#include <cuda.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "test_context.h"

using namespace cubfc::test;

namespace {

constexpr std::size_t kBytes = 100000;

// A block of a device, full of one byte.
struct Block {
  Block(const TestContext& of, unsigned char byte) : context(of) {
    must(cuCtxSetCurrent(context.handle));
    address = allocate(kBytes);
    fill(byte);
  }
  void fill(unsigned char byte) const {
    must(cuCtxSetCurrent(context.handle));
    must(cuMemsetD8(address, byte, kBytes));
    must(cuCtxSynchronize());
  }
  bool is_full_of(unsigned char byte) const {
    must(cuCtxSetCurrent(context.handle));
    std::vector<unsigned char> bytes(kBytes);
    must(cuMemcpyDtoH(bytes.data(), address, kBytes));
    return bytes == std::vector<unsigned char>(kBytes, byte);
  }
  const TestContext& context;
  CUdeviceptr address = 0;
};

using Copy = std::function<CUresult(const Block& to, const Block& from, CUstream stream)>;

// Each way to copy, in a stream; the synchronous ones in the current context's own.
const std::vector<Copy> kCopies = {
    [](const Block& to, const Block& from, CUstream) {
      return cuMemcpy(to.address, from.address, kBytes);
    },
    [](const Block& to, const Block& from, CUstream) {
      return cuMemcpyDtoD(to.address, from.address, kBytes);
    },
    [](const Block& to, const Block& from, CUstream) {
      return cuMemcpyPeer(to.address, to.context.handle, from.address, from.context.handle, kBytes);
    },
    [](const Block& to, const Block& from, CUstream stream) {
      return cuMemcpyAsync(to.address, from.address, kBytes, stream);
    },
    [](const Block& to, const Block& from, CUstream stream) {
      return cuMemcpyDtoDAsync(to.address, from.address, kBytes, stream);
    },
    [](const Block& to, const Block& from, CUstream stream) {
      return cuMemcpyPeerAsync(to.address, to.context.handle, from.address, from.context.handle,
                               kBytes, stream);
    },
};

// A rectangle of rows of 100 bytes that lie 250 apart, from the 3rd row and the 7th byte on.
constexpr std::size_t kRow = 250;
constexpr std::size_t kWide = 100;
constexpr std::size_t kRows = 50;

template <typename Shape>
Shape shape_of(CUmemorytype to_type, CUdeviceptr to, CUmemorytype from_type, CUdeviceptr from) {
  Shape shape{};
  shape.dstMemoryType = to_type;
  shape.dstDevice = to;
  shape.dstHost = reinterpret_cast<void*>(to);
  shape.dstPitch = kRow;
  shape.dstXInBytes = 7;
  shape.dstY = 3;
  shape.srcMemoryType = from_type;
  shape.srcDevice = from;
  shape.srcHost = reinterpret_cast<const void*>(from);
  shape.srcPitch = kRow;
  shape.srcXInBytes = 7;
  shape.srcY = 3;
  shape.WidthInBytes = kWide;
  shape.Height = kRows;
  return shape;
}

// Copies a part of what lies at one address to the same part of another, in a stream or not.
using Part =
    std::function<CUresult(CUmemorytype, CUdeviceptr, CUmemorytype, CUdeviceptr, CUstream)>;

const std::vector<Part> kParts = {
    [](CUmemorytype to_type, CUdeviceptr to, CUmemorytype from_type, CUdeviceptr from, CUstream) {
      const auto shape = shape_of<CUDA_MEMCPY2D>(to_type, to, from_type, from);
      return cuMemcpy2D(&shape);
    },
    [](CUmemorytype to_type, CUdeviceptr to, CUmemorytype from_type, CUdeviceptr from, CUstream) {
      const auto shape = shape_of<CUDA_MEMCPY2D>(to_type, to, from_type, from);
      return cuMemcpy2DUnaligned(&shape);
    },
    [](CUmemorytype to_type, CUdeviceptr to, CUmemorytype from_type, CUdeviceptr from, CUstream) {
      auto shape = shape_of<CUDA_MEMCPY3D>(to_type, to, from_type, from);
      shape.Depth = 1;
      return cuMemcpy3D(&shape);
    },
    [](CUmemorytype to_type, CUdeviceptr to, CUmemorytype from_type, CUdeviceptr from,
       CUstream stream) {
      const auto shape = shape_of<CUDA_MEMCPY2D>(to_type, to, from_type, from);
      return cuMemcpy2DAsync(&shape, stream);
    },
    [](CUmemorytype to_type, CUdeviceptr to, CUmemorytype from_type, CUdeviceptr from,
       CUstream stream) {
      auto shape = shape_of<CUDA_MEMCPY3D>(to_type, to, from_type, from);
      shape.Depth = 1;
      return cuMemcpy3DAsync(&shape, stream);
    },
};
constexpr std::size_t kFirstPartInStream = 3;

// How many bytes are `byte`.
std::ptrdiff_t count_of(const unsigned char* bytes, unsigned char byte) {
  return std::count(bytes, bytes + kBytes, byte);
}

// The host's memory in its three kinds.
struct HostMemory {
  HostMemory() {
    void* memory = nullptr;
    must(cuMemAllocHost(&memory, kBytes));
    pinned = static_cast<unsigned char*>(memory);
    CUdeviceptr both = 0;
    must(cuMemAllocManaged(&both, kBytes, CU_MEM_ATTACH_GLOBAL));
    managed = reinterpret_cast<unsigned char*>(both);
  }
  ~HostMemory() {
    cuMemFreeHost(pinned);
    cuMemFree(reinterpret_cast<CUdeviceptr>(managed));
  }
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  std::vector<unsigned char*> kinds() { return {pageable.data(), pinned, managed}; }

  std::vector<unsigned char> pageable = std::vector<unsigned char>(kBytes);
  unsigned char* pinned = nullptr;
  unsigned char* managed = nullptr;
};

CUdeviceptr address_of(const unsigned char* memory) {
  return reinterpret_cast<CUdeviceptr>(memory);
}

CUstream new_stream_of(const TestContext& context) {
  CUstream stream = nullptr;
  must(cuCtxSetCurrent(context.handle));
  must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

}  // namespace

TEST_CASE("every copy between two devices is made, by either one's stream and by a third's") {
  const TestContext first(0);
  const Block one(first, 1);  // before anything is known of the other devices
  const TestContext second(1);
  const Block other(second, 2);
  const TestContext third(2);
  unsigned char byte = 10;
  for (const TestContext* context : {&first, &second, &third}) {
    CUstream const stream = new_stream_of(*context);
    for (const Copy& copy : kCopies) {
      for (const auto& [to, from] : {std::pair{&one, &other}, {&other, &one}}) {
        from->fill(++byte);
        to->fill(0);
        must(cuCtxSetCurrent(context->handle));
        must(copy(*to, *from, stream));
        must(cuCtxSynchronize());
        CHECK(to->is_full_of(byte));
      }
    }
    must(cuCtxSetCurrent(context->handle));
    must(cuStreamDestroy_v2(stream));
  }
}

TEST_CASE("memory that comes after the other device is known is copied, too") {
  const TestContext second(1);
  const TestContext first(0);
  const Block there(second, 5);
  std::vector<std::unique_ptr<Block>> blocks;
  for (unsigned char i = 0; i < 40; ++i) {  // more than there was at first
    blocks.push_back(std::make_unique<Block>(first, i));
    must(cuMemcpyDtoD(there.address, blocks.back()->address, kBytes));
    must(cuCtxSynchronize());
    CHECK(there.is_full_of(i));
  }
}

TEST_CASE("every copy between a block and the host is made by another device's stream") {
  const TestContext first(0);
  const Block block(first, 1);
  const TestContext second(1);
  HostMemory host;
  CUstream const stream = new_stream_of(second);
  const auto done = [&](CUresult result) {
    must(result);
    must(cuCtxSynchronize());
  };
  const std::vector<std::function<void(unsigned char*)>> in = {
      [&](auto* from) { done(cuMemcpy(block.address, address_of(from), kBytes)); },
      [&](auto* from) { done(cuMemcpyAsync(block.address, address_of(from), kBytes, stream)); },
      [&](auto* from) { done(cuMemcpyHtoD(block.address, from, kBytes)); },
      [&](auto* from) { done(cuMemcpyHtoDAsync(block.address, from, kBytes, stream)); }};
  const std::vector<std::function<void(unsigned char*)>> out = {
      [&](auto* to) { must(cuMemcpy(address_of(to), block.address, kBytes)); },
      [&](auto* to) { done(cuMemcpyAsync(address_of(to), block.address, kBytes, stream)); },
      [&](auto* to) { must(cuMemcpyDtoH(to, block.address, kBytes)); },
      [&](auto* to) { done(cuMemcpyDtoHAsync(to, block.address, kBytes, stream)); }};
  unsigned char byte = 10;
  for (unsigned char* const memory : host.kinds()) {
    for (const auto& copy : in) {
      std::fill_n(memory, kBytes, ++byte);
      must(cuCtxSetCurrent(second.handle));
      copy(memory);
      CHECK(block.is_full_of(byte));
    }
    for (const auto& copy : out) {
      block.fill(++byte);
      std::fill_n(memory, kBytes, 0);
      must(cuCtxSetCurrent(second.handle));
      copy(memory);
      CHECK(count_of(memory, byte) == kBytes);
    }
  }
  must(cuCtxSetCurrent(second.handle));
  must(cuStreamDestroy_v2(stream));
}

TEST_CASE("a part of a block is copied from and to other devices and the host") {
  const TestContext first(0);
  const Block block(first, 1);
  const TestContext second(1);
  const Block other(second, 2);
  HostMemory host;
  std::vector<unsigned char> bytes(kBytes);
  const auto is_in = [&](const Block& of, unsigned char byte) {
    must(cuCtxSynchronize());
    must(cuCtxSetCurrent(of.context.handle));
    must(cuMemcpyDtoH(bytes.data(), of.address, kBytes));
    must(cuCtxSetCurrent(second.handle));
    return count_of(bytes.data(), byte) == kWide * kRows &&
           std::all_of(bytes.begin() + 3 * kRow + 7, bytes.begin() + 3 * kRow + 7 + kWide,
                       [&](unsigned char each) { return each == byte; });
  };
  CUstream const stream = new_stream_of(second);
  unsigned char byte = 10;
  for (const Part& copy : kParts) {
    for (const CUmemorytype device : {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_UNIFIED}) {
      block.fill(0);
      other.fill(++byte);
      must(copy(device, block.address, device, other.address, stream));
      CHECK(is_in(block, byte));
      other.fill(0);
      block.fill(++byte);
      must(cuCtxSetCurrent(second.handle));
      must(copy(device, other.address, device, block.address, stream));
      CHECK(is_in(other, byte));
    }
    for (unsigned char* const memory : host.kinds()) {
      const CUmemorytype type = memory == host.managed ? CU_MEMORYTYPE_UNIFIED : CU_MEMORYTYPE_HOST;
      std::fill_n(memory, kBytes, ++byte);
      block.fill(0);
      must(cuCtxSetCurrent(second.handle));
      must(copy(CU_MEMORYTYPE_DEVICE, block.address, type, address_of(memory), stream));
      CHECK(is_in(block, byte));
      std::fill_n(memory, kBytes, 0);
      must(copy(type, address_of(memory), CU_MEMORYTYPE_DEVICE, block.address, stream));
      must(cuCtxSynchronize());
      CHECK(count_of(memory, byte) == kWide * kRows);
    }
  }
  must(cuStreamDestroy_v2(stream));
}

TEST_CASE("one row of a block is copied from where it lies") {
  const TestContext first(0);
  const Block block(first, 1);
  const TestContext second(1);
  const Block other(second, 2);
  std::vector<unsigned char> bytes(kBytes);
  const auto lies_there = [&](const unsigned char* in, unsigned char byte) {
    return count_of(in, byte) == kWide &&
           static_cast<std::size_t>(std::find(in, in + kBytes, byte) - in) == 3 * kRow + 7;
  };
  unsigned char byte = 10;
  for (const bool box : {false, true}) {
    const auto copy = [&](CUmemorytype to_type, CUdeviceptr to, CUmemorytype from_type,
                          CUdeviceptr from) {
      auto row = shape_of<CUDA_MEMCPY2D>(to_type, to, from_type, from);
      row.Height = 1;
      auto layer = shape_of<CUDA_MEMCPY3D>(to_type, to, from_type, from);
      layer.Height = layer.Depth = 1;
      must(cuCtxSetCurrent(second.handle));
      must(box ? cuMemcpy3D(&layer) : cuMemcpy2D(&row));
      must(cuCtxSynchronize());
    };
    other.fill(++byte);
    block.fill(0);
    copy(CU_MEMORYTYPE_DEVICE, block.address, CU_MEMORYTYPE_DEVICE, other.address);
    must(cuMemcpyDtoH(bytes.data(), block.address, kBytes));
    CHECK(lies_there(bytes.data(), byte));
    std::fill(bytes.begin(), bytes.end(), 0);
    copy(CU_MEMORYTYPE_HOST, address_of(bytes.data()), CU_MEMORYTYPE_DEVICE, block.address);
    CHECK(lies_there(bytes.data(), byte));
  }
}

TEST_CASE("a part of another device's block is copied by a graph") {
  const TestContext first(0);
  const Block block(first, 1);
  const TestContext second(1);
  const Block other(second, 2);
  HostMemory host;
  for (std::size_t i = kFirstPartInStream; i < kParts.size(); ++i) {
    CUstream const stream = new_stream_of(second);
    CUgraph graph = nullptr;
    CUgraphExec program = nullptr;
    must(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    must(kParts[i](CU_MEMORYTYPE_DEVICE, other.address, CU_MEMORYTYPE_DEVICE, block.address,
                   stream));
    must(kParts[i](CU_MEMORYTYPE_HOST, address_of(host.pinned), CU_MEMORYTYPE_DEVICE, block.address,
                   stream));
    must(cuStreamEndCapture(stream, &graph));
    must(cuGraphInstantiateWithFlags(&program, graph, 0));
    const auto byte = static_cast<unsigned char>(50 + i);
    block.fill(byte);
    other.fill(0);
    std::fill_n(host.pinned, kBytes, 0);
    must(cuCtxSetCurrent(second.handle));
    must(cuGraphLaunch(program, stream));
    must(cuStreamSynchronize(stream));
    CHECK(count_of(host.pinned, byte) == kWide * kRows);
    must(cuMemcpyDtoH(host.pinned, other.address, kBytes));
    CHECK(count_of(host.pinned, byte) == kWide * kRows);
    must(cuGraphExecDestroy(program));
    must(cuGraphDestroy(graph));
    must(cuStreamDestroy_v2(stream));
  }
}

TEST_CASE("a copy between devices is captured and launched") {
  const TestContext first(0);
  const Block one(first, 1);
  const TestContext second(1);
  const Block other(second, 2);
  for (std::size_t i = 3; i < kCopies.size(); ++i) {
    CUstream const stream = new_stream_of(second);
    CUgraph graph = nullptr;
    CUgraphExec program = nullptr;
    must(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    must(kCopies[i](other, one, stream));
    must(cuStreamEndCapture(stream, &graph));
    must(cuGraphInstantiateWithFlags(&program, graph, 0));
    one.fill(static_cast<unsigned char>(50 + i));
    must(cuCtxSetCurrent(second.handle));
    must(cuGraphLaunch(program, stream));
    must(cuStreamSynchronize(stream));
    CHECK(other.is_full_of(static_cast<unsigned char>(50 + i)));
    must(cuGraphExecDestroy(program));
    must(cuGraphDestroy(graph));
    must(cuStreamDestroy_v2(stream));
  }
}

TEST_CASE("a synchronous copy harms no capture, of this thread or another one's") {
  const TestContext first(0);
  const Block block(first, 1);
  const TestContext second(1);
  const Block other(second, 2);
  std::vector<unsigned char> host(kBytes, 9);
  for (const CUstreamCaptureMode mode :
       {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL}) {
    CUstream const stream = new_stream_of(second);
    must(cuStreamBeginCapture_v2(stream, mode));
    must(cuMemcpyHtoD(block.address, host.data(), kBytes));
    must(cuMemcpyDtoH(host.data(), block.address, kBytes));
    must(cuMemcpyDtoD(other.address, block.address, kBytes));
    must(cuMemcpyPeer(block.address, first.handle, other.address, second.handle, kBytes));
    CUgraph graph = nullptr;
    must(cuStreamEndCapture(stream, &graph));
    must(cuGraphDestroy(graph));
    must(cuStreamDestroy_v2(stream));
  }
}

// What a stream waits for may be what the thread does next.
TEST_CASE("a copy between devices waits for nothing that the host waits for") {
  const TestContext first(0);
  const Block block(first, 1);
  const TestContext second(1);
  const Block other(second, 2);
  CUstream blocking = nullptr;
  must(cuCtxSetCurrent(second.handle));
  must(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
  standin_hold_stream(blocking);
  must(cuMemsetD8Async(other.address, 7, kBytes, blocking));
  must(cuMemcpyDtoD(block.address, other.address, kBytes));
  auto rows = shape_of<CUDA_MEMCPY2D>(CU_MEMORYTYPE_DEVICE, block.address, CU_MEMORYTYPE_DEVICE,
                                      other.address);
  must(cuMemcpy2D(&rows));
  must(cuMemcpyPeer(block.address, first.handle, other.address, second.handle, kBytes));
  standin_release_stream(blocking);
  must(cuCtxSynchronize());
  CHECK(block.is_full_of(7));
  must(cuStreamDestroy_v2(blocking));
}

TEST_CASE("a copy of nothing says what the driver says of it") {
  const TestContext first(0);
  const Block block(first, 1);
  const TestContext second(1);
  std::vector<unsigned char> host(1);
  CUstream const gone = new_stream_of(second);
  must(cuStreamDestroy_v2(gone));
  CHECK(cuMemcpyHtoDAsync(block.address, host.data(), 0, gone) != CUDA_SUCCESS);
  CHECK(cuMemcpyDtoHAsync(host.data(), block.address, 0, gone) != CUDA_SUCCESS);
  must(cuMemcpyHtoD(block.address, host.data(), 0));
}

TEST_CASE("a refusal that has nothing to do with reach is the program's") {
  const TestContext context(0);
  const Block block(context, 1);
  std::vector<unsigned char> host(kBytes, 9);
  standin_fail("cuMemcpyHtoD_v2", CUDA_ERROR_LAUNCH_FAILED, 0, 1);
  CHECK(cuMemcpyHtoD(block.address, host.data(), kBytes) == CUDA_ERROR_LAUNCH_FAILED);
  CHECK(block.is_full_of(1));
}

TEST_CASE("a wrong copy is refused all the same") {
  const TestContext first(0);
  const Block one(first, 1);
  const TestContext second(1);
  const Block other(second, 2);
  CHECK(cuMemcpyDtoD(0x1234, one.address, 10) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemcpyDtoD(other.address, one.address, std::size_t{1} << 40) == CUDA_ERROR_INVALID_VALUE);
  const std::vector<unsigned char> host(kBytes, 9);
  const auto pageable = reinterpret_cast<CUdeviceptr>(host.data());
  for (const CUdeviceptr from : {CUdeviceptr{0x1234}, pageable}) {
    CHECK(cuMemcpyPeer(one.address, first.handle, from, second.handle, 10) ==
          CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemcpyPeerAsync(one.address, first.handle, from, second.handle, 10, nullptr) ==
          CUDA_ERROR_INVALID_VALUE);
  }
  // Not by one device, and not by two.
  must(cuCtxSetCurrent(second.handle));
  std::vector<unsigned char> host_too(kBytes, 9);
  CHECK(cuMemcpyHtoD(one.address, host_too.data(), std::size_t{1} << 40) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemcpyDtoH(host_too.data(), 0x1234, 10) == CUDA_ERROR_INVALID_VALUE);
  auto shape = shape_of<CUDA_MEMCPY2D>(CU_MEMORYTYPE_DEVICE, one.address, CU_MEMORYTYPE_HOST,
                                       address_of(host_too.data()));
  shape.Height = std::size_t{1} << 30;
  CHECK(cuMemcpy2D(&shape) == CUDA_ERROR_INVALID_VALUE);
  shape.dstPitch = 1;
  CHECK(cuMemcpy2D(&shape) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemcpy2D(nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemcpy3DAsync(nullptr, nullptr) == CUDA_ERROR_INVALID_VALUE);
  must(cuCtxSetCurrent(first.handle));
  must(cuCtxSynchronize());
  CHECK(one.is_full_of(1));
  must(cuMemFree(one.address));
  CHECK(cuMemcpyDtoD(other.address, one.address, std::size_t{1} << 40) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("what the copying device has from its own pool is copied to and from another's block") {
  const TestContext second(1);
  const Block there(second, 1);
  const TestContext first(0);
  const Block mine(first, 2);
  CUdeviceptr of_pool = 0;
  must(cuMemAllocAsync(&of_pool, kBytes, nullptr));
  must(cuMemsetD8Async(of_pool, 7, kBytes, nullptr));
  must(cuCtxSynchronize());
  must(cuMemcpyDtoD(there.address, of_pool, kBytes));
  must(cuCtxSynchronize());
  CHECK(there.is_full_of(7));
  there.fill(8);
  must(cuCtxSetCurrent(first.handle));
  must(cuMemcpyDtoD(of_pool, there.address, kBytes));
  must(cuMemcpyDtoD(mine.address, of_pool, kBytes));
  must(cuCtxSynchronize());
  CHECK(mine.is_full_of(8));
  must(cuMemFreeAsync(of_pool, nullptr));
  must(cuCtxSynchronize());
}

TEST_CASE("what the program's own pool may reach stays the program's to say") {
  const TestContext first(0);
  const Block one(first, 1);
  const TestContext second(1);
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 1};
  CUmemoryPool pool = nullptr;
  CUdeviceptr there = 0;
  must(cuMemPoolCreate(&pool, &properties));
  must(cuMemAllocFromPoolAsync(&there, kBytes, pool, nullptr));
  must(cuCtxSynchronize());
  must(cuCtxSetCurrent(first.handle));
  CHECK(cuMemcpyDtoD(one.address, there, kBytes) != CUDA_SUCCESS);
  must(cuCtxSetCurrent(second.handle));
  must(cuMemFree(there));
  must(cuMemPoolDestroy(pool));
}

TEST_CASE("the driver's failures are the copy's, and it can be tried again") {
  const TestContext first(0);
  const Block one(first, 1);
  const TestContext second(1);
  const Block other(second, 2);
  for (const char* function : {"cuMemcpyDtoD_v2", "cuMemcpyPeer", "cuPointerGetAttribute"}) {
    standin_fail(function, CUDA_ERROR_UNKNOWN, 0, 1);
    const CUresult result = cuMemcpyDtoD(other.address, one.address, kBytes);
    CHECK((result == CUDA_SUCCESS || result == CUDA_ERROR_UNKNOWN));
    standin_fail(function, 0, 0, 0);
    must(cuMemcpyDtoD(other.address, one.address, kBytes));
  }
  CHECK(other.is_full_of(1));
}
