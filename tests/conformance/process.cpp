// How processes and threads end and fork with device memory in hand.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "promise.h"

using namespace conformance;

namespace {

constexpr std::size_t kBytes = 100'000;

// Frees a block when it goes itself.
struct Owner {
  const char* what = nullptr;
  CUdeviceptr block = 0;
  ~Owner() {
    if (block != 0) {
      sees(what, cu.cuMemFree(block));
    }
  }
};

Owner of_static_storage{"a static object's free"};
CUdeviceptr of_exit_handler = 0;

}  // namespace

PROMISE(a_forked_child_is_refused_and_its_parent_goes_on,
        "A child that was forked after the first use of CUDA cannot use it; the parent can.") {
  const CUdeviceptr block = allocate(kBytes, 1);
  const pid_t child = fork();
  if (child == 0) {
    CUdeviceptr more = 0;
    std::size_t bytes = 0;
    sees("cuMemAlloc in the child", cu.cuMemAlloc(&more, kBytes));
    sees("cuMemFree in the child", cu.cuMemFree(block));
    sees("cuMemGetInfo in the child", cu.cuMemGetInfo(&bytes, &bytes));
    sees("cuMemGetAddressRange in the child", cu.cuMemGetAddressRange(&more, &bytes, block));
    _exit(3);
  }
  int status = 0;
  waitpid(child, &status, 0);
  sees("the child's status", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  has_pattern("the parent's block", block, kBytes, 1);
  const CUdeviceptr more = allocate(kBytes, 2);
  has_pattern("another", more, kBytes, 2);
  free_all({block, more});
}

PROMISE(a_forked_child_may_end_as_it_likes, "A child that calls exit leaves its parent's memory.") {
  const CUdeviceptr block = allocate(kBytes, 1);
  for (int i = 0; i < 3; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      std::exit(4);
    }
    int status = 0;
    waitpid(child, &status, 0);
    sees("the child's status", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  }
  has_pattern("the parent's block", block, kBytes, 1);
  grants("its free", cu.cuMemFree(block));
}

PROMISE(a_program_may_end_with_live_allocations, "What a process leaves, the driver takes back.") {
  const Stream stream;
  const CUdeviceptr block = allocate(kBytes);
  keep_busy(stream);
  ok(cu.cuMemsetD8Async(block, 0xee, kBytes, stream));
  ok(cu.cuMemFree(allocate(kBytes)));
  holds("it ends", true);
}

PROMISE(exit_handlers_may_free, "The driver serves exit handlers as it served the program.") {
  of_exit_handler = allocate(kBytes);
  std::atexit([] {
    CUdeviceptr more = 0;
    sees("an exit handler's allocation", cu.cuMemAlloc(&more, kBytes));
    sees("its free", cu.cuMemFree(more));
    sees("and of a block from before", cu.cuMemFree(of_exit_handler));
    sees("and again", cu.cuMemFree(of_exit_handler));
  });
}

PROMISE(destructors_of_static_objects_may_free, "A static object may own device memory.") {
  of_static_storage.block = allocate(kBytes);
  static Owner local{"a local static's free"};
  local.block = allocate(kBytes);
}

PROMISE_ALONE(destructors_of_thread_local_objects_may_free, "A thread's own objects may, too.") {
  in_another_thread(primary, [] {
    thread_local Owner owner{"a thread's object's free"};
    owner.block = allocate(kBytes);
  });
  const std::size_t before = memory_info().free;
  holds("the rest works on", memory_info().free == before);
}

PROMISE(a_thread_may_run_when_the_program_ends, "A program may exit while a thread allocates.") {
  static std::atomic<bool> allocates{false};
  std::thread([] {
    ok(cu.cuCtxSetCurrent(primary));
    for (;;) {
      CUdeviceptr block = 0;
      if (cu.cuMemAlloc(&block, kBytes) == CUDA_SUCCESS) {
        allocates = true;
        cu.cuMemFree(block);
      }
    }
  }).detach();
  while (!allocates) {
    std::this_thread::yield();
  }
  holds("it ends", true);
}
