// What preloading libcubfc.so adds to the start of a program that never uses a GPU: posix_spawn of
// /bin/true until it has ended, without LD_PRELOAD, with a library that has nothing in it, and with
// this one, in turns.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "json_file.h"

namespace {

constexpr const char* kUsage =
    R"(usage: exec_cost [--library FILE] [--runs N] [--json FILE] [--help]

Starts /bin/true N times without a preload, N times with an empty library and N times with this one,
in turns, and prints the medians in microseconds.

  --library FILE   the library (the one of this build)
  --runs N         how many of each (500)
  --json FILE      also writes the figures to FILE
  --help           this text

Exit status: 0; 1 when a program does not start, the library is not loaded or FILE cannot be
written; 2 for a wrong argument.
)";

struct Arguments {
  std::string library = CUBFC_LIBRARY;
  std::string json_file;
  int runs = 500;
  bool help = false;
};

std::variant<Arguments, std::string> parse_arguments(int count, const char* const* values) {
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    const std::string name = values[i];
    if (name == "--help" || name == "-h") {
      arguments.help = true;
      continue;
    }
    if (name != "--library" && name != "--runs" && name != "--json") {
      return "unknown argument '" + name + "'";
    }
    if (++i == count) {
      return name + " needs a value";
    }
    const std::string_view value = values[i];
    if (name == "--library") {
      arguments.library = value;
    } else if (name == "--json") {
      arguments.json_file = value;
    } else {
      const char* const end = value.data() + value.size();
      const auto [stop, error] = std::from_chars(value.data(), end, arguments.runs);
      if (error != std::errc() || stop != end || arguments.runs < 1) {
        return "--runs takes a number from 1, not '" + std::string(value) + "'";
      }
    }
  }
  return arguments;
}

// An environment for posix_spawn: this process's, with LD_PRELOAD as wanted.
class Environment {
 public:
  explicit Environment(const std::string& preload) {
    for (char** entry = environ; *entry != nullptr; ++entry) {
      if (!std::string_view(*entry).starts_with("LD_PRELOAD=")) {
        entries_.emplace_back(*entry);
      }
    }
    if (!preload.empty()) {
      entries_.push_back("LD_PRELOAD=" + preload);
    }
    pointers_.reserve(entries_.size() + 1);
    for (std::string& entry : entries_) {
      pointers_.push_back(entry.data());
    }
    pointers_.push_back(nullptr);
  }
  char* const* get() const { return pointers_.data(); }

 private:
  std::vector<std::string> entries_;
  std::vector<char*> pointers_;
};

pid_t start(std::vector<std::string> command, const Environment& environment,
            const posix_spawn_file_actions_t* actions) {
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (std::string& word : command) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  pid_t child = 0;
  if (posix_spawn(&child, arguments[0], actions, nullptr, arguments.data(), environment.get()) !=
      0) {
    throw std::runtime_error(command[0] + " cannot be started");
  }
  return child;
}

void wait_for(pid_t child) {
  int status = 0;
  if (waitpid(child, &status, 0) != child || status != 0) {
    throw std::runtime_error("a started program did not end well");
  }
}

double microseconds_to_run_true(const Environment& environment) {
  const auto begin = std::chrono::steady_clock::now();
  wait_for(start({"/bin/true"}, environment, nullptr));
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
      .count();
}

// The dynamic linker only warns when it cannot preload: a child's own mappings tell.
bool is_loaded(const std::string& library, const Environment& environment) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw std::runtime_error("no pipe can be made");
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  const pid_t child = start({"/bin/cat", "/proc/self/maps"}, environment, &actions);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string maps;
  std::array<char, 4096> buffer{};
  for (ssize_t got = 0; (got = read(ends[0], buffer.data(), buffer.size())) > 0;) {
    maps.append(buffer.data(), static_cast<std::size_t>(got));
  }
  close(ends[0]);
  wait_for(child);
  return maps.find(library.substr(library.rfind('/') + 1)) != std::string::npos;
}

double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

int complain(const std::string& what, int status) {
  std::fprintf(stderr, "exec_cost: %s\n", what.c_str());
  return status;
}

int run(const Arguments& arguments) {
  const Environment bare("");
  const Environment empty(CUBFC_EMPTY_LIBRARY);
  const Environment preloaded(arguments.library);
  if (!is_loaded(arguments.library, preloaded)) {
    return complain(arguments.library + " cannot be preloaded", 1);
  }
  std::vector<double> without;
  std::vector<double> with_empty;
  std::vector<double> with;
  std::vector<double> differences;
  std::vector<double> beyond_empty;
  for (int i = 0; i < arguments.runs; ++i) {
    without.push_back(microseconds_to_run_true(bare));
    with_empty.push_back(microseconds_to_run_true(empty));
    with.push_back(microseconds_to_run_true(preloaded));
    differences.push_back(with.back() - without.back());
    beyond_empty.push_back(with.back() - with_empty.back());
  }
  const double median_without = quantile(without, 0.5);
  const double median_with = quantile(with, 0.5);
  std::printf("/bin/true, %d runs each, in microseconds\n", arguments.runs);
  std::printf("  without the library   median %8.1f   p10 %8.1f\n", median_without,
              quantile(without, 0.1));
  std::printf("  with an empty one     median %8.1f   p10 %8.1f\n", quantile(with_empty, 0.5),
              quantile(with_empty, 0.1));
  std::printf("  with it preloaded     median %8.1f   p10 %8.1f\n", median_with,
              quantile(with, 0.1));
  std::printf("  difference            of the medians %.1f, median of the pairs' %.1f\n",
              median_with - median_without, quantile(differences, 0.5));
  std::printf("  beyond the empty one  of the medians %.1f, median of the pairs' %.1f\n",
              median_with - quantile(with_empty, 0.5), quantile(beyond_empty, 0.5));
  if (!arguments.json_file.empty()) {
    const cubfc::bench::Json json = {{"runs", arguments.runs},
                                     {"without_us", median_without},
                                     {"with_us", median_with},
                                     {"difference_us", median_with - median_without},
                                     {"median_of_differences_us", quantile(differences, 0.5)},
                                     {"beyond_an_empty_library_us", quantile(beyond_empty, 0.5)}};
    if (!cubfc::bench::write_json_file(json, arguments.json_file)) {
      return complain(arguments.json_file + " cannot be written", 1);
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto parsed = parse_arguments(argc, argv);
    if (const auto* wrong = std::get_if<std::string>(&parsed)) {
      return complain(*wrong + "\nTry 'exec_cost --help'.", 2);
    }
    const auto& arguments = std::get<Arguments>(parsed);
    if (arguments.help) {
      std::fputs(kUsage, stdout);
      return 0;
    }
    return run(arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "exec_cost: %s\n", error.what());
    return 1;
  }
}
