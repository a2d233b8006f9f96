// Contexts and devices: whose memory it is, and what becomes of it.
#include "promise.h"

using namespace conformance;

namespace {

constexpr std::size_t kBytes = 3 * kMiB;

// To the driver, memory that is mapped or of a pool is no context's; that this is all that differs
// is a known difference of another promise.
bool is_of(CUcontext context, CUdeviceptr block) {
  const auto owner = attribute<CUcontext>(CU_POINTER_ATTRIBUTE_CONTEXT, block);
  return owner == context || owner == nullptr;
}

void sees_no_block(CUdeviceptr address) {
  CUdeviceptr start = 0;
  refuses("its start",
          cu.cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address));
  refuses("its free", cu.cuMemFree(address), CUDA_ERROR_INVALID_VALUE);
}

void release_to_zero() {
  unsigned flags = 0;
  for (int active = 1; active != 0;) {
    ok(cu.cuDevicePrimaryCtxRelease(0));
    ok(cu.cuDevicePrimaryCtxGetState(0, &flags, &active));
  }
  ok(cu.cuCtxSetCurrent(nullptr));
}

}  // namespace

PROMISE(memory_belongs_to_the_context_on_top_of_the_stack,
        "An allocation is made in the current context, whatever was pushed and popped before.") {
  const CUcontext second = new_context();
  const CUdeviceptr of_second = allocate(kBytes, 1);
  CUdeviceptr of_primary = 0;
  {
    const Current pushed(primary);
    of_primary = allocate(kBytes, 2);
    const Current again(second);
    holds("of the second", is_of(second, allocate(kBytes)));
  }
  holds("each is its own", is_of(second, of_second) && is_of(primary, of_primary));
  has_pattern("the second's", of_second, kBytes, 1);
  has_pattern("the primary's", of_primary, kBytes, 2);
  ok(cu.cuCtxDestroy(second));
  has_pattern("and after the end of the second", of_primary, kBytes, 2);
}

PROMISE(contexts_do_not_share_memory, "What one context frees, another's block does not notice.") {
  const CUcontext second = new_context();
  for (std::uint32_t i = 0; i < 20; ++i) {
    const CUdeviceptr there = allocate(kBytes / 3, i);
    CUdeviceptr here = 0;
    {
      const Current back(primary);
      here = allocate(kBytes / 3, 100 + i);
    }
    holds("both are intact", programs::count_mismatches(cu, there, kBytes / 3, i) +
                                     programs::count_mismatches(cu, here, kBytes / 3, 100 + i) ==
                                 0);
    free_all({i % 2 == 0 ? here : there});
  }
  ok(cu.cuCtxDestroy(second));
}

PROMISE_ALONE(contexts_come_and_go,
              "A destroyed context takes its memory along, however often it happens.") {
  const std::size_t before = memory_info().free;
  const CUdeviceptr kept = allocate(kBytes, 1);
  for (std::uint32_t i = 0; i < 8; ++i) {
    const CUcontext context = new_context();
    const CUdeviceptr block = allocate(memory_info().free / 2);
    holds("it is the new one's", is_of(context, block));
    has_pattern("another of it", allocate(kBytes, i), kBytes, i);
    ok(cu.cuCtxDestroy(context));
  }
  has_pattern("what was there before", kept, kBytes, 1);
  holds("all is free again", memory_info().free + 64 * kMiB >= before);
}

PROMISE(a_pointer_of_a_destroyed_context_is_none, "It cannot be described and not be freed.") {
  const CUcontext second = new_context();
  const CUdeviceptr block = allocate(kBytes);
  ok(cu.cuCtxDestroy(second));
  sees_no_block(block);
}

PROMISE(a_destroyed_context_serves_no_thread,
        "A thread whose context was destroyed gets an error, until it has another.") {
  const CUcontext second = new_context();
  CUcontext popped = nullptr;
  ok(cu.cuCtxPopCurrent(&popped));
  in_another_thread(second, [&] {
    const CUdeviceptr block = allocate(kBytes);
    in_another_thread(primary, [&] { ok(cu.cuCtxDestroy(second)); });
    CUdeviceptr more = 0;
    refuses("an allocation", cu.cuMemAlloc(&more, kBytes));
    refuses("a free", cu.cuMemFree(block));
    ok(cu.cuCtxSetCurrent(primary));
    grants("an allocation in another", cu.cuMemAlloc(&more, kBytes));
  });
}

PROMISE(a_current_context_that_is_destroyed_leaves_the_stack,
        "cuCtxDestroy pops the context from the caller's stack; the one below serves again.") {
  const CUdeviceptr before = allocate(kBytes, 1);
  const CUcontext second = new_context();
  allocate(kBytes);
  ok(cu.cuCtxDestroy(second));
  CUcontext current = nullptr;
  ok(cu.cuCtxGetCurrent(&current));
  holds("the primary context is current", current == primary);
  holds("it serves", is_of(primary, allocate(kBytes)));
  has_pattern("what it had", before, kBytes, 1);
}

PROMISE_ALONE(a_reset_takes_all_memory_back,
              "cuDevicePrimaryCtxReset ends every allocation; the context can be retained anew.") {
  const CUdeviceptr block = allocate(kBytes);
  const std::size_t before = memory_info().free;
  allocate(before / 2);
  ok(cu.cuDevicePrimaryCtxReset(0));
  ok(cu.cuCtxSetCurrent(nullptr));
  primary = programs::use_device(cu, 0);
  sees_no_block(block);
  holds("its memory is free", memory_info().free + 64 * kMiB >= before);
  const CUdeviceptr fresh = allocate(before / 2);
  grants("a free", cu.cuMemFree(fresh));
  has_pattern("a new block", allocate(kBytes, 3), kBytes, 3);
}

PROMISE(work_goes_on_after_every_reset, "Reset after reset, what comes next works as at first.") {
  for (std::uint32_t i = 0; i < 5; ++i) {
    const CUdeviceptr block = allocate(kBytes, i);
    {
      const Stream stream;  // none of a context that has ended can be destroyed
      ok(cu.cuMemsetD8Async(allocate(kBytes), 0xee, kBytes, stream));
      has_pattern("a block", block, kBytes, i);
    }
    ok(cu.cuMemFree(block));
    ok(cu.cuDevicePrimaryCtxReset(0));
    ok(cu.cuCtxSetCurrent(nullptr));
    primary = programs::use_device(cu, 0);
  }
}

PROMISE_ALONE(a_reset_is_the_primary_contexts_alone,
              "What another context of the device has stays, and it is served on.") {
  allocate(kBytes);
  const CUcontext second = new_context();
  const CUdeviceptr block = allocate(kBytes, 1);
  {
    const Current back(primary);
    ok(cu.cuDevicePrimaryCtxReset(0));
  }
  has_pattern("a block from before", block, kBytes, 1);
  has_pattern("a new one", allocate(kBytes, 2), kBytes, 2);
  ok(cu.cuMemFree(block));
  ok(cu.cuCtxDestroy(second));
  ok(cu.cuCtxSetCurrent(nullptr));
  primary = programs::use_device(cu, 0);
  has_pattern("one of the next primary context", allocate(kBytes, 3), kBytes, 3);
}

PROMISE_ALONE(the_last_release_ends_the_primary_context,
              "Released as often as retained, the primary context is gone with its memory.") {
  const std::size_t before = memory_info().free;
  for (std::uint32_t i = 0; i < 3; ++i) {
    const CUdeviceptr block = allocate(before / 2);
    has_pattern("a block", allocate(kBytes, i), kBytes, i);
    release_to_zero();
    primary = programs::use_device(cu, 0);
    sees_no_block(block);
  }
}

PROMISE(a_release_that_is_not_the_last_ends_nothing,
        "While somebody retains it, the primary context keeps its memory.") {
  CUcontext again = nullptr;
  ok(cu.cuDevicePrimaryCtxRetain(&again, 0));
  const CUdeviceptr block = allocate(kBytes, 1);
  ok(cu.cuDevicePrimaryCtxRelease(0));
  has_pattern("the block", block, kBytes, 1);
  grants("its free", cu.cuMemFree(block));
}

PROMISE_ALONE(devices_have_memory_of_their_own,
              "Memory lies on the device of the current context.") {
  const CUcontext second = second_device();
  const CUdeviceptr here = allocate(kBytes, 1);
  const Current there(second);
  const std::size_t before = memory_info().free;
  const CUdeviceptr block = allocate(kBytes, 2);
  sees("device of the second block", attribute<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, block));
  sees("device of the first", attribute<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, here));
  holds("the second device has less", memory_info().free + kBytes <= before);
  has_pattern("the first", here, kBytes, 1);
  has_pattern("the second", block, kBytes, 2);
}

PROMISE(a_block_is_freed_from_the_other_device, "A free does not ask for the block's own device.") {
  const CUcontext second = second_device();
  const CUdeviceptr here = allocate(kBytes);
  const Current there(second);
  const CUdeviceptr block = allocate(kBytes, 2);
  grants("the first device's block", cu.cuMemFree(here));
  refuses("again", cu.cuMemFree(here), CUDA_ERROR_INVALID_VALUE);
  has_pattern("the second's", block, kBytes, 2);
  const Current back(primary);
  grants("the second device's block", cu.cuMemFree(block));
}

PROMISE(peers_copy_with_and_without_access,
        "cuMemcpyPeer copies between devices, whether access was enabled or not.") {
  const CUcontext second = second_device();
  const CUdeviceptr here = allocate(kBytes, 1);
  const Current there(second);
  const CUdeviceptr block = allocate(kBytes);
  ok(cu.cuMemcpyPeer(block, second, here, primary, kBytes));
  has_pattern("without access", block, kBytes, 1);
  int can = 0;
  ok(cu.cuDeviceCanAccessPeer(&can, 1, 0));
  if (can == 0) {
    lacks("devices that reach each other");
  }
  ok(cu.cuMemsetD8(block, 0, kBytes));
  grants("enabling it", cu.cuCtxEnablePeerAccess(primary, 0));
  refuses("again", cu.cuCtxEnablePeerAccess(primary, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  ok(cu.cuMemcpyDtoD(block, here, kBytes));
  has_pattern("with access", block, kBytes, 1);
  grants("disabling it", cu.cuCtxDisablePeerAccess(primary));
  refuses("again", cu.cuCtxDisablePeerAccess(primary), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
}

PROMISE_ALONE(one_device_out_of_memory_is_not_the_other,
              "A device that is full does not keep another from allocating.") {
  const CUcontext second = second_device();
  const std::size_t most = memory_info().free / 10 * 9;
  allocate(most);
  CUdeviceptr block = 0;
  refuses("more on the first", cu.cuMemAlloc(&block, most), CUDA_ERROR_OUT_OF_MEMORY);
  const Current there(second);
  grants("on the second", cu.cuMemAlloc(&block, kBytes));
  sees("its device", attribute<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, block));
}
