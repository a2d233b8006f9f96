#include "shim/tell/out_of_memory.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "shim/tell/format.h"
#include "shim/tell/log.h"
#include "shim/tell/output_file.h"
#include "shim/tell/program.h"

namespace cubfc {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;  // ns
constexpr std::int64_t kMinute = 60 * kSecond;

// True for one thread, the first that comes when something is due; due again after `pause`.
bool is_due(std::atomic<std::int64_t>& next_ns, std::int64_t now, std::int64_t pause) {
  std::int64_t next = next_ns.load(std::memory_order_relaxed);
  return now >= next &&
         next_ns.compare_exchange_strong(next, now + pause, std::memory_order_relaxed);
}

}  // namespace

bool OutOfMemoryReporter::is_line_due(Lines& lines, std::int64_t now) {
  const std::int64_t before = lines.next_ns.load(std::memory_order_relaxed);
  const std::int64_t last_pause = lines.pause_ns.load(std::memory_order_relaxed);
  const bool was_quiet = now - before > 2 * kMinute;
  const std::int64_t pause = was_quiet ? kSecond : std::clamp(2 * last_pause, kSecond, kMinute);
  if (!is_due(lines.next_ns, now, pause)) {
    return false;
  }
  lines.pause_ns.store(pause, std::memory_order_relaxed);
  return true;
}

void OutOfMemoryReporter::tell(const std::string& text) const {
  log::write(log::Level::kWarn, text);
}

void OutOfMemoryReporter::write_json(const OutOfMemory& failure) const {
  if (!policy_.oom_report.value) {
    return;
  }
  const std::string path = expanded_path(*policy_.oom_report.value);
  const std::string wrong = append_to_file(path, out_of_memory_json(policy_, failure));
  if (!wrong.empty()) {
    log::warn("CUBFC_OOM_REPORT: {}: {}; the report is not written", path, wrong);
  }
}

bool OutOfMemoryReporter::waits_already(std::uint64_t bytes) {
  const long thread = syscall(SYS_gettid);
  const std::lock_guard lock(mutex_);
  heard_of_.store(kMostHeardOf, std::memory_order_relaxed);
  for (Waiting& each : waiting_) {
    if (each.thread == thread) {
      each.bytes = bytes;
      return true;
    }
  }
  if (waiting_.size() == kMostWaiting) {
    waiting_.erase(waiting_.begin());
  }
  waiting_.push_back({thread, bytes, {}});
  return false;
}

void OutOfMemoryReporter::keep_for_end(std::string&& report) {
  const long thread = syscall(SYS_gettid);
  const std::lock_guard lock(mutex_);
  for (Waiting& each : waiting_) {
    if (each.thread == thread) {
      each.report = std::move(report);
    }
  }
}

void OutOfMemoryReporter::served(std::uint64_t bytes) noexcept {
  const long thread = syscall(SYS_gettid);
  const std::lock_guard lock(mutex_);
  heard_of_.fetch_sub(1, std::memory_order_relaxed);
  std::erase_if(waiting_,
                [&](const Waiting& each) { return each.thread == thread && bytes >= each.bytes; });
  if (waiting_.empty()) {
    heard_of_.store(0, std::memory_order_relaxed);
  }
}

void OutOfMemoryReporter::finish() noexcept try {
  std::string last;
  {
    const std::lock_guard lock(mutex_);
    for (Waiting& each : waiting_) {
      if (!each.report.empty()) {
        last = std::move(each.report);
      }
    }
    waiting_.clear();
  }
  if (!last.empty()) {
    tell(last);
  }
} catch (...) {  // the program's exit goes on
}

std::string OutOfMemoryReporter::report(Request request, std::uint64_t bytes,
                                        const std::function<OutOfMemory(Detail)>& find_out) noexcept
    try {
  const std::int64_t now = std::chrono::steady_clock::now().time_since_epoch().count();
  const bool possible = request == Request::kPossible;
  const bool first = possible && !waits_already(bytes);
  const bool full = possible && !first && is_due(next_full_ns_, now, kMinute);
  Lines& lines = possible ? possible_ : impossible_;
  const bool line = is_line_due(lines, now);  // also if `full`: so no line follows a report soon
  if (!first && !full && !line) {
    lines.left_out.fetch_add(1, std::memory_order_relaxed);
    return {};
  }
  const bool all = first || full || policy_.oom_report.value;
  const OutOfMemory failure = find_out(all ? Detail::kAll : Detail::kFacts);
  const Cause cause = cause_of(policy_, failure.facts);
  write_json(failure);
  std::string report = first || full ? in_full(policy_, failure, cause) : std::string();
  if (full) {
    keep_for_end({});
    tell(report);
    return report;
  }
  if (first) {
    keep_for_end(std::string(report));
  }
  if (!line) {
    lines.left_out.fetch_add(1, std::memory_order_relaxed);
    return report;
  }
  const std::uint64_t more = lines.left_out.exchange(0, std::memory_order_relaxed);
  const std::string text =
      format("out of memory on {}: {}{}", who(failure), in_a_line(policy_, failure, cause),
             more == 0 ? "" : format(" ({} more that failed were not told of)", more));
  tell(text);
  return first ? report : text;
} catch (...) {
  log::write(log::Level::kWarn, "out of memory, and the host has none left for a report");
  return {};
}

}  // namespace cubfc
