#include "cli/check/subject.h"

#include <elf.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "cli/check/findings.h"
#include "cli/failure.h"
#include "cli/report/wording.h"
#include "cli/run/library.h"
#include "cli/run/program.h"
#include "cli/run/settings.h"
#include "config/values.h"
#include "config/xla_runtimes.h"
#include "shim/limit/cgroup_memory.h"
#include "shim/meet/descriptor.h"
#include "shim/policy_on_disk.h"
#include "shim/tell/figures.h"

namespace cubfc::cli::check {
namespace {

using report::bytes_text;
using report::printable;

constexpr std::chrono::seconds kPatience{60};

// Opens a file below the folder `root`, which may be a hostile container's: no link leads out of
// it. Where `root` is empty, opens the file as this command sees it. An empty Descriptor: errno
// says why.
Descriptor open_in(const std::string& root, const std::string& path) {
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  if (root.empty()) {
    return Descriptor(open(path.c_str(), kFlags));
  }
  const Descriptor folder(open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder) {
    return Descriptor();
  }
  open_how how{};
  how.flags = kFlags;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  return Descriptor(
      static_cast<int>(syscall(SYS_openat2, folder.get(), path.c_str() + 1, &how, sizeof(how))));
}

// The first `bytes` bytes of a file; nothing where it is no regular file.
std::optional<std::string> beginning_of(const Descriptor& file, std::size_t bytes) {
  struct stat status {};
  if (!file || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return std::nullopt;
  }
  std::string text(bytes, '\0');
  const ssize_t got = pread(file.get(), text.data(), text.size(), 0);
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return text;
}

void read_policy_file_of(Subject& subject) {
  const Descriptor file = open_in(subject.root, config::kPolicyFile);
  if (!file) {
    if (errno != ENOENT && errno != ENOTDIR) {
      subject.unknown.push_back(std::string("cubfc: ") + config::kPolicyFile + ": " +
                                std::strerror(errno));
    }
    return;
  }
  subject.policy_file = read_policy_file(("/proc/self/fd/" + std::to_string(file.get())).c_str());
  subject.policy_file.path = config::kPolicyFile;  // as the process sees it
}

bool is_our_library(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  return name.starts_with(kLibraryName) || name.starts_with(kSleepLibraryName);
}

// The libcubfc.so that LD_PRELOAD or /etc/ld.so.preload names; empty where neither names one.
std::string library_that_is_named(const Subject& subject) {
  constexpr std::size_t kMost = 1U << 16U;
  std::string lists = value_of(subject.environment, "LD_PRELOAD") + " " +
                      beginning_of(open_in(subject.root, "/etc/ld.so.preload"), kMost).value_or("");
  std::replace_if(
      lists.begin(), lists.end(), [](char c) { return c == ':' || c == '\n' || c == '\t'; }, ' ');
  for (const std::string& path : split(lists, ' ')) {
    if (is_our_library(path)) {
      return path;
    }
  }
  return "";
}

// Whether the process gained rights when it was executed, as its auxiliary vector tells the dynamic
// linker: the library takes nothing from the environment of such a process.
bool is_secure(const std::string& auxiliary) {
  std::vector<Elf64_auxv_t> entries(auxiliary.size() / sizeof(Elf64_auxv_t));
  std::memcpy(entries.data(), auxiliary.data(), entries.size() * sizeof(Elf64_auxv_t));
  return std::ranges::any_of(entries, [](const Elf64_auxv_t& entry) {
    return entry.a_type == AT_SECURE && entry.a_un.a_val != 0;
  });
}

// The limits in the file of figures that the library in a process keeps. They are in force,
// whatever the environment says by now. Nothing where it is no such file, or the process has used
// no GPU.
std::optional<std::vector<std::string>> limits_told_in(const Subject& subject,
                                                       const std::string& path) {
  const Descriptor file = open_in(subject.root, path);
  const auto process = std::make_unique<figures::ProcessFigures>();
  constexpr auto kBytes = static_cast<ssize_t>(sizeof(figures::ProcessFigures));
  if (!file || pread(file.get(), process.get(), sizeof(figures::ProcessFigures), 0) != kBytes ||
      process->magic.load() != figures::kMagic) {
    return std::nullopt;
  }
  std::optional<std::vector<std::string>> limits;
  for (const figures::DeviceFigures& device : process->devices) {
    if (device.ready.load() != 1) {
      continue;
    }
    limits = limits ? limits : std::vector<std::string>();
    const std::string group = printable(device.group.get());
    if (figures::read(device.limit_bytes) != ~std::uint64_t{0}) {
      limits->push_back(bytes_text(figures::read(device.limit_bytes)) + " of GPU " +
                        std::to_string(device.number) + " (" +
                        printable(figures::limit_origin(device)) +
                        (group.empty() ? "" : ", group " + group) + "), " +
                        bytes_text(figures::read(device.bytes_taken)) + " taken");
    }
  }
  return limits;
}

// `line`: of /proc/PID/maps, "ADDRESSES r-xp OFFSET DEVICE INODE   PATH".
void look_at_map(Subject& subject, const std::string& line, bool& is_loaded) {
  const std::size_t slash = line.find('/');
  if (slash == std::string::npos) {
    return;
  }
  const std::string path = line.substr(slash);
  const bool is_code = line.find(" r-x") < slash;
  is_loaded = is_loaded || (is_code && is_our_library(path));
  subject.has_xla = subject.has_xla || config::xla_runtime_at(path) != nullptr;
  if (path.find("/" + std::string(figures::kFileKind)) != std::string::npos &&
      !subject.told_limits) {
    subject.told_limits = limits_told_in(subject, path);
  }
}

std::string why_not_looked_at(int error) {
  return error == ENOENT ? "there is no such process"
         : error == ESRCH
             ? "it has ended"
             : std::string(std::strerror(error)) + "; as root, or as its user, it can be looked at";
}

}  // namespace

std::optional<std::string> text_of(const std::string& path) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) {
    return std::nullopt;
  }
  std::string text;
  std::string piece(1U << 16U, '\0');
  for (ssize_t got = 0; (got = read(file.get(), piece.data(), piece.size())) != 0;) {
    if (got < 0) {
      return std::nullopt;
    }
    text.append(piece, 0, static_cast<std::size_t>(got));
  }
  return text;
}

std::vector<std::string> split(const std::string& text, char end) {
  std::vector<std::string> parts;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t stop = std::min(text.find(end, start), text.size());
    parts.push_back(text.substr(start, stop - start));
    start = stop + 1;
  }
  return parts;
}

std::string value_of(const std::vector<std::string>& environment, const std::string& name) {
  for (const std::string& entry : environment) {
    if (entry.starts_with(name + "=")) {
      return entry.substr(name.size() + 1);
    }
  }
  return "";
}

Subject subject_of_process(pid_t process) {
  const std::string folder = "/proc/" + std::to_string(process);
  const std::optional<std::string> environment = text_of(folder + "/environ");
  const std::optional<std::string> maps =
      environment ? text_of(folder + "/maps") : std::optional<std::string>();
  if (!environment || !maps) {
    throw Failure{"check: --enforced " + std::to_string(process) + ": " + why_not_looked_at(errno),
                  kUsage};
  }
  std::string command = text_of(folder + "/cmdline").value_or("");
  std::replace(command.begin(), command.end(), '\0', ' ');
  Subject subject{.name = "process " + std::to_string(process) + ", " +
                          printable(config::trimmed(command))};
  if (!is_secure(text_of(folder + "/auxv").value_or(""))) {
    subject.environment = split(*environment, '\0');
  }
  subject.root = folder + "/root";
  subject.cgroup = cgroup_folder(text_of(folder + "/cgroup").value_or(""));
  read_policy_file_of(subject);
  bool is_loaded = false;
  for (const std::string& line : split(*maps, '\n')) {
    look_at_map(subject, line, is_loaded);
  }
  // A program that changes its title writes that over its arguments and its environment.
  const bool is_overwritten =
      !environment->empty() &&
      std::ranges::none_of(subject.environment, [](const std::string& entry) {
        return entry.find('=') != std::string::npos;
      });
  if (!is_loaded) {
    const std::string named = library_that_is_named(subject);
    subject.why_not_loaded =
        "libcubfc.so is not loaded in the process" +
        (named.empty() ? std::string() : ", although " + printable(named) + " was named");
  } else if (is_overwritten && !subject.environment.empty() && !subject.told_limits) {
    subject.unknown.emplace_back(
        "cubfc: the process has overwritten its environment, and has used no GPU yet");
  }
  return subject;
}

Subject subject_of_program(const std::string& name) {
  const std::string search = search_path();
  const FoundProgram program = name.empty() ? FoundProgram{} : find_program(name, search);
  if (!name.empty() && program.path.empty()) {
    throw Failure{"check: --enforced: " + why_not_found(name, program), kUsage};
  }
  Subject subject{.name = name.empty() ? "what is started here" : printable(name)};
  subject.environment = environment_with({});
  subject.cgroup = cgroup_folder(text_of("/proc/self/cgroup").value_or(""));
  read_policy_file_of(subject);
  // A child of this command finds out whether the dynamic linker loads the library here.
  const auto child = ask_child({"check", "--child=preloaded"}, {{"CUBFC_DISABLE", "1"}},
                               Errors::kCatch, kPatience);
  const std::string loaded = child.value("path", "");
  const std::string named = library_that_is_named(subject);
  if (child.contains("error")) {
    subject.why_not_loaded = "whether libcubfc.so is preloaded here cannot be found out: " +
                             child["error"].get<std::string>();
  } else if (!loaded.empty()) {
    const auto obstacles = name.empty() ? std::vector<std::string>()
                                        : obstacles_to_preload(program.path, loaded, "", search);
    if (!obstacles.empty()) {
      subject.why_not_loaded = obstacles.front();
    }
  } else {
    subject.why_not_loaded = named.empty()
                                 ? "nothing preloads libcubfc.so here (`cubfc run`, LD_PRELOAD or "
                                   "/etc/ld.so.preload does)"
                                 : printable(named) + " is named to be preloaded, and cannot be";
  }
  return subject;
}

}  // namespace cubfc::cli::check
