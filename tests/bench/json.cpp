// All figures as JSON. A figure that was not measured is null.
#include <string>
#include <utility>

#include "json_file.h"
#include "report.h"

namespace cubfc::bench {
namespace {

Json figure(double value) {
  return value == 0 ? Json() : Json(value);
}

Json json_of(const Distribution& distribution) {
  return {{"p50", distribution.p50},
          {"p99", distribution.p99},
          {"p99.9", distribution.p999},
          {"max", distribution.max}};
}

Json json_of(const PairTimes& times) {
  Json json = Json::object();
  for (const auto& [contender, time] : times) {
    json[contender] = {{"ns", time.ns},
                       {"over_floor", time.to_floor},
                       {"over_locked_floor", time.to_locked_floor}};
  }
  return json;
}

Json json_of(const InputResult& input) {
  const Workload& workload = *input.workload;
  Json fits = Json::object();
  for (std::size_t i = 0; i < input.fits.size(); ++i) {
    fits[describe(kFitters[i])] = {
        {"least_capacity_over_peak", figure(input.fits[i].least_capacity)},
        {"extent_over_peak", figure(input.fits[i].extent)}};
    if (input.fits[i].growths > 0) {
      fits[describe(kFitters[i])]["taken_over_peak"] = figure(input.fits[i].taken);
      fits[describe(kFitters[i])]["growths"] = input.fits[i].growths;
    }
  }
  const Latencies& latencies = input.latencies;
  return {{"name", workload.name},
          {"kind", describe(workload.kind)},
          {"operations", workload.ops.size()},
          {"allocations", workload.allocations},
          {"peak_live_blocks", workload.peak_live_blocks},
          {"peak_live_bytes", workload.peak_live_bytes},
          {"peak_rounded_bytes", workload.peak_block_bytes},
          {"pair", json_of(input.pairs)},
          {"latency_ns",
           {{"allocate", json_of(latencies.allocate)},
            {"allocate_steady", json_of(latencies.steady)},
            {"allocate_first", json_of(latencies.first_allocate)},
            {"free", json_of(latencies.free)}}},
          {"memory", std::move(fits)},
          {"host_bytes_per_live_block", figure(input.host_bytes_a_block)}};
}

Json jittered_of(const Results& results) {
  Json json = Json::object();
  for (const JitteredFit& fit : results.jittered) {
    Json means = Json::object();
    for (std::size_t i = 0; i < fit.means.size(); ++i) {
      means[results.jittered_of[i]->name] = figure(fit.means[i]);
    }
    json[describe(fit.fitter)] = {{"mean", figure(fit.mean)},
                                  {"worst", figure(fit.worst)},
                                  {"worst_input", fit.worst_input},
                                  {"means", std::move(means)}};
  }
  return json;
}

Json json_of(const Results& results, const Arguments& arguments) {
  Json json;
  json["machine"] = json_of_machine();
  json["settings"] = {
      {"quick", arguments.quick}, {"rounds", arguments.rounds}, {"jitter", arguments.jitter}};
  json["inputs"] = Json::array();
  for (const InputResult& input : results.inputs) {
    json["inputs"].push_back(json_of(input));
  }
  json["training_geometric_mean"] = nullptr;
  if (results.training) {
    json["training_geometric_mean"] = {
        {"inputs", results.training->inputs},
        {"by_handle_over_floor", results.training->by_handle},
        {"locked_look_up_over_locked_floor", results.training->locked},
        {"locked_look_up_ns", results.training->locked_ns},
        {"locked_as_the_shim_over_locked_floor", results.training->as_the_shim}};
  }
  json["jittered"] = jittered_of(results);
  for (std::size_t i = 0; i < results.retrievable.size(); ++i) {
    json["retrievable"][results.jittered_of[i]->name] = {
        {"share", results.retrievable[i].share},
        {"driver_calls_per_allocation", results.retrievable[i].driver_calls}};
  }
  json["threads"] = Json::array();
  for (const ThreadsTime& time : results.threads) {
    json["threads"].push_back({{"threads", time.threads},
                               {"ns_per_pair", time.ns_a_pair},
                               {"throughput_over_one", time.throughput},
                               {"least_share", time.least_share},
                               {"throughput_over_one_with_own_arenas", time.own_arenas}});
  }
  json["regions"] = Json::array();
  for (const RegionsTime& time : results.regions) {
    json["regions"].push_back({{"regions", time.regions},
                               {"by_handle_ns", time.by_handle_ns},
                               {"look_up_ns", time.look_up_ns}});
  }
  return json;
}

}  // namespace

bool write_json(const Results& results, const Arguments& arguments, const std::string& file) {
  return write_json_file(json_of(results, arguments), file);
}

}  // namespace cubfc::bench
