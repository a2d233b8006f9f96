#include "cli/check/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "cli/failure.h"
#include "cli/run/child_process.h"
#include "shim/meet/descriptor.h"

namespace cubfc::cli::check {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostOutput = 1 << 20;

struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) {
      throw Failure{std::string("a pipe: ") + std::strerror(errno)};
    }
    out = Descriptor(ends[0]);
    in = Descriptor(ends[1]);
  }
  Descriptor out;
  Descriptor in;
};

// Reads once from the file. False when it has ended.
bool read_more(int file, std::string& text) {
  std::array<char, 4096> buffer{};
  const ssize_t got = read(file, buffer.data(), buffer.size());
  if (got > 0 && text.size() < kMostOutput) {
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return got > 0 || (got < 0 && errno == EINTR);
}

// Reads both until they are closed. False when the time is over before.
bool read_both(Descriptor output, std::string& out, Descriptor errors, std::string& err,
               Clock::time_point until) {
  std::array<pollfd, 2> files{{{output.get(), POLLIN, 0}, {errors.get(), POLLIN, 0}}};
  std::array<std::string*, 2> texts{&out, &err};
  while (files[0].fd >= 0 || files[1].fd >= 0) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    if (left <= 0) {
      return false;
    }
    poll(files.data(), files.size(), static_cast<int>(std::min<long>(left, 1000)));
    for (std::size_t i = 0; i < files.size(); ++i) {
      if (files[i].fd >= 0 && files[i].revents != 0 && !read_more(files[i].fd, *texts[i])) {
        files[i].fd = -1;
      }
      files[i].revents = 0;
    }
  }
  return true;
}

// Waits for the end of the child. False if it has not ended in time. (A kernel older than 5.3 has
// no descriptor for that: there the caller's waitpid() waits, without a limit.)
bool has_ended(pid_t child, Clock::time_point until) {
  const Descriptor process(static_cast<int>(syscall(SYS_pidfd_open, child, 0)));
  pollfd file{process.get(), POLLIN, 0};
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    const int ready = process ? poll(&file, 1, static_cast<int>(std::max<long>(left, 0))) : 1;
    if (ready > 0 || left <= 0) {
      return ready > 0;
    }
  }
}

}  // namespace

std::string ChildEnd::problem() const {
  if (WIFSIGNALED(status)) {
    return std::string("it was ended by a signal: ") + strsignal(WTERMSIG(status));
  }
  return WEXITSTATUS(status) == 0 ? "" : "exit status " + std::to_string(WEXITSTATUS(status));
}

ChildEnd run_child(const std::vector<std::string>& words, const Variables& variables, Errors errors,
                   std::chrono::seconds most) {
  const CommandAgain command{words, variables};
  Pipe output;
  Pipe complaints;
  const pid_t child = fork_with_this();
  if (child < 0) {
    throw Failure{std::string("a process: ") + std::strerror(errno)};
  }
  if (child == 0) {
    dup2(output.in.get(), STDOUT_FILENO);
    if (errors == Errors::kCatch) {
      dup2(complaints.in.get(), STDERR_FILENO);
    }
    command.execute();
  }
  output.in = Descriptor();
  complaints.in = Descriptor();
  ChildEnd end;
  const auto until = Clock::now() + most;
  end.is_late =
      !read_both(std::move(output.out), end.output, std::move(complaints.out), end.errors, until) ||
      !has_ended(child, until);
  if (end.is_late) {
    kill(child, SIGKILL);
  }
  while (waitpid(child, &end.status, 0) < 0 && errno == EINTR) {
  }
  return end;
}

}  // namespace cubfc::cli::check
