#include "cli/run/child_process.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>

#include "cli/run/library.h"

namespace cubfc::cli {
namespace {

constexpr int kNotExecuted = 127;

std::vector<std::string> with_name(const std::vector<std::string>& words) {
  std::vector<std::string> all{"cubfc"};
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

}  // namespace

pid_t fork_with_this() {
  const pid_t self = getpid();
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != self) {  // the parent has ended before prctl()
      _exit(kNotExecuted);
    }
  }
  return child;
}

CommandAgain::CommandAgain(const std::vector<std::string>& words, const Variables& variables)
    : words_(with_name(words)),
      entries_(environment_with(variables)),
      path_(this_command()),
      arguments_(pointers_to(words_)),
      environment_(pointers_to(entries_)) {}

void CommandAgain::execute() const noexcept {
  execve("/proc/self/exe", arguments_.data(), environment_.data());  // works for a replaced file
  execve(path_.c_str(), arguments_.data(), environment_.data());     // works without /proc
  _exit(kNotExecuted);
}

}  // namespace cubfc::cli
