// Promises of CUDA, one by one or all in turn, each in a process of its own. Knows nothing of
// cubfc, and of the promises only their names.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "promise.h"

namespace conformance {

extern bool broken;

namespace {

constexpr int kLacking = 77;
constexpr unsigned kPatienceSeconds = 120;

constexpr const char* kHelp =
    "usage: conformance [--via=linked|dlsym|getproc] [--verbose] [--only=alone|beside]\n"
    "                   [NAME | --list | --help]\n\n"
    "  NAME       checks this promise and prints what it sees\n"
    "  --list     all names, each with its sentence\n"
    "  --verbose  prints what all the others see, too\n"
    "  --only=    those for which nothing else may run on the device; or the others\n"
    "  --via=     how the driver is reached: by the linker, by dlsym, by cuGetProcAddress\n\n"
    "Without a name all are checked. Exit status: 0 kept, 1 broken, 77 this machine cannot tell.\n";

const char* word_of(programs::Via via) {
  return via == programs::Via::kLinked  ? "--via=linked"
         : via == programs::Via::kDlsym ? "--via=dlsym"
                                        : "--via=getproc";
}

int check(const Promise& promise, programs::Via via) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  cu = programs::open_driver(via);
  int devices = 0;
  if (cu.cuInit(0) == CUDA_ERROR_NO_DEVICE || cu.cuDeviceGetCount(&devices) != CUDA_SUCCESS ||
      devices == 0) {
    lacks("device");
  }
  primary = programs::use_device(cu, 0);
  promise.check();
  return broken ? 1 : 0;
}

struct Outcome {
  int status;
  std::string lines;
};

Outcome check_in_a_child(const Promise& promise, programs::Via via) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) {
    std::perror("conformance: pipe");
    std::exit(1);
  }
  const std::string name(promise.name);
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    alarm(kPatienceSeconds);  // also for the program that takes this one's place
    execl("/proc/self/exe", "conformance", word_of(via), name.c_str(), nullptr);
    _exit(127);
  }
  close(ends[1]);
  Outcome outcome{};
  std::array<char, 4096> piece{};
  for (ssize_t got = 0; (got = read(ends[0], piece.data(), piece.size())) > 0;) {
    outcome.lines.append(piece.data(), static_cast<std::size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

std::string verdict(int status) {
  switch (status) {
    case 0:
      return "kept";
    case 1:
      return "broken";
    case kLacking:
      return "lacking";
    default:
      return "status " + std::to_string(status);
  }
}

void print_indented(const std::string& lines) {
  for (std::size_t start = 0; start < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', start), lines.size());
    std::printf("    %s\n", lines.substr(start, end - start).c_str());
    start = end + 1;
  }
}

// Which of them.
enum class Only { kAll, kAlone, kBeside };

std::vector<Promise> chosen_of(Only only) {
  std::vector<Promise> chosen = promises();
  if (only != Only::kAll) {
    std::erase_if(
        chosen, [&](const Promise& promise) { return promise.is_alone != (only == Only::kAlone); });
  }
  return chosen;
}

int check_all(const std::vector<Promise>& chosen, programs::Via via, bool verbose) {
  std::size_t kept = 0;
  std::size_t lacking = 0;
  for (const Promise& promise : chosen) {
    const Outcome outcome = check_in_a_child(promise, via);
    kept += outcome.status == 0 ? 1 : 0;
    lacking += outcome.status == kLacking ? 1 : 0;
    std::printf("%-8s %s\n", verdict(outcome.status).c_str(), std::string(promise.name).c_str());
    if (verbose || (outcome.status != 0 && outcome.status != kLacking)) {
      print_indented(outcome.lines);
    }
  }
  const std::size_t all = chosen.size();
  std::printf("%zu promises: %zu kept, %zu broken, %zu lacking\n", all, kept, all - kept - lacking,
              lacking);
  return kept + lacking < all ? 1 : kept == 0 ? kLacking : 0;
}

void list(const std::vector<Promise>& chosen) {
  for (const Promise& promise : chosen) {
    std::printf("%s\n    %s\n", std::string(promise.name).c_str(),
                std::string(promise.sentence).c_str());
  }
}

int refuse(const char* argument) {
  std::fprintf(stderr, "conformance: '%s' is neither a promise nor an option\n%s", argument, kHelp);
  return 2;
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  using namespace conformance;
  const programs::Via via = programs::take_via(argc, argv);
  const Promise* chosen = nullptr;
  bool verbose = false;
  bool lists = false;
  Only only = Only::kAll;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const auto named = std::ranges::find(promises(), argument, &Promise::name);
    if (argument == "--help") {
      std::fputs(kHelp, stdout);
      return 0;
    }
    if (argument == "--verbose") {
      verbose = true;
    } else if (argument == "--list") {
      lists = true;
    } else if (argument == "--only=alone") {
      only = Only::kAlone;
    } else if (argument == "--only=beside") {
      only = Only::kBeside;
    } else if (named != promises().end() && chosen == nullptr) {
      chosen = &*named;
    } else {
      return refuse(argv[i]);
    }
  }
  if (lists) {
    list(chosen_of(only));
    return 0;
  }
  return chosen != nullptr ? check(*chosen, via) : check_all(chosen_of(only), via, verbose);
}
