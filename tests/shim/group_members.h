// Groups in a folder of the test's own, and members of them in processes of their own.
#pragma once

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "catch.h"
#include "runtime_folder.h"
#include "shim/meet/group.h"

namespace cubfc::test {

inline constexpr std::uint64_t kMi = 1ULL << 20;
inline constexpr DeviceId kDevice{'d', 'e', 'v', 'i', 'c', 'e'};

// And the file of the group "job" in it.
class Folder {
 public:
  std::string folder() const { return runtime_.path + "/cubfc"; }
  std::string file() const { return folder() + "/group-job-64657669636500000000000000000000"; }

 private:
  const RuntimeFolder runtime_;
};

inline std::unique_ptr<Group> join(std::uint64_t limit, const std::string& name = "job") {
  std::string why_not;
  std::unique_ptr<Group> group = Group::join(name, kDevice, limit, why_not);
  INFO(why_not);
  REQUIRE(group != nullptr);
  return group;
}

class Child {
 public:
  explicit Child(const std::function<void()>& run) : pid_(fork()) {
    if (pid_ == 0) {
      run();
      _exit(0);
    }
  }
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  Child& operator=(Child&& other) noexcept {
    std::swap(pid_, other.pid_);
    return *this;
  }
  ~Child() { kill_it(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void kill_it() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(std::exchange(pid_, -1), nullptr, 0);
    }
  }
  // Its exit code; -1 when it was killed.
  int wait() {
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

template <typename T>
T* shared() {
  void* const data =
      mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(data != MAP_FAILED);
  return static_cast<T*>(data);
}

// A member in a process of its own that claims so much, and lives until it is killed.
// `child_lives`: so does a child of its own, with all that it has inherited, as long as nothing can
// be read from this pipe, of which these are the ends.
inline Child member_that_holds(std::uint64_t bytes, std::uint64_t limit,
                               const std::array<int, 2>* child_lives = nullptr) {
  auto* const ready = shared<std::atomic<int>>();
  Child child([=] {
    std::string why;
    const auto group = Group::join("job", kDevice, limit, why);
    *ready = group != nullptr && group->take(bytes) ? 1 : 2;
    if (child_lives != nullptr && fork() == 0) {
      close((*child_lives)[1]);
      char end = 0;
      _exit(static_cast<int>(read((*child_lives)[0], &end, 1)));
    }
    for (;;) {
      pause();
    }
  });
  while (*ready == 0) {
    std::this_thread::yield();
  }
  CHECK(*ready == 1);
  munmap(ready, sizeof(*ready));
  return child;
}

}  // namespace cubfc::test
