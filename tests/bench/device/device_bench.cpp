// What device memory costs a program, on a real GPU or on the software driver, in the mode that the
// environment sets. One process measures one mode; who starts it in each of them forms the ratios.
// See arguments.h for what it takes.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "arguments.h"
#include "device.h"
#include "inputs.h"
#include "report.h"
#include "sections.h"

namespace cubfc::bench {
namespace {

int complain(const std::string& what, int status) {
  std::fprintf(stderr, "device_bench: %s\n", what.c_str());
  return status;
}

std::vector<Workload> traces_of(const DeviceArguments& arguments) {
  std::vector<Workload> traces;
  if (arguments.measures(Section::kTrace)) {
    for (const std::string& file : arguments.traces) {
      traces.push_back(recorded_input(file));
    }
    if (traces.empty()) {
      traces.push_back(from_trace(programs::synthetic_trace(arguments.quick ? 2000 : 20'000, 1),
                                  "training_like_1", Kind::kSynthetic));
    }
  }
  return traces;
}

class Run {
 public:
  explicit Run(const DeviceArguments& arguments) : arguments_(arguments) {}

  // Growth comes first: it measures the process's first allocation.
  Json measure(const Device& device, const std::vector<Workload>& traces) {
    json_ = {{"machine", json_of_machine()},
             {"device", json_of(device)},
             {"environment", json_of_environment()},
             {"cubfc_loaded", is_cubfc_loaded()},
             {"settings",
              {{"quick", arguments_.quick},
               {"seconds_per_point",
                std::chrono::duration<double>(arguments_.time_per_point).count()}}}};
    section(Section::kGrowth, "growth", [&] { return measure_device_growth(arguments_); });
    section(Section::kPairs, "pairs", [&] { return measure_device_pairs(arguments_); });
    section(Section::kLoop, "loop", [&] { return measure_loop(arguments_); });
    section(Section::kTrace, "trace", [&] { return measure_traces(arguments_, traces); });
    section(Section::kIdle, "idle", [&] { return measure_idle(arguments_); });
    return std::move(json_);
  }

 private:
  template <typename Measure>
  void section(Section wanted, const char* name, Measure measure) {
    if (arguments_.measures(wanted)) {
      const auto found = measure();
      print(found);
      std::fflush(stdout);
      json_[name] = json_of(found);
    }
  }

  const DeviceArguments& arguments_;
  Json json_;
};

int run(const DeviceArguments& arguments) {
  const std::vector<Workload> traces = traces_of(arguments);
  const auto opened = open_device();
  if (const auto* none = std::get_if<std::string>(&opened)) {
    return complain(*none, 77);
  }
  const auto& device = std::get<Device>(opened);
  print(device);
  if (std::ranges::find(arguments.through, Through::kAsync) != arguments.through.end()) {
    keep_freed_memory();
  }
  const Json json = Run(arguments).measure(device, traces);
  if (!arguments.json_file.empty() && !write_json_file(json, arguments.json_file)) {
    return complain(arguments.json_file + " cannot be written", 1);
  }
  return 0;
}

}  // namespace
}  // namespace cubfc::bench

int main(int argc, char** argv) {
  using namespace cubfc::bench;
  try {
    const auto parsed = parse_device_arguments(argc, argv);
    if (const auto* wrong = std::get_if<std::string>(&parsed)) {
      return complain(*wrong + "\n" + kDeviceUsage, 2);
    }
    const auto& arguments = std::get<DeviceArguments>(parsed);
    if (arguments.help) {
      std::fputs(kDeviceUsage, stdout);
      return 0;
    }
    return run(arguments);
  } catch (const std::exception& error) {
    return complain(error.what(), 1);
  }
}
