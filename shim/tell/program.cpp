#include "shim/tell/program.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace cubfc {

std::string command_line(std::size_t most_bytes) {
  std::FILE* const file = std::fopen("/proc/self/cmdline", "re");
  if (file == nullptr) {
    return "?";
  }
  std::string line(most_bytes + 1, '\0');
  line.resize(std::fread(line.data(), 1, line.size(), file));
  std::fclose(file);
  for (char& c : line) {
    const auto byte = static_cast<unsigned char>(c);
    c = byte == 0 ? ' ' : byte < 0x20 || byte == 0x7f ? '?' : c;
  }
  const bool cut = line.size() > most_bytes;
  while (!line.empty() && line.back() == ' ') {
    line.pop_back();
  }
  if (cut && line.size() > most_bytes - 3) {
    line.resize(most_bytes - 3);
    line += "...";
  }
  return line;
}

std::string host_name() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  return host.data();
}

std::string rank_of_process() {
  struct Launcher {
    const char* rank;
    const char* processes;
  };
  constexpr std::array<Launcher, 4> kLaunchers{{{"RANK", "WORLD_SIZE"},
                                                {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                                {"PMI_RANK", "PMI_SIZE"},
                                                {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"}}};
  for (const Launcher& launcher : kLaunchers) {
    const char* const rank = std::getenv(launcher.rank);
    const char* const processes = std::getenv(launcher.processes);
    if (rank != nullptr && processes != nullptr && std::strlen(rank) <= 9 &&
        std::strspn(rank, "0123456789") == std::strlen(rank) && *rank != '\0') {
      return std::strtol(processes, nullptr, 10) > 1 ? std::string("rank ") + rank : "";
    }
  }
  return {};
}

std::string expanded_path(const std::string& path) {
  std::string result;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (path[i] != '%' || i + 1 == path.size()) {
      result += path[i];
    } else if (path[++i] == 'p') {
      result += std::to_string(getpid());
    } else if (path[i] == 'h') {
      result += host_name();
    } else {
      result += std::string("%") + path[i];
    }
  }
  return result;
}

std::string absolute_path(const std::string& path) {
  std::array<char, 4096> folder{};
  const bool is_relative = !path.empty() && path[0] != '/';
  return is_relative && getcwd(folder.data(), folder.size()) != nullptr && folder[0] == '/'
             ? std::string(folder.data()) + '/' + path
             : path;
}

}  // namespace cubfc
