#include "cli/check/inspect.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/check/driver.h"
#include "cli/json_text.h"
#include "cli/progress.h"
#include "cli/report/wording.h"
#include "shim/cubfc.h"

namespace cubfc::cli::check {
namespace {

using nlohmann::ordered_json;

// Memory is written and read back in pieces of this size. Each piece is filled with a word of its
// own.
constexpr std::uint64_t kPieceBytes = std::uint64_t{16} << 20;
constexpr std::uint64_t kWordBytes = 4;

// What `tell` puts into an object, as one line of JSON; "error" is added where the driver fails.
std::string told(const std::function<void(ordered_json&)>& tell) {
  ordered_json all = ordered_json::object();
  try {
    tell(all);
  } catch (const DriverError& error) {
    all["error"] = report::printable(error.what());
  }
  return json_text(all) + "\n";
}

// Whether a piece still holds the word that was written to all of it.
bool holds(const Context& context, CUdeviceptr address, std::uint64_t bytes, std::uint32_t word,
           std::vector<std::uint32_t>& buffer) {
  const std::uint64_t words = bytes / kWordBytes;
  context.read(buffer.data(), address, words * kWordBytes);
  return std::all_of(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(words),
                     [&](std::uint32_t read) { return read == word; });
}

struct Step {
  CUdeviceptr address;
  std::uint64_t bytes;
};

// Different for any two pieces of a device.
std::uint32_t word_of(std::uint64_t piece) {
  return static_cast<std::uint32_t>(piece) * 0x9e3779b1U + 0x63756266U;
}

template <typename Do>
void for_each_piece(const std::vector<Step>& steps, Do what) {
  std::uint64_t piece = 0;
  for (const Step& step : steps) {
    for (std::uint64_t at = 0; at < step.bytes; at += kPieceBytes) {
      what(step.address + at, std::min(kPieceBytes, step.bytes - at), word_of(piece++));
    }
  }
}

ordered_json fill_device(const Driver& driver, int device, const Fill& fill) {
  const Context context(driver, device);
  const std::uint64_t total = driver.total_bytes_of(device);
  const auto wanted =
      static_cast<std::uint64_t>(std::floor(static_cast<double>(total) * fill.share)) / kWordBytes *
      kWordBytes;
  const std::string name = "GPU " + std::to_string(device);
  ProgressLine progress(ProgressLine::Elsewhere::kLines);
  std::vector<Step> steps;
  std::uint64_t taken = 0;
  while (taken < wanted) {
    const std::uint64_t bytes = std::min(fill.step_bytes, wanted - taken);
    const CUdeviceptr address = context.allocate(bytes);
    if (address == 0) {
      break;
    }
    steps.push_back({address, bytes});
    taken += bytes;
    progress.show(name + ": taking " + report::bytes_text(wanted),
                  static_cast<double>(taken) / static_cast<double>(wanted));
  }
  const auto show = [&](const char* what, std::uint64_t done) {
    progress.show(name + ": " + what + " " + report::bytes_text(taken),
                  static_cast<double>(done) / static_cast<double>(taken));
  };
  std::uint64_t done = 0;
  for_each_piece(steps, [&](CUdeviceptr address, std::uint64_t bytes, std::uint32_t word) {
    context.fill(address, word, bytes / kWordBytes);
    show("writing", done += bytes);
  });
  std::vector<std::uint32_t> buffer(kPieceBytes / kWordBytes);
  std::uint64_t wrong = 0;
  done = 0;
  for_each_piece(steps, [&](CUdeviceptr address, std::uint64_t bytes, std::uint32_t word) {
    wrong += holds(context, address, bytes, word, buffer) ? 0 : bytes;
    show("reading", done += bytes);
  });
  for (const Step& step : steps) {
    context.free(step.address);
  }
  return {{"number", device},      {"name", report::printable(driver.name_of(device))},
          {"total_bytes", total},  {"wanted_bytes", wanted},
          {"filled_bytes", taken}, {"steps", steps.size()},
          {"wrong_bytes", wrong}};
}

// The version of the preloaded library; empty where none is loaded.
std::string version_of_library() {
  const auto version =
      reinterpret_cast<cubfc_version_function*>(dlsym(RTLD_DEFAULT, "cubfc_version"));
  return version == nullptr ? "" : version();
}

std::uint64_t allocations_counted(int device) {
  const auto stats_of = reinterpret_cast<cubfc_stats_function*>(dlsym(RTLD_DEFAULT, "cubfc_stats"));
  cubfc_device_stats stats{};
  stats.struct_bytes = sizeof stats;
  return stats_of != nullptr && stats_of(device, &stats) == 1 ? stats.num_allocs : 0;
}

ordered_json try_device(const Driver& driver, int device) {
  constexpr std::uint64_t kBytes = 1 << 20;
  const Context context(driver, device);
  const CUdeviceptr address = context.allocate(kBytes);
  std::vector<std::uint32_t> buffer(kBytes / kWordBytes);
  ordered_json found = {{"number", device},
                        {"allocated", address != 0},
                        {"counted", allocations_counted(device) == 1}};
  if (address != 0) {
    context.fill(address, word_of(1), buffer.size());
    found["holds"] = holds(context, address, kBytes, word_of(1), buffer);
    context.free(address);
  }
  return found;
}

}  // namespace

std::string describe_devices() {
  return told([](ordered_json& all) {
    const Driver driver;
    all["version"] = driver.version();
    all["gpus"] = ordered_json::array();
    for (int device = 0; device < driver.count(); ++device) {
      ordered_json gpu = {{"number", device},
                          {"name", report::printable(driver.name_of(device))},
                          {"total_bytes", driver.total_bytes_of(device)}};
      try {
        gpu["free_bytes"] = Context(driver, device).free_bytes();
      } catch (const DriverError& error) {
        gpu["error"] = report::printable(error.what());
      }
      all["gpus"].push_back(std::move(gpu));
    }
  });
}

std::string find_preloaded() {
  return told([](ordered_json& all) {
    Dl_info info{};
    void* const ours = dlsym(RTLD_DEFAULT, "cubfc_version");
    const bool found = ours != nullptr && dladdr(ours, &info) != 0 && info.dli_fname != nullptr;
    all["path"] = found ? info.dli_fname : "";
  });
}

std::string count_devices() {
  return told([](ordered_json& all) { all["count"] = Driver().count(); });
}

std::string tell_version() {
  return told([](ordered_json& all) { all["library"] = version_of_library(); });
}

std::string try_library() {
  return told([](ordered_json& all) {
    all["library"] = version_of_library();
    const Driver driver;
    all["gpus"] = ordered_json::array();
    for (int device = 0; device < driver.count(); ++device) {
      all["gpus"].push_back(try_device(driver, device));
    }
  });
}

std::string fill_devices(const Fill& fill) {
  return told([&](ordered_json& all) {
    const Driver driver;
    all["gpus"] = ordered_json::array();
    if (fill.device && *fill.device >= driver.count()) {
      throw DriverError("there is no GPU " + std::to_string(*fill.device) + ": the driver has " +
                        std::to_string(driver.count()));
    }
    for (int device = 0; device < driver.count(); ++device) {
      if (!fill.device || *fill.device == device) {
        all["gpus"].push_back(fill_device(driver, device, fill));
      }
    }
  });
}

}  // namespace cubfc::cli::check
