// What must not happen to a program because a library speaks, or waits, inside its calls. One
// argument.
//   tail      calls the runtime through a library that is visible to nobody else
//   pipe      runs out of memory with nobody reading its stderr
//   cancel    runs out of memory in a thread with a pending cancellation
//   cancel_each FUNCTION...  cancels a thread in each of these functions of the driver, which take
//                            their time (STANDIN_LATENCY)
//   cancel_first FUNCTION    cancels a thread in the first allocation and the first free that it
//                            makes, while the driver is in this function
//   last      its main thread ends by pthread_exit, when another has allocated
//   small     allocates under a limit on the size of files
//   dlerror   looks up a name like the driver's in a library that is not the driver
#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>

namespace {

using Allocate = CUresult (*)(CUdeviceptr*, size_t);
Allocate cu_mem_alloc;
CUcontext context;
CUresult (*cu_ctx_set_current)(CUcontext);

template <typename Function>
Function find(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

void use_driver() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  cu_mem_alloc = find<Allocate>(driver, "cuMemAlloc_v2");
  cu_ctx_set_current = find<CUresult (*)(CUcontext)>(driver, "cuCtxSetCurrent");
  find<CUresult (*)(unsigned)>(driver, "cuInit")(0);
  find<CUresult (*)(CUcontext*, CUdevice)>(driver, "cuDevicePrimaryCtxRetain")(&context, 0);
  cu_ctx_set_current(context);
}

int ask_too_much() {
  CUdeviceptr address = 0;
  return cu_mem_alloc(&address, size_t{1} << 40);
}

int tail() {
  void* user = dlopen(CUBFC_TEST_RUNTIME_USER, RTLD_NOW | RTLD_LOCAL);
  void* address = nullptr;
  std::printf("init %d\n", find<int (*)()>(user, "user_init")());
  std::printf("allocate %d\n", find<int (*)(void**)>(user, "user_allocate")(&address));
  std::printf("free %d\n", find<int (*)(void*)>(user, "user_free")(address));
  return address == nullptr ? 1 : 0;
}

int closed_pipe() {
  int ends[2];
  if (pipe(ends) != 0 || dup2(ends[1], 2) < 0) {
    return 1;
  }
  close(ends[0]);
  close(ends[1]);
  use_driver();
  std::printf("error %d\n", ask_too_much());
  return 0;
}

void* cancelled_worker(void*) {
  cu_ctx_set_current(context);
  pthread_cancel(pthread_self());
  std::printf("error %d\n", ask_too_much());
  std::fflush(stdout);
  pthread_testcancel();
  return nullptr;
}

int cancel() {
  use_driver();
  pthread_t thread;
  void* result = nullptr;
  pthread_create(&thread, nullptr, &cancelled_worker, nullptr);
  pthread_join(thread, &result);
  std::printf("cancelled %d\n", result == PTHREAD_CANCELED);
  return 0;
}

// What a thread calls until it is cancelled.
struct Call {
  void* function;
  std::atomic<bool> begun;
};

void* cancelled_in_call(void* data) {
  auto* const call = static_cast<Call*>(data);
  cu_ctx_set_current(context);
  call->begun = true;
  // No function has more arguments. With these each fails, or does nothing.
  using Any = CUresult (*)(void*, void*, void*, void*, void*, void*, void*, void*);
  reinterpret_cast<Any>(call->function)(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                                        nullptr, nullptr);
  pthread_testcancel();
  return nullptr;
}

int cancel_each(int count, char** names) {
  use_driver();
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  for (int i = 0; i < count; ++i) {
    Call call{dlsym(driver, names[i]), false};
    pthread_t thread;
    void* result = nullptr;
    pthread_create(&thread, nullptr, &cancelled_in_call, &call);
    while (!call.begun) {
      usleep(100);
    }
    usleep(2000);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    std::printf("%s: cancelled %d\n", names[i], result == PTHREAD_CANCELED);
    std::fflush(stdout);
  }
  return 0;
}

void* wait_to_be_cancelled() {
  for (;;) {
    usleep(1000);
  }
}

// What a thread's first call in a context takes longer for, it does with its cancellation put off.
int cancel_first() {
  use_driver();
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  static auto* const cu_mem_free = find<CUresult (*)(CUdeviceptr)>(driver, "cuMemFree_v2");
  static CUdeviceptr kept = 0;
  static std::atomic<bool> begun;
  cu_mem_alloc(&kept, 1000);
  CUdeviceptr waiting = 0;
  cu_mem_alloc(&waiting, 1000);
  cu_mem_free(waiting);
  void* (*const calls[])(void*) = {
      [](void*) -> void* {
        cu_ctx_set_current(context);
        CUdeviceptr address = 0;
        begun = true;
        cu_mem_alloc(&address, 1000);
        return wait_to_be_cancelled();
      },
      [](void*) -> void* {
        cu_ctx_set_current(context);
        begun = true;
        cu_mem_free(kept);
        return wait_to_be_cancelled();
      },
  };
  for (auto* const call : calls) {
    begun = false;
    pthread_t thread;
    void* result = nullptr;
    pthread_create(&thread, nullptr, call, nullptr);
    while (!begun) {
      usleep(100);
    }
    usleep(2000);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    std::printf("cancelled %d\n", result == PTHREAD_CANCELED);
    std::fflush(stdout);
  }
  return 0;
}

// The process ends with the last of its own threads.
int last() {
  use_driver();
  pthread_t thread;
  pthread_create(
      &thread, nullptr,
      [](void*) -> void* {
        cu_ctx_set_current(context);
        CUdeviceptr address = 0;
        std::printf("allocate %d\n", cu_mem_alloc(&address, 1000));
        usleep(20'000);
        return nullptr;
      },
      nullptr);
  pthread_exit(nullptr);
}

int small() {
  use_driver();
  const rlimit limit{(2 << 20) + 1, RLIM_INFINITY};
  std::printf("limit %d\n", setrlimit(RLIMIT_FSIZE, &limit));
  CUdeviceptr address = 0;
  std::printf("allocate %d\n", cu_mem_alloc(&address, 1000));
  return 0;
}

int clear_dlerror() {
  void* library = dlopen(CUBFC_TEST_RUNTIME_USER, RTLD_NOW | RTLD_LOCAL);
  void* names = dlopen(CUBFC_TEST_NEXT_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  dlerror();
  const bool found = dlsym(names, "cuThingOfAnother") != nullptr;
  std::printf("found %d, error %d\n", found, dlerror() != nullptr);
  const bool missing = dlsym(library, "cuNowhereToBeFound") != nullptr;
  std::printf("found %d, error %d\n", missing, dlerror() != nullptr);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const char* way = argc > 1 ? argv[1] : "";
  return std::strcmp(way, "tail") == 0           ? tail()
         : std::strcmp(way, "pipe") == 0         ? closed_pipe()
         : std::strcmp(way, "cancel") == 0       ? cancel()
         : std::strcmp(way, "cancel_each") == 0  ? cancel_each(argc - 2, argv + 2)
         : std::strcmp(way, "cancel_first") == 0 ? cancel_first()
         : std::strcmp(way, "last") == 0         ? last()
         : std::strcmp(way, "small") == 0        ? small()
         : std::strcmp(way, "dlerror") == 0      ? clear_dlerror()
                                                 : 2;
}
