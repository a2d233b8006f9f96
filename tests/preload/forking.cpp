// used:  threads use CUDA without a context (physical memory) and ask for the time, while the main
//        thread forks again and again. Each child finds CUDA refused and ends by itself: one that
//        hangs is ended by its alarm, and that is an error.
// first: the same while the threads make the process's first calls, which take long in
//        forking_slowly: each malloc in them sleeps.
// early: a process that has asked CUDA for something before it initialized it forks; its child
//        initializes CUDA and uses it.
#include <cuda.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <thread>
#include <vector>

namespace {

thread_local bool allocates_slowly = false;

}  // namespace

#if CUBFC_TEST_SLOW_MALLOC
extern "C" void* __libc_malloc(std::size_t bytes);  // NOLINT(bugprone-reserved-identifier): glibc's
extern "C" void* malloc(std::size_t bytes) {
  if (allocates_slowly) {
    usleep(2000);
  }
  return __libc_malloc(bytes);
}
#endif

namespace {

constexpr int kThreads = 3;
constexpr int kForks = 300;
constexpr unsigned kSeconds = 20;

CUmemAllocationProp properties() {
  CUmemAllocationProp result{};
  result.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  result.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  return result;
}

// With a clock as loggers write it: localtime_r's lock is not let go in a forked child.
void use(const std::atomic<bool>& stop) {
  const CUmemAllocationProp wanted = properties();
  while (!stop) {
    const std::time_t now = std::time(nullptr);
    std::tm clock{};
    for (int i = 0; i < 50; ++i) {
      localtime_r(&now, &clock);
    }
    CUmemGenericAllocationHandle handle = 0;
    if (cuMemCreate(&handle, 2U << 20U, &wanted, 0) == CUDA_SUCCESS) {
      cuMemRelease(handle);
    }
  }
}

void use_first() {
  allocates_slowly = true;
  CUdeviceptr address = 0;
  cuMemAlloc(&address, 4096);  // refused: there is no context
  allocates_slowly = false;
}

// The driver refuses all of it: the parent has initialized it.
int child() {
  alarm(kSeconds);
  const CUmemAllocationProp wanted = properties();
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr address = 0;
  CUarray array = nullptr;
  CUDA_ARRAY_DESCRIPTOR shape{};
  std::size_t free_bytes = 0;
  const bool refused = cuMemCreate(&handle, 2U << 20U, &wanted, 0) != CUDA_SUCCESS &&
                       cuMemAlloc(&address, 4096) != CUDA_SUCCESS &&
                       cuMemFree(4096) != CUDA_SUCCESS &&
                       cuArrayCreate(&array, &shape) != CUDA_SUCCESS &&
                       cuMemGetInfo(&free_bytes, nullptr) != CUDA_SUCCESS;
  return refused ? 0 : 1;
}

int forked_early() {
  CUdeviceptr address = 0;
  const CUresult before = cuMemAlloc(&address, 4096);
  const pid_t forked = fork();
  if (forked == 0) {
    alarm(kSeconds);
    CUcontext context = nullptr;
    const bool served =
        cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS &&
        cuCtxSetCurrent(context) == CUDA_SUCCESS && cuMemAlloc(&address, 4096) == CUDA_SUCCESS &&
        cuMemsetD8(address, 1, 4096) == CUDA_SUCCESS && cuMemFree(address) == CUDA_SUCCESS;
    std::exit(served ? 0 : 1);
  }
  int status = 0;
  waitpid(forked, &status, 0);
  std::printf("before: %d, the child: %d\n", before, status);
  return status == 0 ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  if (count > 1 && std::strcmp(arguments[1], "early") == 0) {
    return forked_early();
  }
  if (cuInit(0) != CUDA_SUCCESS) {
    return 1;
  }
  const bool first = count > 1 && std::strcmp(arguments[1], "first") == 0;
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] { first ? use_first() : use(stop); });
  }
  int hung = 0;
  int wrong = 0;
  for (int i = 0; i < kForks; ++i) {
    const pid_t forked = fork();
    if (forked == 0) {
      // Half of them run the exit handlers.
      const int result = child();
      i % 2 == 0 ? std::exit(result) : _exit(result);
    }
    int status = 0;
    waitpid(forked, &status, 0);
    hung += WIFSIGNALED(status) ? 1 : 0;
    wrong += WIFEXITED(status) && WEXITSTATUS(status) != 0 ? 1 : 0;
    if (hung > 0) {
      break;
    }
  }
  stop = true;
  for (std::thread& thread : threads) {
    thread.join();
  }
  std::printf("%d hung or crashed, %d answered wrongly\n", hung, wrong);
  return hung + wrong == 0 ? 0 : 1;
}
