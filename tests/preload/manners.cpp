// What must not happen to a program because a library speaks, or waits, inside its calls. One
// argument.
//   tail      calls the runtime through a library that is visible to nobody else
//   pipe      runs out of memory with nobody reading its stderr
//   cancel    runs out of memory in a thread with a pending cancellation
//   cancel_each FUNCTION...  cancels a thread in each of these functions of the driver, once in
//                            each call that comes to the driver by that
//   cancel_first FUNCTION    cancels a thread in the first allocation and the first free that it
//                            makes, when it has come to this function of the driver
//   last      its main thread ends by pthread_exit, and then another that has allocated
//   last_without_proc  the same where /proc cannot be seen any more; prints nothing but "not tried"
//                      where a process may not have another root folder
//   late_without_proc  nor does it allocate before its main thread has ended
//   sandbox   no thread of it may open or lock files any more, and it goes on allocating
//   small     allocates under a limit on the size of files
//   dlerror   looks up a name like the driver's in a library that is not the driver
#include <cuda.h>
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "standin/standin.h"

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

// A thread that is kept where it enters the driver, and cancelled there. The software driver's
// watcher (standin.h) keeps it: it is called on the thread that makes a call.
class CancelledThread {
 public:
  // `call` is made with the context current. The thread is kept in its call number `which`, from 1,
  // of `symbol`, of any of the driver's functions if that is null. If it does not come to that, it
  // waits when it is back.
  CancelledThread(const char* symbol, int which, void (*call)(void*), void* argument)
      : symbol_(symbol), left_(which), call_(call), argument_(argument) {
    using Watch = void (*)(standin_watcher);
    static void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    static const auto watch = find<Watch>(driver, "standin_watch");
    watch(&look_at);
    pthread_create(&thread_, nullptr, &run, this);
  }
  CancelledThread(const CancelledThread&) = delete;
  CancelledThread& operator=(const CancelledThread&) = delete;

  bool was_kept() const { return kept_; }
  // When it is kept, or is back. Whether it has ended by that.
  bool cancel() {
    while (!kept_ && !back_) {
      usleep(100);
    }
    pthread_cancel(thread_);
    cancelled_ = true;
    void* result = nullptr;
    pthread_join(thread_, &result);
    return result == PTHREAD_CANCELED;
  }

 private:
  static void* run(void* data) {
    auto& self = *static_cast<CancelledThread*>(data);
    cu_ctx_set_current(context);
    this_thread = &self;
    self.call_(self.argument_);
    this_thread = nullptr;
    self.back_ = true;
    for (;;) {
      pause();
    }
  }

  // A driver's functions may be cancelled where they sleep. Where cubfc keeps that from this one,
  // it goes on when the cancellation is due.
  static void look_at(const standin_call* call) {
    CancelledThread* const self = this_thread;
    if (self == nullptr || self->kept_ || call->result != nullptr ||
        (self->symbol_ != nullptr && std::strcmp(call->symbol, self->symbol_) != 0) ||
        --self->left_ > 0) {
      return;
    }
    self->kept_ = true;
    while (!self->cancelled_) {
      usleep(100);
    }
    pthread_testcancel();
  }

  static inline thread_local CancelledThread* this_thread = nullptr;

  const char* const symbol_;
  int left_;  // calls until it is kept
  void (*const call_)(void*);
  void* const argument_;
  pthread_t thread_{};
  std::atomic<bool> kept_{false};
  std::atomic<bool> back_{false};
  std::atomic<bool> cancelled_{false};
};

int cancel_each(int count, char** names) {
  use_driver();
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  // No function has more arguments. With these each fails, or does nothing.
  const auto call = [](void* function) {
    using Any = CUresult (*)(void*, void*, void*, void*, void*, void*, void*, void*);
    reinterpret_cast<Any>(function)(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                                    nullptr);
  };
  for (int i = 0; i < count; ++i) {
    bool always = true;
    bool is_kept = true;
    for (int which = 1; is_kept; ++which) {
      CancelledThread thread(nullptr, which, call, dlsym(driver, names[i]));
      always = thread.cancel() && always;
      is_kept = thread.was_kept();
    }
    std::printf("%s: cancelled %d\n", names[i], always);
    std::fflush(stdout);
  }
  return 0;
}

// What a thread's first call in a context takes longer for, it does with its cancellation put off.
int cancel_first(const char* function) {
  use_driver();
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  static auto* const cu_mem_free = find<CUresult (*)(CUdeviceptr)>(driver, "cuMemFree_v2");
  static CUdeviceptr kept = 0;
  cu_mem_alloc(&kept, 1000);
  CUdeviceptr waiting = 0;
  cu_mem_alloc(&waiting, 1000);
  cu_mem_free(waiting);
  void (*const calls[])(void*) = {
      [](void*) {
        CUdeviceptr address = 0;
        cu_mem_alloc(&address, 1000);
      },
      [](void*) { cu_mem_free(kept); },
  };
  for (auto* const call : calls) {
    CancelledThread thread(function, 1, call, nullptr);
    std::printf("cancelled %d\n", thread.cancel());
    std::fflush(stdout);
  }
  return 0;
}

// The process ends with the last of its own threads, which waits for the first.
enum class Allocates : bool { kBefore, kAfter };
int last(Allocates when = Allocates::kBefore) {
  static const Allocates allocates = when;
  use_driver();
  static pthread_t main_thread = pthread_self();
  pthread_t thread;
  pthread_create(
      &thread, nullptr,
      [](void*) -> void* {
        cu_ctx_set_current(context);
        CUdeviceptr address = 0;
        if (allocates == Allocates::kAfter) {
          pthread_join(main_thread, nullptr);
        }
        std::printf("allocate %d\n", cu_mem_alloc(&address, 1000));
        if (allocates == Allocates::kBefore) {
          pthread_join(main_thread, nullptr);
        }
        return nullptr;
      },
      nullptr);
  pthread_exit(nullptr);
}

// In a root folder where there is a folder for files that processes share, and nothing else.
int last_without_proc(Allocates when) {
  if (geteuid() != 0 && unshare(CLONE_NEWUSER) != 0) {
    std::printf("not tried\n");
    return 0;
  }
  use_driver();
  CUdeviceptr address = 0;
  if (when == Allocates::kBefore) {
    std::printf("allocate %d\n", cu_mem_alloc(&address, 1000));
  }
  const std::string root = std::string(std::getenv("XDG_RUNTIME_DIR")) + "/root";
  mkdir(root.c_str(), 0700);
  mkdir((root + "/tmp").c_str(), 0700);
  if (chroot(root.c_str()) != 0 || chdir("/") != 0) {
    std::printf("not tried\n");
    return 0;
  }
  return last(when);
}

int small() {
  use_driver();
  const rlimit limit{(2 << 20) + 1, RLIM_INFINITY};
  std::printf("limit %d\n", setrlimit(RLIMIT_FSIZE, &limit));
  CUdeviceptr address = 0;
  std::printf("allocate %d\n", cu_mem_alloc(&address, 1000));
  return 0;
}

// Files that are to be opened, made, listed or locked: an error, for each thread.
bool forbid_files() {
  constexpr std::array kForbidden{SYS_openat, SYS_flock, SYS_getdents64, SYS_mkdirat, SYS_unlinkat};
  std::vector<sock_filter> code{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const long number : kForbidden) {
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(number), 0, 1));
    code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
  }
  code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

int sandbox() {
  use_driver();
  auto* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  const auto free = find<CUresult (*)(CUdeviceptr)>(driver, "cuMemFree_v2");
  CUdeviceptr small = 0;
  std::printf("allocate %d\n", cu_mem_alloc(&small, 1000));
  std::printf(forbid_files() ? "no files\n" : "not tried\n");
  for (int i = 0; i < 3; ++i) {
    CUdeviceptr large = 0;
    std::printf("allocate %d\n", cu_mem_alloc(&large, size_t{1} << 30));
    std::printf("too much %d\n", ask_too_much());
    std::printf("free %d\n", free(large));
  }
  std::printf("free %d\n", free(small));
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
  return std::strcmp(way, "tail") == 0                ? tail()
         : std::strcmp(way, "pipe") == 0              ? closed_pipe()
         : std::strcmp(way, "cancel") == 0            ? cancel()
         : std::strcmp(way, "cancel_each") == 0       ? cancel_each(argc - 2, argv + 2)
         : std::strcmp(way, "cancel_first") == 0      ? cancel_first(argc > 2 ? argv[2] : "")
         : std::strcmp(way, "last") == 0              ? last()
         : std::strcmp(way, "last_without_proc") == 0 ? last_without_proc(Allocates::kBefore)
         : std::strcmp(way, "late_without_proc") == 0 ? last_without_proc(Allocates::kAfter)
         : std::strcmp(way, "sandbox") == 0           ? sandbox()
         : std::strcmp(way, "small") == 0             ? small()
         : std::strcmp(way, "dlerror") == 0           ? clear_dlerror()
                                                      : 2;
}
