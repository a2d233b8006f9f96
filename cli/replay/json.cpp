// The JSON that `cubfc replay --json` prints.
#include <nlohmann/json.hpp>

#include "arena/budget.h"
#include "cli/json_text.h"
#include "cli/replay/print.h"

namespace cubfc::replay {
namespace {

using Json = nlohmann::ordered_json;

Json or_null(std::uint64_t value, std::uint64_t none) {
  return value == none ? Json(nullptr) : Json(value);
}

Json json_of(const OutOfMemory& failed) {
  return {{"operation", failed.operation},
          {"event", failed.event},
          {"time_ns", failed.time_ns},
          {"gpu", failed.device},
          {"asked_bytes", failed.asked_bytes},
          {"failed_when_recorded", failed.was_recorded},
          {"in_use_bytes", failed.in_use_bytes},
          {"waiting_bytes", failed.waiting_bytes},
          {"free_bytes", failed.free_bytes},
          {"largest_free_block_bytes", failed.largest_free_bytes},
          {"limit_left_bytes", or_null(failed.limit_left_bytes, kPlenty)},
          {"device_free_bytes", or_null(failed.device_free_bytes, kPlenty)},
          {"cause", failed.cause}};
}

Json json_of(const PlayedDevice& device) {
  return {{"gpu", device.number},
          {"total_bytes", device.total_bytes},
          {"total_origin", device.total_origin},
          {"limit_bytes", or_null(device.limit_bytes, arena::Budget::kUnlimited)},
          {"preallocated_bytes", device.preallocated_bytes},
          {"peak_taken_bytes", device.peak_bytes}};
}

Json json_of(const Workload& workload, const Result& result) {
  const config::Policy& policy = result.conditions.policy;
  const Outcome& outcome = result.outcome;
  Json made{{"policy", result.name},
            {"allocator", config::name_of(policy.allocator.value)},
            {"preallocate", config::name_of(policy.preallocate.value)},
            {"free", config::name_of(policy.free_mode.value)},
            {"fits", outcome.fits()},
            {"failed_requests", outcome.failures},
            {"out_of_memory", outcome.fits() ? Json(nullptr) : json_of(outcome.first[0])},
            {"devices", Json::array()},
            {"operations", outcome.operations},
            {"driver_calls", outcome.driver_calls},
            {"waits", outcome.waits},
            {"seconds", outcome.seconds}};
  for (const PlayedDevice& device : outcome.devices) {
    made["devices"].push_back(json_of(device));
  }
  if (result.looked_for_least) {
    const auto peak = static_cast<double>(workload.largest_peak_bytes());
    made["least_limit_bytes"] = result.least_limit ? Json(*result.least_limit) : Json(nullptr);
    made["least_limit_to_peak"] =
        result.least_limit ? Json(static_cast<double>(*result.least_limit) / peak) : Json(nullptr);
  }
  return made;
}

}  // namespace

std::string json(const recordings::Recording& recording, const Workload& workload,
                 const std::vector<Result>& results) {
  Json made{{"recording",
             {{"path", recording.path},
              {"format", recording.format},
              {"operations", workload.operations.size()},
              {"allocations", workload.allocations},
              {"peak_bytes", workload.peak_bytes},
              {"peak_blocks", workload.peak_blocks},
              {"failed_requests", workload.failures},
              {"unknown_frees", workload.unknown_frees},
              {"missing_frees", workload.missing_frees}}},
            {"results", Json::array()}};
  for (const Result& result : results) {
    made["results"].push_back(json_of(workload, result));
  }
  // A path may be no UTF-8.
  return cli::json_text(made, 2) + "\n";
}

}  // namespace cubfc::replay
