// How long a program waits for what it hopes will not come. For programs that run on any driver,
// where a call that waits in vain cannot be told from one that takes long, but by time.
#pragma once

#include <dirent.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <string>
#include <thread>
#include <utility>

namespace programs {

// Time, without that in which a thread of this process wanted a processor and had none: on a
// machine that is busy with other programs it lasts until about as much has been done as on an idle
// one. Linux tells that time of each thread (schedstat, Documentation/scheduler/sched-stats.rst);
// where it does not, all time counts. One thread uses it.
class Patience {
 public:
  explicit Patience(std::chrono::nanoseconds most) : left_(most), starved_(starved()) {}

  // Sleeps a millisecond. False when it is over.
  bool lasts() {
    const auto before = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const std::chrono::nanoseconds passed = std::chrono::steady_clock::now() - before;
    // Of the thread that had the least. Not of all together: in that time several can be starved,
    // and it would never be over.
    std::chrono::nanoseconds most_starved{0};
    std::map<std::string, std::chrono::nanoseconds> now = starved();
    for (const auto& [thread, time] : now) {
      const auto known = starved_.find(thread);
      most_starved =
          std::max(most_starved, time - (known == starved_.end() ? time : known->second));
    }
    starved_ = std::move(now);
    // A machine that stood still did so for all of its programs.
    left_ -=
        std::max(std::min<std::chrono::nanoseconds>(passed, kMostAtOnce) - most_starved, kLeast);
    return left_.count() > 0;
  }

 private:
  static constexpr std::chrono::nanoseconds kMostAtOnce = std::chrono::milliseconds(20);
  static constexpr std::chrono::nanoseconds kLeast = std::chrono::microseconds(100);

  // Each thread's, by its number.
  static std::map<std::string, std::chrono::nanoseconds> starved() {
    std::map<std::string, std::chrono::nanoseconds> times;
    if (DIR* const threads = opendir("/proc/self/task"); threads != nullptr) {
      while (const dirent* const thread = readdir(threads)) {
        const std::string path = std::string("/proc/self/task/") + thread->d_name + "/schedstat";
        if (std::FILE* const file = std::fopen(path.c_str(), "re"); file != nullptr) {
          unsigned long long running = 0;
          unsigned long long waiting = 0;
          if (std::fscanf(file, "%llu %llu", &running, &waiting) == 2) {
            times.emplace(thread->d_name, std::chrono::nanoseconds(waiting));
          }
          std::fclose(file);
        }
      }
      closedir(threads);
    }
    return times;
  }

  std::chrono::nanoseconds left_;
  std::map<std::string, std::chrono::nanoseconds> starved_;
};

}  // namespace programs
