// What is reported of real drivers about copies between two devices, neither of which was given
// access to the other's memory at first.
#include <cuda.h>

#include "reported_test.h"

using namespace standin_test;

namespace {

constexpr std::size_t kBytes = 4096;

// Two devices; a block and a stream of the first one, whose context is current.
class TwoDevices {
 public:
  TwoDevices() {
    Must(cuCtxSetCurrent(first_.context()));
    block_ = first_.Allocate(kBytes);
    stream_ = NewStream();
    Set(block_, 1);
  }

  CUcontext first() const { return first_.context(); }
  CUcontext second() const { return second_.context(); }
  CUdeviceptr block() const { return block_; }
  CUdeviceptr AllocateOfSecond() const {
    Must(cuCtxSetCurrent(second_.context()));
    const CUdeviceptr memory = second_.Allocate(kBytes);
    Must(cuCtxSetCurrent(first_.context()));
    return memory;
  }

  void Set(CUdeviceptr memory, unsigned char byte) const {
    Must(cuMemsetD8Async(memory, byte, kBytes, stream_));
    Must(cuStreamSynchronize(stream_));
  }
  unsigned char ByteOf(CUdeviceptr memory) const {
    unsigned char byte = 0;
    Must(cuMemcpyDtoHAsync_v2(&byte, memory, 1, stream_));
    Must(cuStreamSynchronize(stream_));
    return byte;
  }

  CUresult CopyTo(CUdeviceptr memory) const {
    return Done(cuMemcpyDtoDAsync_v2(memory, block_, kBytes, stream_));
  }
  CUresult CopyFrom(CUdeviceptr memory) const {
    return Done(cuMemcpyDtoDAsync_v2(block_, memory, kBytes, stream_));
  }
  CUresult CopyToAsPeer(CUdeviceptr memory) const {
    return Done(cuMemcpyPeerAsync(memory, second(), block_, first(), kBytes, stream_));
  }

 private:
  // When the stream has done it.
  CUresult Done(CUresult result) const {
    Must(cuStreamSynchronize(stream_));
    return result;
  }

  Device first_{0};
  Device second_{1};
  CUdeviceptr block_ = 0;
  CUstream stream_ = nullptr;
};

// Memory of a pool of its own on the second device.
class Pool {
 public:
  explicit Pool(const TwoDevices& devices) {
    CUmemPoolProps properties{};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 1};
    Must(cuCtxSetCurrent(devices.second()));
    const CUstream stream = NewStream();
    Must(cuMemPoolCreate(&pool_, &properties));
    Must(cuMemAllocFromPoolAsync(&memory_, kBytes, pool_, stream));
    Must(cuMemsetD8Async(memory_, 9, kBytes, stream));
    Must(cuStreamSynchronize(stream));
    Must(cuCtxSetCurrent(devices.first()));
  }
  ~Pool() {
    cuMemFree_v2(memory_);
    cuMemPoolDestroy(pool_);
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  CUdeviceptr memory() const { return memory_; }
  void GiveFirst(CUmemAccess_flags flags) const {
    const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, flags};
    Must(cuMemPoolSetAccess(pool_, &access, 1));
  }
  CUmemAccess_flags AccessOfFirst() const {
    CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CUmemLocation location{CU_MEM_LOCATION_TYPE_DEVICE, 0};
    Must(cuMemPoolGetAccess(&flags, pool_, &location));
    return flags;
  }

 private:
  CUmemoryPool pool_ = nullptr;
  CUdeviceptr memory_ = 0;
};

}  // namespace

TEST_CASE("reported: memory of cuMemAlloc is copied between devices without any access") {
  const TwoDevices devices;
  const CUdeviceptr memory = devices.AllocateOfSecond();
  CHECK(devices.CopyTo(memory) == CUDA_SUCCESS);
  CHECK(devices.ByteOf(memory) == 1);
  devices.Set(memory, 2);
  CHECK(devices.CopyFrom(memory) == CUDA_SUCCESS);
  CHECK(devices.ByteOf(devices.block()) == 2);
}

TEST_CASE(
    "reported: a pool is copied from and to only by devices that have access, as long as they "
    "have") {
  const TwoDevices devices;
  const Pool pool(devices);
  CHECK(pool.AccessOfFirst() == CU_MEM_ACCESS_FLAGS_PROT_NONE);
  CHECK(devices.CopyFrom(pool.memory()) == CUDA_ERROR_INVALID_VALUE);
  CHECK(devices.CopyTo(pool.memory()) == CUDA_ERROR_INVALID_VALUE);
  pool.GiveFirst(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  CHECK(devices.CopyFrom(pool.memory()) == CUDA_SUCCESS);
  CHECK(devices.ByteOf(devices.block()) == 9);
  CHECK(devices.CopyTo(pool.memory()) == CUDA_SUCCESS);
  pool.GiveFirst(CU_MEM_ACCESS_FLAGS_PROT_NONE);
  CHECK(devices.CopyFrom(pool.memory()) == CUDA_ERROR_INVALID_VALUE);
  CHECK(devices.CopyTo(pool.memory()) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE(
    "reported: so it is with copies from and to the host, and managed memory, also of mapped "
    "memory") {
  const TwoDevices devices;
  const Pool pool(devices);
  const MappedMemory mapped(1);
  Must(mapped.Give(1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  CUdeviceptr managed = 0;
  unsigned char byte = 0;
  Must(cuMemAllocManaged(&managed, kBytes, CU_MEM_ATTACH_GLOBAL));
  for (const CUdeviceptr memory : {pool.memory(), mapped.address()}) {
    CHECK(cuMemcpyHtoD_v2(memory, &byte, 1) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemcpyDtoH_v2(&byte, memory, 1) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemcpy(memory, managed, kBytes) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemcpy(managed, memory, kBytes) == CUDA_ERROR_INVALID_VALUE);
    Must(cuCtxSetCurrent(devices.second()));
    CHECK(cuMemcpyHtoD_v2(memory, &byte, 1) == CUDA_SUCCESS);
    CHECK(cuMemcpy(managed, memory, kBytes) == CUDA_SUCCESS);
    Must(cuCtxSetCurrent(devices.first()));
  }
  const CUdeviceptr plain = devices.AllocateOfSecond();
  CHECK(cuMemcpyHtoD_v2(plain, &byte, 1) == CUDA_SUCCESS);
  CHECK(cuMemcpy(managed, plain, kBytes) == CUDA_SUCCESS);
  Must(cuMemFree_v2(managed));
}

TEST_CASE("reported: a new pool gives its peers nothing, even after another one did") {
  const TwoDevices devices;
  const Pool given(devices);
  given.GiveFirst(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  const Pool pool(devices);
  CHECK(pool.AccessOfFirst() == CU_MEM_ACCESS_FLAGS_PROT_NONE);
  CHECK(devices.CopyFrom(pool.memory()) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE(
    "reported: mapped memory is copied from and to by devices that have access, as long as they "
    "have") {
  const TwoDevices devices;
  const MappedMemory mapped(1);
  Must(mapped.Give(1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  CHECK(devices.CopyFrom(mapped.address()) == CUDA_ERROR_INVALID_VALUE);
  CHECK(devices.CopyTo(mapped.address()) == CUDA_ERROR_INVALID_VALUE);
  Must(mapped.Give(0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  CHECK(devices.CopyTo(mapped.address()) == CUDA_SUCCESS);
  CHECK(devices.ByteOf(mapped.address()) == 1);
  CHECK(devices.CopyFrom(mapped.address()) == CUDA_SUCCESS);
  Must(mapped.Give(0, CU_MEM_ACCESS_FLAGS_PROT_NONE));
  CHECK(devices.CopyFrom(mapped.address()) == CUDA_ERROR_INVALID_VALUE);
  CHECK(devices.CopyTo(mapped.address()) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("reported: a peer copy needs no access to mapped memory") {
  const TwoDevices devices;
  const MappedMemory mapped(1);
  Must(mapped.Give(1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  CHECK(devices.CopyToAsPeer(mapped.address()) == CUDA_SUCCESS);
  Must(mapped.Give(0, CU_MEM_ACCESS_FLAGS_PROT_READ));
  CHECK(devices.ByteOf(mapped.address()) == 1);
}

TEST_CASE("reported: a peer copy to a pool that a peer has access to succeeds and writes nothing") {
  const TwoDevices devices;
  const Pool pool(devices);
  pool.GiveFirst(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  CHECK(devices.CopyToAsPeer(pool.memory()) == CUDA_SUCCESS);
  CHECK(devices.ByteOf(pool.memory()) == 9);
}
