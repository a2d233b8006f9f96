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

// Read, not mapped: a file that becomes shorter meanwhile must not end us. Nothing, and no problem,
// when its process has just begun.
std::optional<Process> read_process(const std::string& path, int file, std::string& problem) {
  struct stat status {};
  if (fstat(file, &status) != 0) {
    return std::nullopt;
  }
  Process process{path, status.st_dev, status.st_ino, std::make_unique<figures::ProcessFigures>(),
                  status.st_uid};
  auto* const into = reinterpret_cast<char*>(process.figures.get());
  std::size_t have = 0;
  while (have < kBytes) {
    const ssize_t got = pread(file, into + have, kBytes - have, static_cast<off_t>(have));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      problem = path + ": ends at byte " + std::to_string(have) + ", should have " +
                std::to_string(kBytes);
      return std::nullopt;
    }
    have += static_cast<std::size_t>(got);
  }
  if (!are_usable(*process.figures, problem)) {
    problem = problem.empty() ? "" : path + ": " + problem;
    return std::nullopt;
  }
  return process;
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
  Processes processes;
  for_each_shared_file(figures::kFileKind, [&](const std::string& path, int file) {
    std::string problem;
    if (auto process = read_process(path, file, problem)) {
      processes.all.push_back(std::move(*process));
    } else if (!problem.empty()) {
      processes.unusable.push_back(problem);
    }
  });
  std::sort(processes.all.begin(), processes.all.end(), [](const Process& a, const Process& b) {
    return std::pair(a.figures->pid, a.path) < std::pair(b.figures->pid, b.path);
  });
  return processes;
}

bool ask_for_map(const Process& process, std::size_t device) {
  const std::size_t at = offsetof(figures::ProcessFigures, devices) +
                         device * sizeof(figures::DeviceFigures) +
                         offsetof(figures::DeviceFigures, map_wanted);
  const std::uint32_t wanted = process.figures->devices[device].map_drawn.load() + 1;
  const Descriptor file(
      open(process.path.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  // Another user, in whose folder it lies, may have put another file there.
  struct stat status {};
  return file && fstat(file.get(), &status) == 0 && status.st_dev == process.file_device &&
         status.st_ino == process.file_number && status.st_size >= static_cast<off_t>(kBytes) &&
         pwrite(file.get(), &wanted, sizeof(wanted), static_cast<off_t>(at)) == sizeof(wanted);
}

}  // namespace cubfc::live
