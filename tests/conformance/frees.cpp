// What may be freed, from where, and what a free does not do.
#include "promise.h"

using namespace conformance;

namespace {

constexpr std::size_t kBytes = 100'000;

}  // namespace

PROMISE(freeing_null_does_nothing, "cuMemFree of 0 frees nothing and breaks nothing.") {
  const CUdeviceptr block = allocate(kBytes, 1);
  sees("cuMemFree of 0", cu.cuMemFree(0));
  has_pattern("the block", block, kBytes, 1);
}

PROMISE(a_double_free_is_refused,
        "What has been freed is nobody's: freeing it again is an error.") {
  const CUdeviceptr other = allocate(kBytes, 1);
  const CUdeviceptr block = allocate(kBytes);
  grants("the first free", cu.cuMemFree(block));
  refuses("the second", cu.cuMemFree(block), CUDA_ERROR_INVALID_VALUE);
  has_pattern("the other block", other, kBytes, 1);
}

PROMISE(an_interior_free_is_refused_and_frees_nothing,
        "cuMemFree takes what cuMemAlloc returned, and nothing inside it or past it.") {
  for (const std::size_t bytes : {kBytes, 4 * kMiB}) {
    const CUdeviceptr block = allocate(bytes, 1);
    for (const std::size_t offset : {std::size_t{1}, std::size_t{512}, bytes / 2, bytes - 1}) {
      refuses("an address inside", cu.cuMemFree(block + offset), CUDA_ERROR_INVALID_VALUE);
    }
    has_pattern("the block", block, bytes, 1);
    grants("its free", cu.cuMemFree(block));
  }
}

PROMISE(a_free_of_host_memory_is_refused, "cuMemFree frees memory of devices only.") {
  std::vector<char> host(kBytes);
  void* pinned = nullptr;
  ok(cu.cuMemAllocHost(&pinned, kBytes));
  ok(cu.cuMemHostRegister(host.data(), host.size(), 0));
  const int on_stack = 0;
  refuses("of the stack", cu.cuMemFree(reinterpret_cast<CUdeviceptr>(&on_stack)));
  refuses("of pinned memory", cu.cuMemFree(reinterpret_cast<CUdeviceptr>(pinned)));
  refuses("of registered memory", cu.cuMemFree(reinterpret_cast<CUdeviceptr>(host.data())));
  grants("cuMemFreeHost", cu.cuMemFreeHost(pinned));
  grants("cuMemHostUnregister", cu.cuMemHostUnregister(host.data()));
}

PROMISE(a_free_of_garbage_is_refused, "An address that was never allocated cannot be freed.") {
  const CUdeviceptr block = allocate(kBytes);
  refuses("cuMemFree", cu.cuMemFree(kGarbage), CUDA_ERROR_INVALID_VALUE);
  refuses("cuMemFree of -1", cu.cuMemFree(~CUdeviceptr{0}), CUDA_ERROR_INVALID_VALUE);
  refuses("cuMemFreeAsync", cu.cuMemFreeAsync(kGarbage, nullptr));
  grants("cuMemFree of a block", cu.cuMemFree(block));
}

PROMISE(managed_memory_is_freed_by_cuMemFree, "cuMemFree frees memory of cuMemAllocManaged, too.") {
  CUdeviceptr managed = 0;
  ok(cu.cuMemAllocManaged(&managed, kBytes, CU_MEM_ATTACH_GLOBAL));
  grants("the first free", cu.cuMemFree(managed));
  refuses("the second", cu.cuMemFree(managed));
}

PROMISE(pool_memory_is_freed_by_cuMemFree, "cuMemFree frees memory of cuMemAllocAsync, too.") {
  const Stream stream;
  CUdeviceptr block = 0;
  ok(cu.cuMemAllocAsync(&block, kBytes, stream));
  ok(cu.cuStreamSynchronize(stream));
  grants("the first free", cu.cuMemFree(block));
  refuses("the second", cu.cuMemFree(block));
}

PROMISE(plain_memory_is_freed_by_cuMemFreeAsync,
        "cuMemFreeAsync takes memory of cuMemAlloc, once and only by its address.") {
  const Stream stream;
  const CUdeviceptr block = allocate(kBytes);
  refuses("an address inside", cu.cuMemFreeAsync(block + 512, stream));
  grants("the first free", cu.cuMemFreeAsync(block, stream));
  ok(cu.cuStreamSynchronize(stream));
  refuses("the second", cu.cuMemFreeAsync(block, stream));
  refuses("the third", cu.cuMemFree(block));
}

PROMISE(any_thread_may_free, "Memory is freed from any thread in which a context is current.") {
  const CUdeviceptr block = allocate(kBytes);
  in_another_thread(primary, [&] { grants("from another thread", cu.cuMemFree(block)); });
  refuses("again from here", cu.cuMemFree(block), CUDA_ERROR_INVALID_VALUE);
}

PROMISE(any_context_may_free, "Memory is freed whichever context is current, and only once.") {
  const CUdeviceptr block = allocate(kBytes);
  const CUdeviceptr left = allocate(kBytes, 1);
  const CUcontext second = new_context();
  grants("from another context", cu.cuMemFree(block));
  refuses("again from there", cu.cuMemFree(block), CUDA_ERROR_INVALID_VALUE);
  ok(cu.cuCtxDestroy(second));
  has_pattern("another block", left, kBytes, 1);
}

PROMISE(a_free_without_a_context_is_what_it_is,
        "Where no context is current a free is refused, or it happens; never both.") {
  const CUdeviceptr block = allocate(kBytes, 1);
  CUresult result = CUDA_SUCCESS;
  in_another_thread(nullptr, [&] {
    result = cu.cuMemFree(block);
    sees("a block", result);
    sees("an address inside", cu.cuMemFree(block + 512));
    sees("NULL", cu.cuMemFree(0));
  });
  sees("then with one", cu.cuMemFree(block));
  refuses("and again", cu.cuMemFree(block), CUDA_ERROR_INVALID_VALUE);
}

PROMISE_ALONE(a_contexts_memory_goes_with_it,
              "What a destroyed context had cannot be freed any more.") {
  const std::size_t before = memory_info().free;
  const CUcontext second = new_context();
  const CUdeviceptr block = allocate(64 * kMiB);
  ok(cu.cuCtxDestroy(second));
  refuses("its block", cu.cuMemFree(block), CUDA_ERROR_INVALID_VALUE);
  holds("its memory is free", memory_info().free + 32 * kMiB >= before);
}

PROMISE_ALONE(freed_memory_can_be_had_again, "What is freed can be allocated, in whatever sizes.") {
  const std::size_t most = memory_info().free / 10 * 6;
  for (const std::size_t pieces : {1UL, 3UL, 50UL, 7UL, 1UL}) {
    std::vector<CUdeviceptr> blocks;
    for (std::size_t i = 0; i < pieces; ++i) {
      blocks.push_back(allocate(most / pieces));
    }
    free_all(blocks);
  }
  holds("it was", true);
}

PROMISE_ALONE(memory_freed_in_any_order_joins,
              "Neighbours that are freed one by one make room for one.") {
  const std::size_t piece = memory_info().free / 100;
  std::vector<CUdeviceptr> even;
  std::vector<CUdeviceptr> odd;
  for (int i = 0; i < 80; ++i) {
    (i % 2 == 0 ? even : odd).push_back(allocate(piece));
  }
  free_all(odd);
  free_all(even);
  CUdeviceptr block = 0;
  grants("one of 60 pieces", cu.cuMemAlloc(&block, 60 * piece));
}

PROMISE(a_freed_block_says_nothing_of_the_next,
        "A block that takes a freed one's place is another.") {
  const CUdeviceptr first = allocate(2 * kMiB);
  ok(cu.cuMemFree(first));
  const CUdeviceptr second = allocate(kMiB, 3);
  std::size_t bytes = 0;
  ok(cu.cuMemGetAddressRange(nullptr, &bytes, second));
  sees("its size", static_cast<long long>(bytes));
  has_pattern("its bytes", second, kMiB, 3);
  grants("its free", cu.cuMemFree(second));
}
