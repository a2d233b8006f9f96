#include "cli/live/processes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <utility>

#include "shim/meet/descriptor.h"
#include "shim/meet/shared_files.h"

namespace cubfc::live {
namespace {

constexpr std::size_t kBytes = sizeof(figures::ProcessFigures);

// Reads all figures of a file. Returns how many bytes were read: kBytes, or fewer if the file ends
// before.
std::size_t read_figures(int file, figures::ProcessFigures& figures) {
  auto* const into = reinterpret_cast<char*>(&figures);
  std::size_t have = 0;
  while (have < kBytes) {
    const ssize_t got = pread(file, into + have, kBytes - have, static_cast<off_t>(have));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      break;
    }
    have += static_cast<std::size_t>(got);
  }
  return have;
}

// Reads a file and does not map it: one that becomes shorter meanwhile would end this process.
// Returns nothing, and leaves `problem` empty, when the file's process has just begun.
//
// The process writes while the file is read. Each figure is one word, which the kernel copies
// whole. The process writes texts, and what never changes, before the figure that announces them:
// `magic`, `ready` of each device, the number of callers. One read may copy the file in any order,
// so the file is read twice; what the first read does not find announced counts as not there.
std::optional<Process> read_process(const std::string& path, int file, std::string& problem) {
  struct stat status {};
  if (fstat(file, &status) != 0) {
    return std::nullopt;
  }
  Process process{path, status.st_dev, status.st_ino, std::make_unique<figures::ProcessFigures>(),
                  status.st_uid};
  figures::ProcessFigures& figures = *process.figures;
  std::vector<bool> ready;
  std::uint32_t callers = 0;
  for (const bool is_first : {true, false}) {
    if (const std::size_t have = read_figures(file, figures); have < kBytes) {
      problem = path + ": ends at byte " + std::to_string(have) + ", should have " +
                std::to_string(kBytes);
      return std::nullopt;
    }
    if (!are_usable(figures, problem)) {
      problem = problem.empty() ? "" : path + ": " + problem;
      return std::nullopt;
    }
    if (is_first) {
      callers = figures.num_callers.load();
      for (const figures::DeviceFigures& device : figures.devices) {
        ready.push_back(device.ready.load() == 1);
      }
    }
  }
  figures.num_callers.store(callers);
  for (std::size_t i = 0; i < ready.size(); ++i) {
    if (!ready[i]) {
      figures.devices[i].ready.store(0);
    }
  }
  return process;
}

Processes read_those_whose_owner(Owner owner) {
  Processes processes;
  const auto look = [&](const std::string& path, int file) {
    std::string problem;
    if (auto process = read_process(path, file, problem)) {
      processes.all.push_back(std::move(*process));
    } else if (!problem.empty()) {
      processes.unusable.push_back(problem);
    }
  };
  for_each_shared_file(figures::kFileKind, look, owner);
  return processes;
}

// Writes into a process's file of figures. False when it cannot be written to, or is no longer
// there.
bool write_into(const Process& process, std::size_t at, const void* data, std::size_t bytes) {
  const Descriptor file(
      open(process.path.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  // The file may lie in another user's folder, and that user may have put another file there.
  struct stat status {};
  return file && fstat(file.get(), &status) == 0 && status.st_dev == process.file_device &&
         status.st_ino == process.file_number && status.st_size >= static_cast<off_t>(kBytes) &&
         pwrite(file.get(), data, bytes, static_cast<off_t>(at)) == static_cast<ssize_t>(bytes);
}

}  // namespace

bool are_usable(const figures::ProcessFigures& figures, std::string& problem) {
  const std::uint32_t magic = figures.magic.load(std::memory_order_acquire);
  const bool usable = magic == figures::kMagic && figures.bytes == kBytes;
  if (magic != 0 && !usable) {
    problem = "holds no figures of this version of cubfc";
  }
  return usable;
}

std::vector<std::size_t> Process::devices() const {
  std::vector<std::size_t> known;
  for (std::size_t i = 0; i < figures->devices.size(); ++i) {
    if (figures->devices[i].ready.load() == 1) {
      known.push_back(i);
    }
  }
  return known;
}

Processes read_processes() {
  Processes processes = read_those_whose_owner(Owner::kLives);
  std::sort(processes.all.begin(), processes.all.end(), [](const Process& a, const Process& b) {
    return std::pair(a.figures->pid, a.path) < std::pair(b.figures->pid, b.path);
  });
  return processes;
}

Processes read_ended_processes() {
  Processes processes = read_those_whose_owner(Owner::kIsDead);
  std::erase_if(processes.all, [](const Process& process) {
    const std::vector<std::size_t> devices = process.devices();
    return std::ranges::none_of(devices, [&](std::size_t device) {
      const figures::Sums sums = figures::sum_of(*process.figures, device);
      return sums.allocations + sums.failures > 0;
    });
  });
  std::ranges::stable_sort(processes.all, [](const Process& a, const Process& b) {
    return a.figures->start_unix_ns > b.figures->start_unix_ns;
  });
  return processes;
}

void note_as_told(const Process& process) {
  const std::uint32_t told = 1;
  write_into(process, offsetof(figures::ProcessFigures, told), &told, sizeof(told));
}

bool ask_for_map(const Process& process, std::size_t device) {
  const std::size_t at = offsetof(figures::ProcessFigures, devices) +
                         device * sizeof(figures::DeviceFigures) +
                         offsetof(figures::DeviceFigures, map_wanted);
  const std::uint32_t wanted = process.figures->devices[device].map_drawn.load() + 1;
  return write_into(process, at, &wanted, sizeof(wanted));
}

}  // namespace cubfc::live
