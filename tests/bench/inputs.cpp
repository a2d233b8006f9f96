// Reads the traces and lists the synthetic inputs.
#include "inputs.h"

#include <algorithm>
#include <system_error>

namespace cubfc::bench {

Workload recorded_input(const std::filesystem::path& file) {
  programs::Trace trace;
  try {
    trace = programs::read_trace(file.string());
  } catch (const std::runtime_error& bad) {
    throw BadTrace(bad.what());
  }
  const std::string name = file.stem().string();
  const Kind kind =
      name.find("static") == std::string::npos ? Kind::kTraining : Kind::kStaticLifetime;
  Workload input = from_trace(trace, name, kind);
  if (input.allocations == 0) {
    throw BadTrace(file.string() + ": there is no allocation in it");
  }
  return input;
}

std::vector<Workload> recorded_inputs(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  if (!folder.empty()) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
      if (entry.path().extension() == ".csv") {
        files.push_back(entry.path());
      }
    }
    if (error) {
      throw BadTrace(folder + ": " + error.message());
    }
  }
  std::sort(files.begin(), files.end());
  std::vector<Workload> inputs;
  for (const std::filesystem::path& file : files) {
    inputs.push_back(recorded_input(file));
  }
  return inputs;
}

std::vector<Workload> synthetic_inputs(bool quick) {
  constexpr std::uint64_t kMiB = 1U << 20;
  std::vector<Workload> inputs;
  for (const std::uint64_t seed : {1, 2, 3}) {
    inputs.push_back(from_trace(programs::synthetic_trace(quick ? 2000 : 20000, seed),
                                "training_like_" + std::to_string(seed), Kind::kSynthetic));
  }
  inputs.push_back(slivers("slivers"));
  inputs.push_back(one_size("one_size", 10000, 40000, kMiB));
  inputs.push_back(log_uniform("live_1000", 1000, 20000, 64 * kMiB));
  inputs.push_back(log_uniform("live_10000", 10000, quick ? 5000 : 40000, 64 * kMiB));
  if (!quick) {
    inputs.push_back(log_uniform("live_100000", 100'000, 400'000, 64 * kMiB));
    // A region holds 2 TiB at most, so that a million blocks must be smaller.
    inputs.push_back(log_uniform("live_1000000", 1'000'000, 2'000'000, 16 * kMiB));
  }
  return inputs;
}

}  // namespace cubfc::bench
