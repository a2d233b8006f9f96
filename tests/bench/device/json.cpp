// device_bench's figures as JSON.
#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "report.h"

namespace cubfc::bench {
namespace {

Json figure(const std::optional<double>& value) {
  return value ? Json(*value) : Json();
}

Json with_reason(Json json, const Reason& reason) {
  if (reason) {
    json["reason"] = *reason;
  }
  return json;
}

Json json_of(const Quantiles& quantiles) {
  Json json = {{"calls", quantiles.calls},
               {"p50_ns", figure(quantiles.p50_ns)},
               {"p99_ns", figure(quantiles.p99_ns)},
               {"p99.9_ns", figure(quantiles.p999_ns)}};
  if (!quantiles.p999_ns) {
    json["reason"] = "too few calls were timed: p99 wants 100, p99.9 wants 1000";
  }
  return json;
}

Json json_of(const PairPoint& point) {
  Json json = {{"through", describe(point.through)},
               {"bytes", point.bytes},
               {"threads", point.threads},
               {"live_blocks", point.live},
               {"pairs", point.pairs},
               {"ns_per_pair", figure(point.ns_per_pair)},
               {"pairs_per_second", figure(point.pairs_per_second)}};
  if (point.through == Through::kAsync) {
    json["pairs_per_batch"] = kPairsPerBatch;
    json["sync_ns_per_batch"] = figure(point.sync_ns_per_batch);
  }
  if (point.threads == 1) {
    json["allocate"] = point.allocate ? json_of(*point.allocate) : Json();
    json["free"] = point.free ? json_of(*point.free) : Json();
  }
  return with_reason(std::move(json), point.reason);
}

Json json_of(const LoopPoint& point) {
  const auto times = [](const std::optional<IterationTimes>& measured) {
    return measured ? Json{{"host_ns_per_iteration", measured->host_ns},
                           {"done_ns_per_iteration", measured->done_ns}}
                    : Json();
  };
  return with_reason({{"through", describe(point.through)},
                      {"streams", point.streams},
                      {"bytes", point.bytes},
                      {"iterations", point.iterations},
                      {"rounds", point.rounds},
                      {"allocating", times(point.allocating)},
                      {"floor", times(point.floor)}},
                     point.reason);
}

Json json_of(const TracePass& pass) {
  Json json = {{"operations_played", pass.operations}, {"failed_allocations", pass.failures},
               {"peak_live_bytes", pass.peak_bytes},   {"allocate_seconds", pass.allocate_seconds},
               {"free_seconds", pass.free_seconds},    {"ns_per_pair", figure(pass.ns_per_pair)}};
  if (!pass.ns_per_pair) {
    json["reason"] = "every allocation failed";
  }
  return json;
}

Json json_of(const TraceResult& trace) {
  return {{"name", trace.name},
          {"operations", trace.operations},
          {"allocations", trace.allocations},
          {"recorded_peak_bytes", trace.peak_bytes},
          {"sizes_divided_by", trace.divided_by},
          {"divided_to_fit", trace.divided_to_fit},
          {"first_pass", json_of(trace.first)},
          {"repeated_passes", trace.repetitions},
          {"repeated_pass", json_of(trace.repeated)}};
}

Json json_of(const GrowthPoint& point) {
  return with_reason({{"bytes", point.bytes},
                      {"allocate_ns", figure(point.allocate_ns)},
                      {"free_ns", figure(point.free_ns)}},
                     point.reason);
}

template <typename Point>
Json array_of(const std::vector<Point>& points) {
  Json json = Json::array();
  for (const Point& point : points) {
    json.push_back(json_of(point));
  }
  return json;
}

}  // namespace

Json json_of(const Device& device) {
  return {{"name", device.name},
          {"driver_version", device.driver_version},
          {"runtime_version", device.runtime_version},
          {"total_bytes", device.total_bytes},
          {"free_bytes", device.free_bytes},
          {"context_seconds", device.context_seconds}};
}

Json json_of(const std::vector<PairPoint>& points) {
  return array_of(points);
}

Json json_of(const std::vector<LoopPoint>& points) {
  return array_of(points);
}

Json json_of(const std::vector<TraceResult>& traces) {
  return array_of(traces);
}

Json json_of(const Growth& growth) {
  return {{"first_allocation", json_of(growth.first)}, {"sizes", array_of(growth.sizes)}};
}

Json json_of(const Idle& idle) {
  return with_reason(
      {{"launches", idle.launches}, {"rounds", idle.rounds}, {"seconds", figure(idle.seconds)}},
      idle.reason);
}

Json json_of_environment() {
  constexpr std::array<std::string_view, 12> kPrefixes{"LD_PRELOAD=",
                                                       "CUBFC_",
                                                       "XLA_",
                                                       "JAX_",
                                                       "TF_GPU_",
                                                       "TF_FORCE_",
                                                       "TF_CUDA_",
                                                       "TF_DEVICE_",
                                                       "CUDA_VISIBLE_DEVICES=",
                                                       "CUDA_MODULE_LOADING=",
                                                       "CUDA_LAUNCH_BLOCKING=",
                                                       "STANDIN_"};
  Json json = Json::object();
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    for (const std::string_view prefix : kPrefixes) {
      if (text.starts_with(prefix)) {
        const std::size_t equals = text.find('=');
        json[std::string(text.substr(0, equals))] = std::string(text.substr(equals + 1));
      }
    }
  }
  return json;
}

bool is_cubfc_loaded() {
  return dlsym(RTLD_DEFAULT, "cubfc_trim") != nullptr;
}

}  // namespace cubfc::bench
