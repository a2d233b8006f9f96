#include "cli/metrics/names.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>
#include <vector>

#include "cli/live/users.h"

namespace cubfc::cli {
namespace {

// The value of a line "NAME:   VALUE"; empty where there is none.
std::string value_in(const std::string& path, std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name) && line.substr(name.size()).starts_with(':')) {
      const std::size_t start = line.find_first_not_of(" \t", name.size() + 1);
      return start == std::string::npos ? "" : line.substr(start);
    }
  }
  return {};
}

}  // namespace

// nvidia-smi counts GPUs by their places on the bus, which are the folders' names: "0000:17:00.0".
// It does not count a GPU that an administrator has excluded.
std::map<std::string, int> gpu_numbers_in(const std::string& folder) {
  std::vector<std::string> places;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    places.push_back(entry->path().string() + "/information");
  }
  std::ranges::sort(places);
  std::map<std::string, int> numbers;
  int next = 0;
  for (const std::string& information : places) {
    if (value_in(information, "GPU Excluded") == "Yes") {
      continue;
    }
    if (const std::string id = value_in(information, "GPU UUID"); !id.empty()) {
      numbers.emplace(id, next);
    }
    ++next;
  }
  return numbers;
}

void learn(Names& names, const live::Processes& processes) {
  bool is_gpu_new = false;
  for (const live::Process& process : processes.all) {
    std::string& name = names.users[process.user];
    if (name.empty()) {
      name = live::listed_name(process.user);
    }
    for (const std::size_t place : process.devices()) {
      const std::string id = figures::uuid_text(process.figures->devices[place]);
      is_gpu_new |= !id.empty() && names.gpus_asked_for.insert(id).second;
    }
  }
  if (is_gpu_new) {
    names.gpu_numbers = gpu_numbers_in("/proc/driver/nvidia/gpus");
  }
}

}  // namespace cubfc::cli
