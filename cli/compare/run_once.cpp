#include "cli/compare/run_once.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <regex>

#include "cli/failure.h"
#include "cli/run/library.h"
#include "cli/run/settings.h"
#include "cli/run/temporary_folder.h"
#include "config/environment.h"
#include "shim/meet/descriptor.h"

namespace cubfc::cli::compare {
namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void fail(const std::string& what) {
  throw Failure{"compare: " + what + ": " + std::strerror(errno)};
}

// A file, not a pipe: a pipe would end only when every process that the program leaves behind has
// closed it.
Descriptor output_file(const std::string& path) {
  Descriptor file(open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600));
  if (!file) {
    fail(path);
  }
  return file;
}

Descriptor file_with(const std::string& input) {
  Descriptor file(memfd_create("input", MFD_CLOEXEC));
  for (std::size_t at = 0; file && at < input.size();) {
    const ssize_t written = write(file.get(), input.data() + at, input.size() - at);
    if (written <= 0) {
      fail("the program's input");
    }
    at += static_cast<std::size_t>(written);
  }
  if (!file || lseek(file.get(), 0, SEEK_SET) != 0) {
    fail("the program's input");
  }
  return file;
}

std::string contents_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> environment_for(const Variables& settings, const std::string& library,
                                         const std::string& log) {
  Variables changes;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string name(*entry, std::strcspn(*entry, "="));
    if (name.starts_with(config::kOwnPrefix)) {
      changes[name] = "";
    }
  }
  const std::string before = variable("LD_PRELOAD");
  if (library.empty()) {
    changes["LD_PRELOAD"] = others_preloaded(before);
  } else {
    changes["LD_PRELOAD"] = preload_with(before, library);
    changes["CUBFC_SHOW_STATS"] = "1";
    changes["CUBFC_LOG_FILE"] = log;
  }
  for (const auto& [name, value] : settings) {
    changes[name] = value;
  }
  return environment_with(changes);
}

// Waits for the child's end, for `most` at most. Returns whether it has ended, and sets `status`.
bool ends_within(pid_t child, std::chrono::duration<double> most, int& status) {
  const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(most);
  const Descriptor handle(static_cast<int>(syscall(SYS_pidfd_open, child, 0)));  // Linux 5.3
  for (;;) {
    if (waitpid(child, &status, WNOHANG) == child) {
      return true;
    }
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count() + 1;
    if (left <= 1) {
      return false;
    }
    pollfd file{handle.get(), POLLIN, 0};
    poll(&file, handle ? 1 : 0, handle ? static_cast<int>(std::min<long>(left, 60'000)) : 1);
  }
}

std::string in_words(int status) {
  if (!WIFSIGNALED(status)) {
    return std::to_string(WEXITSTATUS(status));
  }
  const char* const name = sigabbrev_np(WTERMSIG(status));
  return name == nullptr ? "signal " + std::to_string(WTERMSIG(status)) : std::string("SIG") + name;
}

std::uint64_t number_in(std::string text) {
  std::erase(text, ',');
  return text.empty() ? 0 : std::stoull(text);
}

void read_log(const std::string& path, Run& run) {
  static const std::regex summary(
      "([0-9,]+) allocations? \\((?:([0-9,]+) driver calls?; )?.* the wait for the GPU included");
  for (const std::string& line : lines_of(contents_of(path))) {
    if (line.find(": at the peak by ") != std::string::npos) {
      continue;  // another line of the summary
    }
    std::smatch found;
    if (!std::regex_search(line, found, summary)) {
      run.said.push_back(line.substr(0, line.find('\n')));
      continue;
    }
    Run::Counts counts = run.counts.value_or(Run::Counts{});
    counts.allocations += number_in(found[1]);
    counts.driver_calls += number_in(found[2]);
    run.counts = counts;
  }
}

}  // namespace

Run run_once(const std::vector<std::string>& program, const std::string& path,
             const Variables& settings, const std::string& library, const std::string& input,
             std::chrono::duration<double> most) {
  const TemporaryFolder folder("cubfc-compare");
  if (folder.path().empty()) {
    fail(folder.pattern());
  }
  const std::string log = folder.file("log");
  const std::vector<std::string> entries = environment_for(settings, library, log);
  const std::vector<char*> arguments = pointers_to(program);
  const std::vector<char*> environment = pointers_to(entries);
  const Descriptor out = output_file(folder.file("out"));
  const Descriptor err = output_file(folder.file("err"));
  const Descriptor in = file_with(input);
  Run run;
  const auto start = Clock::now();
  const pid_t child = fork();
  if (child < 0) {
    fail("a process");
  }
  if (child == 0) {
    setsid();  // so that kill() reaches what it has started, too
    dup2(in.get(), STDIN_FILENO);
    dup2(out.get(), STDOUT_FILENO);
    dup2(err.get(), STDERR_FILENO);
    execvpe(path.c_str(), arguments.data(), environment.data());
    _exit(127);
  }
  int status = 0;
  run.is_late = !ends_within(child, most, status);
  if (run.is_late) {
    kill(-child, SIGKILL);
    waitpid(child, &status, 0);
  }
  run.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  run.ended = run.is_late ? "late" : in_words(status);
  run.out = lines_of(contents_of(folder.file("out")));
  run.err = lines_of(contents_of(folder.file("err")));
  read_log(log, run);
  return run;
}

}  // namespace cubfc::cli::compare
