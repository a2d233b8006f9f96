// What the driver tells of memory: its range, its attributes, its handles, and how much there is.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include "promise.h"

using namespace conformance;

namespace {

constexpr std::size_t kBytes = 100'000;

void sees_no_block(const char* what, CUdeviceptr address) {
  CUdeviceptr start = 0;
  CUmemorytype type{};
  std::printf("%s\n", what);
  refuses("  cuMemGetAddressRange", cu.cuMemGetAddressRange(&start, nullptr, address));
  refuses("  memory type",
          cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address));
  refuses("  start",
          cu.cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address));
}

unsigned long long id_of(CUdeviceptr address) {
  return attribute<unsigned long long>(CU_POINTER_ATTRIBUTE_BUFFER_ID, address);
}

}  // namespace

PROMISE(the_range_of_an_address_is_its_allocation,
        "cuMemGetAddressRange gives the base and the size of the allocation around an address.") {
  const std::vector<CUdeviceptr> around{allocate(kBytes), allocate(7), allocate(4 * kMiB)};
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{513}, kBytes, 4 * kMiB}) {
    const CUdeviceptr block = allocate(bytes);
    for (const std::size_t offset : {std::size_t{0}, bytes / 2, bytes - 1}) {
      CUdeviceptr base = 0;
      std::size_t size = 0;
      ok(cu.cuMemGetAddressRange(&base, &size, block + offset));
      holds("the base is the block's", base == block);
      sees("size", static_cast<long long>(size));
    }
    grants("without outputs", cu.cuMemGetAddressRange(nullptr, nullptr, block));
  }
}

PROMISE(one_past_the_end_is_not_the_block, "An allocation ends where it ends.") {
  const CUdeviceptr block = allocate(4 * kMiB);
  CUdeviceptr start = 0;
  const CUresult range = cu.cuMemGetAddressRange(&start, nullptr, block + 4 * kMiB);
  holds("its range is another", range != CUDA_SUCCESS || start != block);
  start = 0;
  const CUresult result =
      cu.cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, block + 4 * kMiB);
  holds("its start is another", result != CUDA_SUCCESS || start != block);
}

PROMISE(a_freed_block_is_no_device_pointer, "What was freed is described as what never was.") {
  const CUdeviceptr kept = allocate(kBytes);
  const CUdeviceptr block = allocate(4 * kMiB);
  ok(cu.cuMemFree(block));
  sees_no_block("its base", block);
  sees_no_block("its inside", block + kMiB);
  ok(cu.cuMemFree(kept));
  sees_no_block("another", kept);
}

PROMISE(what_was_never_allocated_is_no_device_pointer,
        "The host's own memory and garbage have no attributes.") {
  const int on_stack = 0;
  sees_no_block("the stack", reinterpret_cast<CUdeviceptr>(&on_stack));
  sees_no_block("garbage", kGarbage);
  sees_no_block("NULL", 0);
}

PROMISE(attributes_describe_the_block,
        "Each attribute is that of the allocation, for its base as for an address inside.") {
  allocate(7);
  const CUdeviceptr block = allocate(kBytes);
  for (const CUdeviceptr at : {block, block + kBytes / 2, block + kBytes - 1}) {
    holds("memory type",
          attribute<CUmemorytype>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at) == CU_MEMORYTYPE_DEVICE);
    holds("context", attribute<CUcontext>(CU_POINTER_ATTRIBUTE_CONTEXT, at) == primary);
    holds("device", attribute<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at) == 0);
    holds("device pointer", attribute<CUdeviceptr>(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, at) == at);
    holds("start", attribute<CUdeviceptr>(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at) == block);
    holds("size", attribute<std::size_t>(CU_POINTER_ATTRIBUTE_RANGE_SIZE, at) == kBytes);
    holds("mapped", flag(CU_POINTER_ATTRIBUTE_MAPPED, at));
    holds("not managed", !flag(CU_POINTER_ATTRIBUTE_IS_MANAGED, at));
    holds("of no pool",
          attribute<CUmemoryPool>(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, at) == nullptr);
    void* host = nullptr;
    refuses("host pointer", cu.cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, at));
  }
}

PROMISE(attributes_that_are_numbers_are_the_drivers,
        "What a device's memory is capable of does not depend on who handed it out.") {
  const CUdeviceptr block = allocate(4 * kMiB);
  for (const CUpointer_attribute which :
       {CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
        CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE,
        CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, CU_POINTER_ATTRIBUTE_MAPPING_SIZE,
        static_cast<CUpointer_attribute>(31)}) {
    std::uint64_t value = 0;
    const std::string name = "attribute " + std::to_string(static_cast<int>(which));
    sees(name, cu.cuPointerGetAttribute(&value, which, block));
    sees(name, static_cast<long long>(value));
  }
  const auto mapping = attribute<CUdeviceptr>(CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, block);
  holds("the mapping begins with the block", mapping == block);
}

PROMISE(attributes_at_once_are_those_one_by_one,
        "cuPointerGetAttributes answers as many calls of cuPointerGetAttribute do.") {
  const CUdeviceptr block = allocate(kBytes);
  CUdeviceptr start = 0;
  std::size_t bytes = 0;
  unsigned long long id = 0;
  int device = -1;
  std::array which{CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                   CU_POINTER_ATTRIBUTE_BUFFER_ID, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  std::array<void*, 4> values{&start, &bytes, &id, &device};
  ok(cu.cuPointerGetAttributes(4, which.data(), values.data(), block + 77));
  holds("they are the same",
        start == block && bytes == kBytes && id == id_of(block) && device == 0);
}

PROMISE(attributes_at_once_of_no_pointer_are_cleared,
        "For what is no device pointer cuPointerGetAttributes succeeds, and its type is none.") {
  const CUdeviceptr valid = allocate(kBytes);
  const CUdeviceptr freed = allocate(kBytes);
  ok(cu.cuMemFree(freed));
  for (const CUdeviceptr at : {valid, freed, kGarbage, valid + 1, freed + 1}) {
    CUmemorytype type = CU_MEMORYTYPE_ARRAY;
    CUdeviceptr start = 1;
    std::size_t bytes = 1;
    std::array which{CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                     CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    std::array<void*, 3> values{&type, &start, &bytes};
    grants("the call", cu.cuPointerGetAttributes(3, which.data(), values.data(), at));
    const bool known = at == valid || at == valid + 1;
    holds("  type", type == (known ? CU_MEMORYTYPE_DEVICE : CUmemorytype{}));
    sees("  size", static_cast<long long>(bytes));
    if (known) {
      holds("  start", start == valid);
    } else {
      sees("  start", static_cast<long long>(start));
    }
  }
}

PROMISE(a_query_needs_an_output, "Where there is nowhere to put an answer there is none.") {
  const CUdeviceptr block = allocate(kBytes);
  refuses("one", cu.cuPointerGetAttribute(nullptr, CU_POINTER_ATTRIBUTE_RANGE_SIZE, block));
  refuses("many", cu.cuPointerGetAttributes(1, nullptr, nullptr, block));
  refuses("none", cu.cuPointerGetAttributes(0, nullptr, nullptr, block));
}

PROMISE(
    buffer_ids_are_never_repeated,
    "CU_POINTER_ATTRIBUTE_BUFFER_ID is unique for the life of the process, and one per block.") {
  std::set<unsigned long long> ids;
  bool one_per_block = true;
  for (int i = 0; i < 500; ++i) {
    const CUdeviceptr block = allocate(kBytes);
    one_per_block = one_per_block && id_of(block) == id_of(block + kBytes - 1);
    ids.insert(id_of(block));
    if (i % 3 != 0) {
      ok(cu.cuMemFree(block));
    }
  }
  sees("ids of 500 blocks", static_cast<long long>(ids.size()));
  holds("one for each block", one_per_block && ids.size() == 500);
  CUcontext const second = new_context();
  holds("another context's is another", ids.insert(id_of(allocate(kBytes))).second);
  ok(cu.cuCtxDestroy(second));
}

PROMISE(sync_memops_is_set_and_read, "CU_POINTER_ATTRIBUTE_SYNC_MEMOPS is what it was set to.") {
  const CUdeviceptr block = allocate(4 * kMiB);
  for (const unsigned value : {1U, 0U, 1U}) {
    grants("setting it", cu.cuPointerSetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, block));
    holds("it is so", flag(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, block + kMiB) == (value == 1));
  }
  const unsigned one = 1;
  refuses("another attribute",
          cu.cuPointerSetAttribute(&one, CU_POINTER_ATTRIBUTE_RANGE_SIZE, block));
  refuses("of NULL",
          cu.cuPointerSetAttribute(&one, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, CUdeviceptr{0}));
  ok(cu.cuMemFree(block));
  refuses("of a freed block",
          cu.cuPointerSetAttribute(&one, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, block));
}

PROMISE(sync_memops_is_of_one_allocation,
        "CU_POINTER_ATTRIBUTE_SYNC_MEMOPS concerns the allocation that it was set for.") {
  const CUdeviceptr block = allocate(kMiB / 2);
  const CUdeviceptr other = allocate(kMiB / 2);
  const unsigned one = 1;
  ok(cu.cuPointerSetAttribute(&one, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, block));
  holds("another block has it not", !flag(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, other));
}

PROMISE(the_total_never_changes, "The total of cuMemGetInfo and cuDeviceTotalMem is one number.") {
  std::size_t total = 0;
  ok(cu.cuDeviceTotalMem(&total, 0));
  const auto same = [&] { holds("it is the same", memory_info().total == total); };
  same();
  const CUdeviceptr block = allocate(100 * kMiB);
  same();
  ok(cu.cuMemFree(block));
  same();
  const CUcontext second = new_context();
  same();
  ok(cu.cuCtxDestroy(second));
}

PROMISE_ALONE(
    free_memory_goes_down_and_up_again,
    "Free memory is within the total, less by what is allocated, and back when it is freed.") {
  const Memory before = memory_info();
  const CUdeviceptr block = allocate(100 * kMiB);
  const Memory with = memory_info();
  ok(cu.cuMemFree(block));
  const Memory after = memory_info();
  holds("within the total", before.free <= before.total && with.free <= with.total);
  holds("down by what was allocated", with.free + 100 * kMiB <= before.free);
  holds("back when it is freed", after.free >= with.free + 100 * kMiB);
}

PROMISE(memory_info_without_outputs_is_no_crash,
        "cuMemGetInfo is answered without an output, too.") {
  std::size_t free = 0;
  std::size_t total = 0;
  for (int round = 0; round < 2; ++round) {
    sees("no free", cu.cuMemGetInfo(nullptr, &total));
    sees("no total", cu.cuMemGetInfo(&free, nullptr));
    sees("neither", cu.cuMemGetInfo(nullptr, nullptr));
    allocate(kBytes);
  }
  sees("no total of the device", cu.cuDeviceTotalMem(nullptr, 0));
  refuses("of no device", cu.cuDeviceTotalMem(&total, 4711));
}

PROMISE(plain_memory_has_no_allocation_handle,
        "cuMemRetainAllocationHandle is for memory that was mapped with cuMemMap.") {
  const CUdeviceptr block = allocate(4 * kMiB);
  CUmemGenericAllocationHandle handle = 0;
  refuses("of a block", cu.cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(block)));
  refuses("of its inside",
          cu.cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(block + 2 * kMiB)));
  refuses("of garbage", cu.cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(kGarbage)));
}

PROMISE(a_dma_buffer_covers_what_is_the_blocks,
        "cuMemGetHandleForAddressRange gives a dma-buf for whole pages of an allocation.") {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const CUdeviceptr block = allocate(4 * kMiB);
  const auto export_range = [&](const char* what, CUdeviceptr at, std::size_t bytes) {
    int file = -1;
    const CUresult result =
        cu.cuMemGetHandleForAddressRange(&file, at, bytes, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
    sees(what, result);
    if (result == CUDA_SUCCESS) {
      close(file);
    }
    return result == CUDA_SUCCESS;
  };
  if (!export_range("the block", block, 4 * kMiB)) {
    lacks("dma-buf");
  }
  holds("pages of it", export_range("its second half", block + 2 * kMiB, 2 * kMiB) &&
                           export_range("its last page", block + 4 * kMiB - page, page));
  holds("no part of a page", !export_range("an unaligned start", block + 512, page) &&
                                 !export_range("an unaligned size", block, 1000));
  ok(cu.cuMemFree(block));
  holds("nothing when it is freed", !export_range("freed", block, 4 * kMiB));
}

PROMISE(
    a_handle_for_other_processes_is_the_blocks,
    "cuIpcGetMemHandle gives one handle for an allocation, whichever address inside it is asked.") {
  const CUdeviceptr block = allocate(2 * kMiB);
  const CUdeviceptr other = allocate(2 * kMiB);
  const auto handle_of = [](CUdeviceptr address) {
    CUipcMemHandle handle{};
    ok(cu.cuIpcGetMemHandle(&handle, address));
    return handle;
  };
  const auto same = [](const CUipcMemHandle& one, const CUipcMemHandle& two) {
    return std::memcmp(&one, &two, sizeof(one)) == 0;
  };
  holds("the same inside", same(handle_of(block), handle_of(block + kMiB)));
  holds("the same again", same(handle_of(block), handle_of(block)));
  holds("another for another", !same(handle_of(block), handle_of(other)));
  ok(cu.cuMemFree(block));
  CUipcMemHandle handle{};
  refuses("of a freed block", cu.cuIpcGetMemHandle(&handle, block));
  refuses("without an output", cu.cuIpcGetMemHandle(nullptr, other));
}
