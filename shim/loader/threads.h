// The threads of this process, as Linux lists them.
#pragma once

#include <dirent.h>
#include <sys/types.h>

#include <cstdlib>

namespace cubfc {

// The thread's list of robust mutexes, which the C library gives each thread, and which lies beside
// the thread's own variables. Linux takes it away when the thread ends. nullptr: there is none, or
// Linux does not tell. `thread`: 0 is the calling thread.
void* list_of_mutexes(pid_t thread) noexcept;

// Calls look(thread id) for each thread. False, and errno says why, if /proc does not list them.
template <typename Look>
bool for_each_thread(Look look) noexcept {
  DIR* const listing = opendir("/proc/self/task");
  if (listing == nullptr) {
    return false;
  }
  while (const dirent* const entry = readdir(listing)) {
    if (entry->d_name[0] != '.') {
      look(static_cast<pid_t>(std::strtol(entry->d_name, nullptr, 10)));
    }
  }
  closedir(listing);
  return true;
}

}  // namespace cubfc
