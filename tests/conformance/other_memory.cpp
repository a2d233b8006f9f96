// Memory that does not come from cuMemAlloc, beside memory that does.
#include <cstring>

#include "promise.h"

using namespace conformance;

namespace {

constexpr std::size_t kBytes = 300'000;

CUdeviceptr allocate_in(CUstream stream, std::size_t bytes = kBytes) {
  CUdeviceptr block = 0;
  ok(cu.cuMemAllocAsync(&block, bytes, stream));
  return block;
}

}  // namespace

PROMISE(pool_memory_and_plain_memory_mix,
        "Memory of cuMemAlloc and of cuMemAllocAsync lives side by side, freed in either way.") {
  const Stream stream;
  for (std::uint32_t i = 0; i < 10; ++i) {
    const CUdeviceptr pooled = allocate_in(stream);
    const CUdeviceptr plain = allocate(kBytes, i);
    ok(cu.cuMemcpyDtoDAsync(pooled, plain, kBytes, stream));
    ok(cu.cuStreamSynchronize(stream));
    has_pattern("the pool's", pooled, kBytes, i);
    grants("the pool's free",
           i % 2 == 0 ? cu.cuMemFree(pooled) : cu.cuMemFreeAsync(pooled, stream));
    grants("the plain one's", i % 3 == 0 ? cu.cuMemFree(plain) : cu.cuMemFreeAsync(plain, stream));
  }
  grants("the stream", cu.cuStreamSynchronize(stream));
}

PROMISE(a_pool_is_made_used_trimmed_and_destroyed, "Pools of the program's own work as ever.") {
  const Stream stream;
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemoryPool pool = nullptr;
  ok(cu.cuMemPoolCreate(&pool, &properties));
  CUdeviceptr block = 0;
  ok(cu.cuMemAllocFromPoolAsync(&block, kBytes, pool, stream));
  programs::write_pattern(cu, block, kBytes, 1, stream);
  has_pattern("its memory", block, kBytes, 1);
  holds("its pool", attribute<CUmemoryPool>(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, block) == pool);
  ok(cu.cuMemFreeAsync(block, stream));
  ok(cu.cuStreamSynchronize(stream));
  grants("cuMemPoolTrimTo", cu.cuMemPoolTrimTo(pool, 0));
  grants("cuMemPoolDestroy", cu.cuMemPoolDestroy(pool));
}

PROMISE(mapped_memory_is_the_programs_own,
        "Memory of cuMemCreate is mapped, used and unmapped by its own functions only.") {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  std::size_t granule = 0;
  ok(cu.cuMemGetAllocationGranularity(&granule, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  const CUdeviceptr plain = allocate(granule, 1);
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr address = 0;
  ok(cu.cuMemCreate(&handle, granule, &properties, 0));
  ok(cu.cuMemAddressReserve(&address, granule, 0, 0, 0));
  ok(cu.cuMemMap(address, granule, 0, handle, 0));
  const CUmemAccessDesc access{properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  ok(cu.cuMemSetAccess(address, granule, &access, 1));
  ok(cu.cuMemcpyDtoD(address, plain, granule));
  has_pattern("what was copied", address, granule, 1);
  refuses("cuMemFree", cu.cuMemFree(address));
  CUmemGenericAllocationHandle again = 0;
  grants("its handle", cu.cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(address)));
  holds("it is the same", again == handle);
  grants("cuMemRelease", cu.cuMemRelease(again));
  grants("cuMemUnmap", cu.cuMemUnmap(address, granule));
  grants("cuMemAddressFree", cu.cuMemAddressFree(address, granule));
  grants("cuMemRelease", cu.cuMemRelease(handle));
  has_pattern("the plain block", plain, granule, 1);
}

PROMISE(managed_memory_is_seen_by_host_and_device,
        "Managed memory is one memory, and says that it is managed.") {
  CUdeviceptr managed = 0;
  ok(cu.cuMemAllocManaged(&managed, kBytes, CU_MEM_ATTACH_GLOBAL));
  const CUdeviceptr plain = allocate(kBytes, 1);
  ok(cu.cuMemcpyDtoD(managed, plain, kBytes));
  ok(cu.cuCtxSynchronize());
  std::vector<char> host(kBytes);
  ok(cu.cuMemcpyDtoH(host.data(), plain, kBytes));
  holds("the host sees the device's bytes",
        std::memcmp(host.data(), reinterpret_cast<const void*>(managed), kBytes) == 0);
  holds("it is managed", flag(CU_POINTER_ATTRIBUTE_IS_MANAGED, managed));
  holds("the other is not", !flag(CU_POINTER_ATTRIBUTE_IS_MANAGED, plain));
}

PROMISE(host_memory_is_the_hosts, "Pinned and registered memory are the host's to the driver.") {
  std::vector<char> host(kBytes);
  void* pinned = nullptr;
  ok(cu.cuMemAllocHost(&pinned, kBytes));
  ok(cu.cuMemHostRegister(host.data(), host.size(), 0));
  const CUdeviceptr plain = allocate(kBytes, 1);
  ok(cu.cuMemcpyDtoH(pinned, plain, kBytes));
  ok(cu.cuMemcpyDtoH(host.data(), plain, kBytes));
  holds("both were written", std::memcmp(host.data(), pinned, kBytes) == 0);
  for (void* const memory : {pinned, static_cast<void*>(host.data())}) {
    CUdeviceptr mapped = 0;
    ok(cu.cuMemHostGetDevicePointer(&mapped, memory, 0));
    holds("type",
          attribute<CUmemorytype>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, mapped) == CU_MEMORYTYPE_HOST);
  }
  grants("cuMemHostUnregister", cu.cuMemHostUnregister(host.data()));
  grants("cuMemFreeHost", cu.cuMemFreeHost(pinned));
  refuses("of device memory", cu.cuMemFreeHost(reinterpret_cast<void*>(plain)));
}

PROMISE(kinds_of_memory_do_not_overlap, "No two kinds of memory share a byte.") {
  const Stream stream;
  CUdeviceptr managed = 0;
  ok(cu.cuMemAllocManaged(&managed, kBytes, CU_MEM_ATTACH_GLOBAL));
  const std::vector<CUdeviceptr> blocks{allocate(kBytes), allocate_in(stream), managed,
                                        allocate(kBytes), allocate_in(stream)};
  ok(cu.cuStreamSynchronize(stream));
  for (std::uint32_t i = 0; i < blocks.size(); ++i) {
    programs::write_pattern(cu, blocks[i], kBytes, i);
  }
  for (std::uint32_t i = 0; i < blocks.size(); ++i) {
    has_pattern("a block", blocks[i], kBytes, i);
  }
}

PROMISE(pool_memory_is_reused_in_stream_order,
        "cuMemFreeAsync keeps the memory until the stream gets there, also for cuMemAlloc.") {
  const Stream stream;
  const CUdeviceptr pooled = allocate_in(stream);
  keep_busy(stream);
  ok(cu.cuMemsetD8Async(pooled, 0xee, kBytes, stream));
  ok(cu.cuMemFreeAsync(pooled, stream));
  Successors(kBytes).are_left_alone();
}
