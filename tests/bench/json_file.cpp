// Writing a JSON file, and what the machine is.
#include "json_file.h"

#include <cstddef>
#include <fstream>
#include <thread>

namespace cubfc::bench {
namespace {

std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) {
      const std::size_t colon = line.find(": ");
      return colon == std::string::npos ? "" : line.substr(colon + 2);
    }
  }
  return "unknown";
}

}  // namespace

Json json_of_machine() {
  return {{"processor", processor()},
          {"processors", std::thread::hardware_concurrency()},
          {"compiler", __VERSION__}};
}

bool write_json_file(const Json& json, const std::string& file) {
  std::ofstream stream(file);
  stream << json.dump(2) << '\n';
  stream.close();
  return stream.good();
}

}  // namespace cubfc::bench
