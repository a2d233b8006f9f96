#include "settings.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

namespace standin {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};

constexpr std::array<Unit, 6> kByteUnits{{{"", 1},
                                          {"B", 1},
                                          {"KiB", 1ull << 10},
                                          {"MiB", 1ull << 20},
                                          {"GiB", 1ull << 30},
                                          {"TiB", 1ull << 40}}};
constexpr std::array<Unit, 5> kTimeUnits{
    {{"", 1}, {"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}}};

template <std::size_t N>
std::optional<std::uint64_t> Quantity(std::string_view text, const std::array<Unit, N>& units) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  const std::string_view suffix(end, static_cast<std::size_t>(text.data() + text.size() - end));
  for (const Unit& unit : units) {
    if (unit.name == suffix && number <= UINT64_MAX / unit.factor) return number * unit.factor;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> Number(std::string_view text) {
  return Quantity(text, std::array<Unit, 1>{{{"", 1}}});
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

bool ApplyCount(int& out, std::string_view value, std::uint64_t most) {
  const auto number = Number(value);
  if (!number || *number > most) return false;
  out = static_cast<int>(*number);
  return true;
}

bool ApplySizes(std::vector<std::size_t>& out, std::string_view value) {
  std::vector<std::size_t> sizes;
  for (std::string_view part : Split(value, ',')) {
    const auto size = Quantity(part, kByteUnits);
    if (!size) return false;
    sizes.push_back(*size);
  }
  out = std::move(sizes);
  return true;
}

bool ApplyLatencies(std::vector<LatencyRule>& out, std::string_view value) {
  for (std::string_view part : Split(value, ',')) {
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) return false;
    const auto time = Quantity(part.substr(equals + 1), kTimeUnits);
    if (!time) return false;
    out.push_back({std::string(part.substr(0, equals)), std::chrono::nanoseconds(*time)});
  }
  return true;
}

// function=error[@first][+times|+*]
bool ApplyFailures(std::vector<FailureRule>& out, std::string_view value) {
  for (std::string_view part : Split(value, ',')) {
    FailureRule rule{.function = {}, .error = 0, .first = 1, .times = 1};
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) return false;
    rule.function = part.substr(0, equals);
    part.remove_prefix(equals + 1);
    if (const std::size_t plus = part.find('+'); plus != std::string_view::npos) {
      const std::string_view times = part.substr(plus + 1);
      const auto number = times == "*" ? std::optional(kForEver) : Number(times);
      if (!number) return false;
      rule.times = *number;
      part = part.substr(0, plus);
    }
    if (const std::size_t at = part.find('@'); at != std::string_view::npos) {
      const auto first = Number(part.substr(at + 1));
      if (!first || *first == 0) return false;
      rule.first = *first;
      part = part.substr(0, at);
    }
    if (!ApplyCount(rule.error, part, 999) || rule.error == 0) return false;
    out.push_back(std::move(rule));
  }
  return true;
}

// entry=number[+survives|+lost]
bool ApplyAnswers(std::vector<OtherAnswer>& out, std::string_view value) {
  for (std::string_view part : Split(value, ',')) {
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) return false;
    OtherAnswer answer{.entry = std::string(part.substr(0, equals)),
                       .number = 0,
                       .capture_survives = std::nullopt};
    part.remove_prefix(equals + 1);
    if (const std::size_t plus = part.find('+'); plus != std::string_view::npos) {
      const std::string_view fate = part.substr(plus + 1);
      if (fate != "survives" && fate != "lost") return false;
      answer.capture_survives = fate == "survives";
      part = part.substr(0, plus);
    }
    const auto number = Number(part);
    if (!number) return false;
    answer.number = *number;
    out.push_back(std::move(answer));
  }
  return true;
}

// MAJOR.MINOR
bool ApplyCapability(int& out, std::string_view value) {
  const std::size_t dot = value.find('.');
  int major = 0;
  int minor = 0;
  if (dot == std::string_view::npos || !ApplyCount(major, value.substr(0, dot), 99) ||
      !ApplyCount(minor, value.substr(dot + 1), 9) || major == 0) {
    return false;
  }
  out = 10 * major + minor;
  return true;
}

// all, none, or pairs of devices: 0-1,2-3
bool ApplyPeers(std::optional<std::vector<std::pair<int, int>>>& out, std::string_view value) {
  out.reset();
  if (value == "all") return true;
  out.emplace();
  if (value == "none") return true;
  for (const std::string_view part : Split(value, ',')) {
    const std::size_t dash = part.find('-');
    int one = 0;
    int other = 0;
    if (dash == std::string_view::npos || !ApplyCount(one, part.substr(0, dash), kMaxDevices) ||
        !ApplyCount(other, part.substr(dash + 1), kMaxDevices)) {
      return false;
    }
    out->emplace_back(one, other);
  }
  return true;
}

// mapping, pools: devices that lack them, and the functions that then fail.
bool ApplyWithout(Settings& out, std::string_view value) {
  constexpr int kNotSupported = 801;   // CUDA_ERROR_NOT_SUPPORTED
  constexpr int kInvalidDevice = 101;  // CUDA_ERROR_INVALID_DEVICE
  const auto fail = [&](int error, std::initializer_list<const char*> functions) {
    for (const char* function : functions) {
      out.failures.push_back({function, error, 1, kForEver});
    }
  };
  for (const std::string_view part : Split(value, ',')) {
    if (part == "mapping") {
      out.maps = false;
      fail(kNotSupported, {"cuMemAddressReserve", "cuMemCreate", "cuMemGetAllocationGranularity"});
    } else if (part == "pools") {
      out.has_pools = false;
      fail(kNotSupported, {"cuMemPoolCreate", "cuDeviceGetDefaultMemPool", "cuDeviceGetMemPool",
                           "cuDeviceSetMemPool", "cuMemAllocAsync", "cuMemAllocAsync_ptsz",
                           "cuMemAllocFromPoolAsync", "cuMemAllocFromPoolAsync_ptsz"});
    } else if (part == "shared_managed") {  // as an RTX 3060 answered under WSL
      out.shares_managed = false;
      fail(kInvalidDevice, {"cuMemPrefetchAsync", "cuMemPrefetchAsync_ptsz",
                            "cuMemPrefetchAsync_v2", "cuMemPrefetchAsync_v2_ptsz"});
    } else if (part == "dma_buf") {
      out.has_dma_buf = false;
      fail(kNotSupported, {"cuMemGetHandleForAddressRange"});
    } else {
      return false;
    }
  }
  return true;
}

bool ApplyTime(std::chrono::nanoseconds& out, std::string_view value) {
  const auto time = Quantity(value, kTimeUnits);
  if (time) out = std::chrono::nanoseconds(*time);
  return time.has_value();
}

[[noreturn]] void Refuse(const char* name, const char* value) {
  std::fprintf(stderr, "standin: %s=%s is not valid; tests/standin/README.md has its form\n", name,
               value);
  std::abort();
}

// A profile is a driver, or a device, in one file: variables of the environment, which that may
// change, and answers.
void ApplyProfile(Settings& out, const char* path) {
  std::ifstream file(path);
  const auto json = nlohmann::json::parse(file, nullptr, false);
  if (json.is_discarded() || json.value("format", "") != "cubfc-profile-1") {
    Refuse("STANDIN_PROFILE", path);
  }
  for (const auto& [name, value] : json.at("environment").items()) {
    if (!Apply(out, name, value.template get<std::string>())) Refuse("STANDIN_PROFILE", path);
  }
  for (const auto& [entry, answer] : json.at("answers").items()) {
    out.answers.push_back({entry, answer.at("answer").template get<std::uint64_t>(), std::nullopt});
  }
}

Settings FromEnvironment() {
  Settings result;
  result.memory = {std::size_t{2} << 30};
  result.reserved = {0};
  if (const char* const profile = std::getenv("STANDIN_PROFILE")) ApplyProfile(result, profile);
  // Every one that begins so: one that is not known is a mistake of the caller's.
  for (char** each = environ; *each; ++each) {
    const std::string_view variable = *each;
    const std::size_t end = variable.find('=');
    const std::string name(variable.substr(0, end));
    if (name.rfind("STANDIN_", 0) != 0 || name == "STANDIN_PROFILE") continue;
    const std::string value(end == variable.npos ? "" : variable.substr(end + 1));
    if (!Apply(result, name, value)) Refuse(name.c_str(), value.c_str());
  }
  return result;
}

}  // namespace

bool Settings::are_peers(int one, int other) const {
  if (one == other || !peers) return one != other;
  return std::any_of(peers->begin(), peers->end(), [&](const auto& pair) {
    return pair == std::pair(one, other) || pair == std::pair(other, one);
  });
}

bool Apply(Settings& out, std::string_view name, std::string_view value) {
  if (name == "STANDIN_DEVICES") return ApplyCount(out.devices, value, kMaxDevices);
  if (name == "STANDIN_DRIVER_VERSION") return ApplyCount(out.driver_version, value, 99999);
  if (name == "STANDIN_INTEGRATED") return ApplyCount(out.integrated, value, 1);
  if (name == "STANDIN_DECOMPRESSION") return ApplyCount(out.decompression, value, 1);
  if (name == "STANDIN_CAPABILITY") return ApplyCapability(out.capability, value);
  if (name == "STANDIN_SMS")
    return ApplyCount(out.multiprocessors, value, 1024) && out.multiprocessors > 0;
  if (name == "STANDIN_THREADS_PER_SM")
    return ApplyCount(out.threads, value, 4096) && out.threads >= 1024;
  if (name == "STANDIN_DATA") {
    out.keeps_data = value == "all";
    return value == "all" || value == "none";
  }
  if (name == "STANDIN_WORK") {
    out.works_when_asked = value == "asked";
    return value == "at_once" || value == "asked";
  }
  if (name == "STANDIN_MEMORY") return ApplySizes(out.memory, value);
  if (name == "STANDIN_CONTEXT") {
    const auto size = Quantity(value, kByteUnits);
    out.context_bytes = size.value_or(0);
    return size.has_value();
  }
  if (name == "STANDIN_RESERVED") return ApplySizes(out.reserved, value);
  if (name == "STANDIN_LIMIT") return ApplySizes(out.limits, value);
  if (name == "STANDIN_PEERS") return ApplyPeers(out.peers, value);
  if (name == "STANDIN_LATENCY") return ApplyLatencies(out.latencies, value);
  if (name == "STANDIN_FAIL") return ApplyFailures(out.failures, value);
  if (name == "STANDIN_WITHOUT") return ApplyWithout(out, value);
  if (name == "STANDIN_ANSWERS") return ApplyAnswers(out.answers, value);
  if (name == "STANDIN_WORK_DELAY") return ApplyTime(out.work_delay, value);
  if (name == "STANDIN_TEARDOWN") return ApplyTime(out.teardown, value);
  // Of the stand-ins of NVIDIA's libraries, which read them.
  if (name == "STANDIN_CUBLAS_VERSION" || name == "STANDIN_CUDNN_VERSION" ||
      name == "STANDIN_CUDNN_WORKSPACE") {
    return true;
  }
  if (value.empty()) return false;
  if (name == "STANDIN_REPORT") return out.report = value, true;
  if (name == "STANDIN_SHARED") return out.shared = value, true;
  if (name == "STANDIN_BEHAVIOUR") return out.behaviour = value, true;
  if (name == "STANDIN_ASKED") return out.asked = value, true;
  if (name == "STANDIN_NAME") return out.name = value, true;
  if (name == "STANDIN_REFUSED") return out.refused = value, true;
  if (name == "STANDIN_JIT") return out.jit = value, true;
  return false;
}

std::size_t Settings::withheld_of(int device) const {
  const std::size_t limit = limits.empty() ? SIZE_MAX : At(limits, device);
  return memory_of(device) - std::min(memory_of(device), limit);
}

std::size_t Settings::reserved_of(int device) const {
  return std::max(At(reserved, device), withheld_of(device));
}

Settings& settings() {
  static Settings* const instance = new Settings(FromEnvironment());  // outlives exit handlers
  return *instance;
}

}  // namespace standin
