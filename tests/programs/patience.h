// How long a program waits for what it hopes will not come. For programs that run on any driver,
// where a call that waits in vain cannot be told from one that takes long, but by time.
#pragma once

#include <dirent.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>

namespace programs {

// Time, without that in which a thread of this process wanted a processor and had none: on a
// machine that is busy with other programs it lasts until as much has been done as on an idle one.
// Linux tells that time of each thread (schedstat, Documentation/scheduler/sched-stats.rst); where
// it does not, all time counts. One thread uses it.
class Patience {
 public:
  explicit Patience(std::chrono::nanoseconds most) : left_(most), starved_(starved()) {}

  // Sleeps a millisecond. False when it is over.
  bool lasts() {
    const auto before = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const std::chrono::nanoseconds passed = std::chrono::steady_clock::now() - before;
    const std::chrono::nanoseconds starved_now = starved();
    const std::chrono::nanoseconds starved_since =
        std::max(std::chrono::nanoseconds(0), starved_now - starved_);
    starved_ = starved_now;
    // A machine that stood still did so for all of its programs.
    left_ -= std::min<std::chrono::nanoseconds>(passed, kMostAtOnce) - starved_since;
    return left_.count() > 0;
  }

 private:
  static constexpr std::chrono::milliseconds kMostAtOnce{20};

  // Of all threads that there are now: less than before when one has ended.
  static std::chrono::nanoseconds starved() {
    std::uint64_t ns = 0;
    if (DIR* const threads = opendir("/proc/self/task"); threads != nullptr) {
      while (const dirent* const thread = readdir(threads)) {
        const std::string path = std::string("/proc/self/task/") + thread->d_name + "/schedstat";
        if (std::FILE* const file = std::fopen(path.c_str(), "re"); file != nullptr) {
          unsigned long long running = 0;
          unsigned long long waiting = 0;
          ns += std::fscanf(file, "%llu %llu", &running, &waiting) == 2 ? waiting : 0;
          std::fclose(file);
        }
      }
      closedir(threads);
    }
    return std::chrono::nanoseconds(ns);
  }

  std::chrono::nanoseconds left_;
  std::chrono::nanoseconds starved_;
};

}  // namespace programs
