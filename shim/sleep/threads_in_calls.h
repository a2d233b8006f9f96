// Which threads of the process are in a call through a gate (gates.h).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>

namespace cubfc {

// What a look at all threads but the calling one has found. kUnknown: a thread's cell cannot be
// read, so nothing may be assumed of that thread.
struct ThreadsInCalls {
  enum class Found : std::uint8_t { kNone, kSome, kUnknown };
  Found found;
  pid_t thread;  // one that is in a call, or cannot be read
};

// Precondition: the gates are stopped. Looks at the cells of all threads, in memory of theirs: a
// thread's cell is as far from the thread's list of robust mutexes as the caller's is from its own
// (both lie beside the thread's stack), and the kernel tells where that list is. Reads by a system
// call that fails if a thread has ended meanwhile.
ThreadsInCalls look_at_threads() noexcept;

// Looks again and again until no thread is in a call. Looks no longer than so long, and stops if
// gives_up() says so.
ThreadsInCalls wait_for_threads(std::chrono::milliseconds most,
                                const std::function<bool()>& gives_up) noexcept;

}  // namespace cubfc
