// A result from a child of the probing process.
#pragma once

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "cases.h"

namespace probe {

/// Forks, runs `body` (CUresult()) in the child, and gives its result. A child that does not answer
/// within `at_most_ms` is ended.
template <class Body>
Answer in_forked_child(const Body& body, int at_most_ms = 5000) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) {
    return unanswered("no pipe");
  }
  const pid_t child = fork();
  if (child == 0) {
    const int result = static_cast<int>(body());
    const bool written = write(ends[1], &result, sizeof(result)) == sizeof(result);
    _exit(written ? 0 : 1);
  }
  close(ends[1]);
  pollfd waiting{.fd = ends[0], .events = POLLIN, .revents = 0};
  int result = 0;
  const bool told =
      poll(&waiting, 1, at_most_ms) > 0 && read(ends[0], &result, sizeof(result)) == sizeof(result);
  close(ends[0]);
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  if (told) {
    return answer(static_cast<CUresult>(result));
  }
  return unanswered("the forked child did not answer");
}

}  // namespace probe
