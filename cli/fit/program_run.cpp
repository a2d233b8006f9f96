#include "cli/fit/program_run.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <thread>

#include "cli/failure.h"
#include "cli/run/child_process.h"
#include "cli/run/settings.h"

namespace cubfc::cli::fit {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::string_view kFileOfNotes = "notes-";
constexpr std::string_view kFileOfTrace = "trace-";

std::string joined(const std::vector<std::string>& parts, const std::string& before) {
  std::string all;
  for (const std::string& part : parts) {
    all += (all.empty() ? "" : ":") + part;
  }
  return before.empty() ? all : all + ':' + before;
}

// The libraries to preload: libcubfc.so, those that take the place of NVIDIA's, of which each has
// the soname of one, and libcubfc_fit.so (preload/).
std::vector<std::string> preloaded(const Program& program) {
  std::vector<std::string> all;
  for (const char* const within : {"", "libraries"}) {
    const fs::path folder = fs::path(program.software_gpu) / within;
    std::error_code ignored;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
      const std::string name = entry.path().filename();
      const bool is_one = name.starts_with("libcu") && name.find(".so.") != std::string::npos;
      if (is_one && !name.starts_with("libcuda.") && !name.starts_with("libcupti.")) {
        all.push_back(entry.path());
      }
    }
  }
  std::ranges::sort(all);
  all.push_back(program.software_gpu + "/libcubfc_fit.so");
  all.insert(all.begin(), program.library);
  return all;
}

std::vector<std::string> environment_for(const Program& program, const Gpu& gpu,
                                         const Conditions& conditions, const std::string& folder) {
  Variables changes;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string name(*entry, std::strcspn(*entry, "="));
    if (name.starts_with("CUBFC_") || name.starts_with("STANDIN_") ||
        name == "CUDA_VISIBLE_DEVICES") {
      changes[name] = "";
    }
  }
  changes["LD_PRELOAD"] = joined(preloaded(program), variable("LD_PRELOAD"));
  changes["LD_LIBRARY_PATH"] = joined({program.software_gpu, program.software_gpu + "/libraries"},
                                      variable("LD_LIBRARY_PATH"));
  changes["PYTHONPATH"] = joined({program.software_gpu + "/python"}, variable("PYTHONPATH"));
  changes["CUBFC_ALLOCATOR"] = "platform";  // each request goes to the driver, and is recorded
  changes["CUBFC_LOG_FILE"] = folder + "/cubfc.log";
  changes["CUBFC_TRACE"] = folder + '/' + std::string(kFileOfTrace) + "%p.cubfc";
  changes["CUBFC_TRACE_STACKS"] = "24";
  changes["CUBFC_FIT_NOTES"] = folder + '/' + std::string(kFileOfNotes) + "%p.json";
  changes["CUBFC_FIT_STEPS"] = std::to_string(program.steps);
  changes["CUBFC_FIT_SECONDS"] = std::to_string(program.seconds);
  changes["CUBFC_FIT_RANDOM_WEIGHTS"] = program.random_weights ? "1" : "";
  changes["STANDIN_DATA"] = "none";
  changes["STANDIN_DEVICES"] = std::to_string(program.gpus);
  changes["STANDIN_NAME"] = gpu.device_name;
  changes["STANDIN_MEMORY"] = std::to_string(conditions.memory) + "B";
  changes["STANDIN_CONTEXT"] = std::to_string(gpu.context_bytes) + "B";
  changes["STANDIN_CAPABILITY"] =
      std::to_string(gpu.capability / 10) + '.' + std::to_string(gpu.capability % 10);
  changes["STANDIN_SMS"] = std::to_string(gpu.multiprocessors);
  changes["STANDIN_THREADS_PER_SM"] = std::to_string(gpu.threads);
  changes["STANDIN_CUDNN_WORKSPACE"] = std::to_string(conditions.convolutions);
  changes["STANDIN_SHARED"] = folder + "/gpus";  // each process sees what the others have taken
  changes["STANDIN_REFUSED"] = folder + "/refused";
  return environment_with(changes);
}

std::string contents_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> files_of(const std::string& folder, std::string_view beginning) {
  std::vector<std::string> files;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().filename().string().starts_with(beginning) &&
        entry.path().extension() != ".new") {
      files.push_back(entry.path());
    }
  }
  std::ranges::sort(files);
  return files;
}

// The notes that cubfc_fit/notes.py has written to a file. Nothing where the file has no such
// notes.
std::optional<ProcessNotes> notes_in(const std::string& path) {
  const Json json = Json::parse(contents_of(path), nullptr, false);
  if (!json.is_object()) {
    return std::nullopt;
  }
  ProcessNotes notes;
  notes.pid = pid_in(path);
  try {
    notes.state = json.value("state", "running");
    notes.waited_at = json.value("waited_at", "");
    notes.communicators = json.value("communicators", std::vector<std::uint64_t>());
    notes.torch = json.value("torch", "");
    notes.cuda = json.contains("cuda") && json["cuda"].is_string() ? json["cuda"] : "";
    notes.allocated = json.value("allocated", std::uint64_t{0});
    notes.reserved = json.value("reserved", std::uint64_t{0});
    notes.steps = json.value("steps", std::uint64_t{0});
    notes.peak_step = json.value("peak_step", std::uint64_t{0});
    notes.seconds = json.value("seconds", 0.0);
    notes.peak_seconds = json.value("peak_seconds", 0.0);
    for (const Json& each : json.value("notes", Json::array())) {
      notes.notes.push_back({each.at("kind"), each.at("what"), each.at("line"), each.at("detail"),
                             each.at("count"), each.at("elements")});
    }
  } catch (const Json::exception&) {
    return std::nullopt;
  }
  return notes;
}

std::vector<ProcessNotes> all_notes_in(const std::string& folder) {
  std::vector<ProcessNotes> all;
  for (const std::string& file : files_of(folder, kFileOfNotes)) {
    if (std::optional<ProcessNotes> notes = notes_in(file)) {
      all.push_back(std::move(*notes));
    }
  }
  return all;
}

std::string last_lines(const std::string& text) {
  constexpr std::size_t kLines = 20;
  std::size_t at = text.size();
  for (std::size_t lines = 0; at > 0; --at) {
    lines += text[at - 1] == '\n' && at != text.size() ? 1 : 0;
    if (lines == kLines) {
      break;
    }
  }
  return text.substr(at);
}

std::vector<std::string> lines_in(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    if (!line.empty() && std::ranges::find(lines, line) == lines.end()) {
      lines.push_back(line);
    }
    at = end + 1;
  }
  return lines;
}

std::string in_words(int status) {
  if (!WIFSIGNALED(status)) {
    return "with status " + std::to_string(WEXITSTATUS(status));
  }
  const char* const name = sigabbrev_np(WTERMSIG(status));
  return name == nullptr ? "by signal " + std::to_string(WTERMSIG(status))
                         : std::string("by SIG") + name;
}

std::atomic<int> the_signal{0};  // the signal that is to end all runs; 0: none

// A child with a process group of its own. The destructor and end() kill the whole group, so that
// what the program has started ends with it.
class Child {
 public:
  explicit Child(pid_t pid) : pid_(pid) {}
  ~Child() { end(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  bool has_ended() {
    int status = 0;
    if (!is_over_ && waitpid(pid_, &status, WNOHANG) == pid_) {
      is_over_ = true;
      status_ = status;
    }
    return is_over_;
  }
  int status() const { return status_; }
  void end() {
    kill(-pid_, SIGKILL);
    if (!is_over_) {
      waitpid(pid_, &status_, 0);
      is_over_ = true;
    }
  }

 private:
  const pid_t pid_;
  int status_ = 0;
  bool is_over_ = false;
};

pid_t start(const Program& program, bool shows_output, const std::vector<std::string>& entries,
            const std::string& output) {
  const std::vector<char*> arguments = pointers_to(program.words);
  const std::vector<char*> environment = pointers_to(entries);
  const int file = open(output.c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const pid_t child = fork_with_this();
  if (child == 0) {
    setpgid(0, 0);
    dup2(nothing, STDIN_FILENO);
    if (!shows_output) {
      dup2(file, STDOUT_FILENO);
      dup2(file, STDERR_FILENO);
    }
    execve(program.path.c_str(), arguments.data(), environment.data());
    _exit(127);
  }
  const int error = errno;
  close(file);
  close(nothing);
  if (child < 0) {
    throw Failure{std::string("fit: no process can be made: ") + std::strerror(error)};
  }
  setpgid(child, child);  // in both processes, as either may come first
  return child;
}

}  // namespace

std::string pid_in(const std::string& path) {
  const std::string name = fs::path(path).stem();
  return name.substr(name.rfind('-') + 1);
}

void end_runs_on_signals() {
  struct sigaction action {};
  action.sa_handler = [](int signal) { the_signal = signal; };
  action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);  // the second ends this process
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    sigaction(signal, &action, nullptr);
  }
}

Run run_on(const Program& program, const Gpu& gpu, const Conditions& conditions,
           const std::string& folder, const Seen& seen) {
  using namespace std::chrono_literals;
  const std::string output = folder + "/output";
  Child child(start(program, program.shows_output && !conditions.is_once_more,
                    environment_for(program, gpu, conditions, folder), output));
  for (auto next = std::chrono::steady_clock::now(); !child.has_ended();) {
    std::this_thread::sleep_for(20ms);
    if (const int signal = the_signal; signal != 0) {
      throw Failure{"fit: interrupted", 128 + signal};
    }
    if (const auto now = std::chrono::steady_clock::now(); now >= next) {
      seen(all_notes_in(folder));
      next = now + 500ms;
    }
  }
  const int status = child.status();
  child.end();
  Run run;
  run.ended = in_words(status);
  run.processes = all_notes_in(folder);
  // Of several ranks, the first that cubfc_fit ends takes the others with it: how those end does
  // not matter.
  const bool was_asked = std::ranges::any_of(
      run.processes, [](const ProcessNotes& notes) { return notes.was_ended(); });
  // PyTorch now and then aborts after the program is done, while Python ends ("terminate called
  // without an active exception").
  const bool was_done =
      WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && !run.processes.empty() &&
      std::ranges::all_of(run.processes,
                          [](const ProcessNotes& notes) { return notes.state == "ended"; });
  run.ended_well = was_asked || was_done || (WIFEXITED(status) && WEXITSTATUS(status) == 0);
  run.traces = files_of(folder, kFileOfTrace);
  run.refused = lines_in(contents_of(folder + "/refused"));
  run.output = last_lines(contents_of(output));
  return run;
}

}  // namespace cubfc::cli::fit
