// device_bench's figures as tables.
#include <cstdio>
#include <optional>
#include <string>

#include "config/values.h"
#include "report.h"
#include "table.h"

namespace cubfc::bench {
namespace {

using config::size_text;

std::string number(const std::optional<double>& value, int decimals = 0) {
  return value ? fixed(*value, decimals) : "-";
}

std::string gib(std::uint64_t bytes) {
  return fixed(static_cast<double>(bytes) / (1U << 30), 2) + " GiB";
}

// Reasons are sentences: they stand below a table, not in it.
void print_reason(const std::string& what, const Reason& reason) {
  if (reason) {
    std::printf("  %s: not measured: %s\n", what.c_str(), reason->c_str());
  }
}

std::string name_of(const PairPoint& point) {
  return std::string(describe(point.through)) + ", " + size_text(point.bytes) + ", threads " +
         std::to_string(point.threads);
}

std::string name_of(const LoopPoint& point) {
  return std::string(describe(point.through)) + ", streams " + std::to_string(point.streams);
}

std::string microseconds(const std::optional<double>& ns) {
  return ns ? fixed(*ns / 1000, 1) : "-";
}

}  // namespace

void print(const Device& device) {
  std::printf("%s, %s free of %s, driver %d, runtime %d; context in %.3f s; cubfc %s\n",
              device.name.c_str(), gib(device.free_bytes).c_str(), gib(device.total_bytes).c_str(),
              device.driver_version, device.runtime_version, device.context_seconds,
              is_cubfc_loaded() ? "loaded" : "not loaded");
}

void print(const std::vector<PairPoint>& points) {
  Table table(
      "Pairs: an allocation and its free, in ns as a thread sees it. sync: of each batch of " +
          std::to_string(kPairsPerBatch) + " through async, not in the pair",
      {"through", "size", "threads", "live", "ns/pair", "pairs/s", "sync", "alloc p50", "p99",
       "p99.9", "free p50", "p99", "p99.9"});
  for (const PairPoint& point : points) {
    const Quantiles allocate = point.allocate.value_or(Quantiles{});
    const Quantiles free = point.free.value_or(Quantiles{});
    table.add({describe(point.through), size_text(point.bytes), std::to_string(point.threads),
               std::to_string(point.live), number(point.ns_per_pair, 1),
               number(point.pairs_per_second), number(point.sync_ns_per_batch),
               number(allocate.p50_ns), number(allocate.p99_ns), number(allocate.p999_ns),
               number(free.p50_ns), number(free.p99_ns), number(free.p999_ns)});
  }
  table.print();
  for (const PairPoint& point : points) {
    print_reason(name_of(point), point.reason);
  }
}

void print(const std::vector<LoopPoint>& points) {
  Table table(
      "Loop: allocate, write in a stream, free; in µs an iteration. floor: without the allocation",
      {"through", "streams", "size", "iterations", "host", "device done", "floor: host", "done"});
  for (const LoopPoint& point : points) {
    const auto time = [](const std::optional<IterationTimes>& times,
                         double IterationTimes::*which) {
      return times ? fixed(*times.*which / 1000, 2) : "-";
    };
    table.add({describe(point.through), std::to_string(point.streams), size_text(point.bytes),
               std::to_string(point.iterations), time(point.allocating, &IterationTimes::host_ns),
               time(point.allocating, &IterationTimes::done_ns),
               time(point.floor, &IterationTimes::host_ns),
               time(point.floor, &IterationTimes::done_ns)});
  }
  table.print();
  for (const LoopPoint& point : points) {
    print_reason(name_of(point), point.reason);
  }
}

void print(const std::vector<TraceResult>& traces) {
  Table table("Traces: seconds in all allocations and all frees; first pass, then repeated",
              {"trace", "operations", "sizes /", "peak live", "first: alloc s", "free s", "ns/pair",
               "failed", "again: alloc s", "free s", "ns/pair", "failed"});
  for (const TraceResult& trace : traces) {
    const TracePass& first = trace.first;
    const TracePass& again = trace.repeated;
    table.add({trace.name, std::to_string(trace.operations), std::to_string(trace.divided_by),
               gib(first.peak_bytes), fixed(first.allocate_seconds, 4),
               fixed(first.free_seconds, 4), number(first.ns_per_pair, 1),
               std::to_string(first.failures), fixed(again.allocate_seconds, 4),
               fixed(again.free_seconds, 4), number(again.ns_per_pair, 1),
               std::to_string(again.failures)});
  }
  table.print();
  for (const TraceResult& trace : traces) {
    if (trace.divided_to_fit) {
      std::printf("  %s: its peak of %s does not fit, so its sizes are divided by %llu\n",
                  trace.name.c_str(), gib(trace.peak_bytes).c_str(),
                  static_cast<unsigned long long>(trace.divided_by));
    }
    for (const TracePass* pass : {&trace.first, &trace.repeated}) {
      if (pass->operations < trace.operations) {
        std::printf("  %s: the %s pass was cut off after %llu operations\n", trace.name.c_str(),
                    pass == &trace.first ? "first" : "repeated",
                    static_cast<unsigned long long>(pass->operations));
      }
    }
  }
}

void print(const Growth& growth) {
  Table table("Growth: one cudaMalloc and its cudaFree of a size for the first time, in µs",
              {"size", "cudaMalloc", "cudaFree"});
  const auto add = [&](const std::string& name, const GrowthPoint& point) {
    table.add({name, microseconds(point.allocate_ns), microseconds(point.free_ns)});
  };
  add("the process's first, " + size_text(growth.first.bytes), growth.first);
  for (const GrowthPoint& point : growth.sizes) {
    add(size_text(point.bytes), point);
  }
  table.print();
  print_reason("the first", growth.first.reason);
  for (const GrowthPoint& point : growth.sizes) {
    print_reason(size_text(point.bytes), point.reason);
  }
}

void print(const Idle& idle) {
  std::printf("\nIdle: two blocks, then launches only\n  %llu launches: %s s\n",
              static_cast<unsigned long long>(idle.launches), number(idle.seconds, 4).c_str());
  print_reason("idle", idle.reason);
}

}  // namespace cubfc::bench
