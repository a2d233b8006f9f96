#include "preload/launch.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace cubfc::test {
namespace {

constexpr std::chrono::seconds kPatience{400};

struct ScratchFolder {
  ScratchFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "cubfc-test-XXXXXX").string();
    path = mkdtemp(pattern.data());
  }
  ~ScratchFolder() { std::filesystem::remove_all(path); }
  std::string path;
};

// The folder above this program in which the library under test lies where it was built.
std::filesystem::path build_folder() {
  const std::filesystem::path library =
      std::filesystem::path(CUBFC_TEST_BUILT_LIBRARY).lexically_relative(CUBFC_TEST_BUILD);
  std::filesystem::path folder = std::filesystem::canonical("/proc/self/exe").parent_path();
  while (!std::filesystem::exists(folder / library)) {
    if (folder == folder.parent_path()) {
      throw std::runtime_error("no folder above this program contains " + library.string());
    }
    folder = folder.parent_path();
  }
  return folder;
}

// What the environment says, else `otherwise`.
std::string set_or(const char* variable, const std::string& otherwise) {
  const char* const value = std::getenv(variable);
  return value == nullptr ? otherwise : value;
}

std::string in_programs_build(const std::string& path) {
  return set_or("CUBFC_TEST_PROGRAMS", in_build(CUBFC_TEST_BUILD)) + "/" + path;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

struct Running::Started {
  pid_t pid = 0;
  std::string out;
  std::string err;
  std::string report;
  bool ended = false;
};

Running::Running(const std::vector<std::string>& command, const Environment& environment)
    : started_(std::make_unique<Started>()) {
  static std::atomic<int> number{0};
  const std::string base = scratch("run" + std::to_string(number++));
  Started& started = *started_;
  started.out = base + ".out";
  started.err = base + ".err";
  started.report = base + ".json";

  Environment whole{
      {"LD_LIBRARY_PATH", in_build(CUBFC_TEST_STANDIN)},
      {"STANDIN_MEMORY", "2GiB"},
      {"STANDIN_REPORT", started.report},
      {"LC_ALL", "C.UTF-8"},
      {"XDG_RUNTIME_DIR", runtime_folder()},
      // Programs of the system leak what they please; the programs here are checked bare.
      {"ASAN_OPTIONS", "detect_leaks=0"},
      // Else a program with threads sleeps for a second before it ends.
      {"TSAN_OPTIONS", "atexit_sleep_ms=0"}};
  for (const char* name : {"PATH", "HOME"}) {
    if (const char* value = std::getenv(name)) {
      whole[name] = value;
    }
  }
  for (const auto& [name, value] : environment) {
    whole[name] = value;
  }
  std::vector<std::string> strings;
  for (const auto& [name, value] : whole) {
    strings.push_back(name + "=" + value);
  }
  std::vector<char*> environment_block;
  for (std::string& text : strings) {
    environment_block.push_back(text.data());
  }
  environment_block.push_back(nullptr);
  std::vector<std::string> words = command;
  std::vector<char*> arguments;
  for (std::string& word : words) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);

  started.pid = fork();
  if (started.pid == 0) {
    const int out = open(started.out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const int err = open(started.err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(open("/dev/null", O_RDONLY), 0);
    dup2(out, 1);
    dup2(err, 2);
    execvpe(arguments[0], arguments.data(), environment_block.data());
    _exit(127);
  }
}

Running::Running(Running&& other) noexcept = default;

Running::~Running() {
  if (started_ && !started_->ended) {
    kill(started_->pid, SIGKILL);
    waitpid(started_->pid, nullptr, 0);
  }
}

pid_t Running::pid() const {
  return started_->pid;
}

void Running::wait_for(const std::string& text) const {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (read_file(started_->out).find(text) == std::string::npos) {
    siginfo_t info{};
    if (waitid(P_PID, static_cast<id_t>(started_->pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid != 0 || std::chrono::steady_clock::now() > deadline) {
      throw std::runtime_error("a program has not said \"" + text + "\", but:\n" +
                               read_file(started_->out) + read_file(started_->err));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

Outcome Running::finish() {
  Started& started = *started_;
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  int status = 0;
  bool stopped = false;
  while (waitpid(started.pid, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      kill(started.pid, SIGKILL);
      waitpid(started.pid, &status, 0);
      stopped = true;
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  started.ended = true;
  Outcome outcome;
  outcome.status = stopped ? 124 : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.out = read_file(started.out);
  outcome.err = read_file(started.err);
  if (std::filesystem::exists(started.report)) {
    const auto report = nlohmann::json::parse(read_file(started.report), nullptr, false);
    if (!report.is_discarded()) {
      outcome.driver_calls = report.at("calls").get<std::map<std::string, std::uint64_t>>();
    }
  }
  return outcome;
}

std::string scratch(const std::string& name) {
  static const ScratchFolder kFolder;
  return kFolder.path + "/" + name;
}

std::string runtime_folder() {
  static const std::string kFolder = [] {
    std::string path = scratch("runtime");
    std::filesystem::create_directory(path);
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }();
  return kFolder;
}

std::string in_build(const std::string& path) {
  static const std::filesystem::path kFolder = build_folder();
  return (kFolder / std::filesystem::path(path).lexically_relative(CUBFC_TEST_BUILD)).string();
}

std::string program(const std::string& name) {
  return in_programs_build("tests/programs/" + name);
}

std::string preload_program(const std::string& name) {
  return in_programs_build("tests/preload/" + name);
}

std::string preload(const std::string& others) {
  std::string value = set_or("CUBFC_TEST_SANITIZER", "");
  value +=
      (value.empty() ? "" : ":") + set_or("CUBFC_TEST_LIBRARY", in_build(CUBFC_TEST_BUILT_LIBRARY));
  return value + (others.empty() ? "" : ":") + others;
}

Outcome run(const std::vector<std::string>& command, const Environment& environment) {
  return Running(command, environment).finish();
}

Outcome run_preloaded(const std::vector<std::string>& command, Environment environment) {
  environment.emplace("LD_PRELOAD", preload());
  return run(command, environment);
}

std::vector<Outcome> run_together(const std::vector<std::vector<std::string>>& commands,
                                  const Environment& environment) {
  std::vector<Running> running;
  for (const auto& command : commands) {
    running.emplace_back(command, environment);
  }
  std::vector<Outcome> outcomes;
  for (Running& each : running) {
    outcomes.push_back(each.finish());
  }
  return outcomes;
}

}  // namespace cubfc::test
