// The ways in which a program can end, and fork, with device memory still allocated. One argument:
// return, exit, quick_exit, _exit, abort, signal, threads, atexit, fork_before, fork_after or
// fork_exec. What it prints before the end, and how it ends, must not depend on what is preloaded.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "driver.h"
#include "pattern.h"

namespace {

using programs::Driver;

Driver driver;

// Leaves one block live, having freed another.
CUdeviceptr work() {
  programs::use_device(driver, 0);
  CUdeviceptr kept = 0;
  CUdeviceptr freed = 0;
  constexpr std::size_t kBytes = 100000;
  programs::must(driver, "cuMemAlloc", driver.cuMemAlloc(&kept, kBytes));
  programs::must(driver, "cuMemAlloc", driver.cuMemAlloc(&freed, kBytes));
  programs::write_pattern(driver, kept, kBytes, 1);
  programs::write_pattern(driver, freed, kBytes, 2);
  programs::must(driver, "cuMemFree", driver.cuMemFree(freed));
  std::printf("wrong bytes: %zu\n", programs::count_mismatches(driver, kept, kBytes, 1));
  std::fflush(stdout);
  return kept;
}

void print_end_of_child(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status)) {
    std::printf("child: exit %d\n", WEXITSTATUS(status));
  } else {
    std::printf("child: signal %d\n", WTERMSIG(status));
  }
  std::fflush(stdout);
}

int with_threads_alive() {
  work();
  CUcontext context = nullptr;
  programs::must(driver, "cuCtxGetCurrent", driver.cuCtxGetCurrent(&context));
  static std::atomic<int> started = 0;
  for (int i = 0; i < 3; ++i) {
    std::thread([context] {
      driver.cuCtxSetCurrent(context);
      // Errors are ignored: the driver may be taken down while this goes on.
      for (;;) {
        CUdeviceptr block = 0;
        if (driver.cuMemAlloc(&block, 5000) == CUDA_SUCCESS) {
          driver.cuMemFree(block);
        }
        ++started;
      }
    }).detach();
  }
  while (started < 100) {
    std::this_thread::yield();
  }
  std::printf("threads are running\n");
  return 0;
}

CUdeviceptr freed_at_exit = 0;

int with_exit_handler() {
  freed_at_exit = work();
  std::atexit([] {
    programs::print_result(driver, "cuMemFree in an exit handler", driver.cuMemFree(freed_at_exit));
    std::fflush(stdout);
  });
  return 0;
}

int fork_before() {
  const pid_t child = fork();
  if (child == 0) {
    work();
    std::exit(0);
  }
  print_end_of_child(child);
  work();
  return 0;
}

int fork_after() {
  const CUdeviceptr kept = work();
  const pid_t child = fork();
  if (child == 0) {
    CUdeviceptr block = 0;
    programs::print_result(driver, "cuMemAlloc in the child", driver.cuMemAlloc(&block, 100));
    programs::print_result(driver, "cuMemFree in the child", driver.cuMemFree(kept));
    std::exit(0);
  }
  print_end_of_child(child);
  programs::print_result(driver, "cuMemFree in the parent", driver.cuMemFree(kept));
  return 0;
}

int fork_exec(const char* self) {
  work();
  const pid_t child = fork();
  if (child == 0) {
    execl(self, self, "return", nullptr);
    _exit(127);
  }
  print_end_of_child(child);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  driver = programs::open_driver(programs::take_via(argc, argv));
  const std::string_view end = argc > 1 ? argv[1] : "return";
  if (end == "threads") {
    return with_threads_alive();
  }
  if (end == "atexit") {
    return with_exit_handler();
  }
  if (end == "fork_before") {
    return fork_before();
  }
  if (end == "fork_after") {
    return fork_after();
  }
  if (end == "fork_exec") {
    return fork_exec("/proc/self/exe");
  }
  work();
  if (end == "return") {
    return 5;
  }
  if (end == "exit") {
    std::exit(6);
  }
  if (end == "quick_exit") {
    std::quick_exit(7);
  }
  if (end == "_exit") {
    _exit(8);
  }
  if (end == "abort") {
    std::abort();
  }
  if (end == "signal") {
    std::raise(SIGTERM);
  }
  std::fprintf(stderr, "%s is not a way to end\n", argv[1]);
  return 2;
}
