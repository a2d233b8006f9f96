// Threads that record, and one of them that does not come back from the file system.
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <semaphore.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "catch.h"
#include "shim/record/trace_recorder.h"

using cubfc::TraceRecorder;

namespace {

constexpr std::uint64_t kOfStuckThread = 2;  // the address in its records

sem_t stopped;
sem_t may_go_on;
bool is_trapped = false;  // by the thread that is stopped alone

// Each file that the calling thread opens from now on stops it, as a file system does that does not
// answer. False where that cannot be had.
bool stop_at_files() {
  std::array<sock_filter, 4> code{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program{code.size(), code.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

void wait_here(int /*signal*/) {
  if (!is_trapped) {
    is_trapped = true;
    sem_post(&stopped);
    while (sem_wait(&may_go_on) != 0) {
    }
  }
}

void record_one(TraceRecorder& recorder, std::uint64_t address) {
  recorder.record({.kind = cubfc::trace::Kind::kGrow, .address = address, .bytes = 1});
}

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("a thread that does not come back from the file ends the recording, not the program") {
  const std::string path =
      std::filesystem::temp_directory_path() / ("cubfc-recorder-test-" + std::to_string(getpid()));
  auto recorder = TraceRecorder::open({path, 64 << 20, 0, false, "a test"});
  REQUIRE(recorder != nullptr);
  sem_init(&stopped, 0, 0);
  sem_init(&may_go_on, 0, 0);
  struct sigaction action {};
  action.sa_handler = &wait_here;
  REQUIRE(sigaction(SIGSYS, &action, nullptr) == 0);
  std::atomic<bool> can_be_stopped{true};
  std::thread stuck([&] {
    can_be_stopped = stop_at_files();
    if (!can_be_stopped) {
      sem_post(&stopped);
    }
    while (can_be_stopped && !is_trapped) {
      record_one(*recorder, kOfStuckThread);
    }
  });
  sem_wait(&stopped);
  if (can_be_stopped) {
    // More than all buffers hold. Each of these would wait for ever.
    constexpr int kMany = 200'000;
    std::thread other([&] {
      for (int i = 0; i < kMany; ++i) {
        record_one(*recorder, 1);
      }
    });
    for (int i = 0; i < kMany; ++i) {
      recorder->record({.kind = cubfc::trace::Kind::kNote}, "with a payload");
    }
    other.join();
    recorder->flush();
    sem_post(&may_go_on);
  } else {
    WARN("no thread can be stopped at its system calls here");
  }
  stuck.join();
  record_one(*recorder, 1);
  recorder.reset();
  const std::string written = content(path);
  CHECK(written.size() > sizeof(cubfc::trace::Header));
  CHECK(written.starts_with(std::string(cubfc::trace::kMagic.begin(), cubfc::trace::kMagic.end())));
  std::filesystem::remove(path);
  std::signal(SIGSYS, SIG_DFL);
}
