#include "entry_point.h"

#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

#include "behaviour.h"
#include "report.h"
#include "settings.h"

namespace standin {
namespace {

EntryPoint* list_head = nullptr;  // written by constructors only, while the library is loaded

std::atomic<bool> initialized{false};
std::atomic<bool> forked{false};
std::atomic<std::uint64_t> watched_calls{0};
thread_local DefaultStream current_default_stream = DefaultStream::kLegacy;

void Delay(std::uint64_t ns) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(ns);
  // A sleep is 50 us late on Linux by default, more than most latencies are.
  if (ns > 1000000) std::this_thread::sleep_for(std::chrono::nanoseconds(ns - 500000));
  while (std::chrono::steady_clock::now() < until) {
  }
}

void Start() {
  ApplyRules();
  StartReport();
}

}  // namespace

EntryPoint::EntryPoint(const char* name, void* address, Needs needs, DefaultStream default_stream)
    : name_(name),
      address_(address),
      needs_(needs),
      default_stream_(default_stream),
      next_(list_head) {
  list_head = this;
}

CUresult EntryPoint::Enter() {
  static std::once_flag started;
  std::call_once(started, Start);
  const std::uint64_t call = calls_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (const std::uint64_t ns = latency_ns_.load(std::memory_order_relaxed)) Delay(ns);
  if (const int error = error_.load(std::memory_order_acquire)) {
    const std::uint64_t first = fail_first_.load(std::memory_order_relaxed);
    if (call >= first && call - first < fail_times_.load(std::memory_order_relaxed)) {
      return static_cast<CUresult>(error);
    }
  }
  if (needs_ == Needs::kNothing) return CUDA_SUCCESS;
  if (forked.load(std::memory_order_relaxed)) return Behaviour("any.forked_child");
  if (!IsInitialized()) return Behaviour("any.not_initialized");
  return CUDA_SUCCESS;
}

EntryPoint* EntryPoint::Find(std::string_view name) {
  for (EntryPoint* entry = list_head; entry; entry = entry->next_) {
    if (name == entry->name_) return entry;
  }
  return nullptr;
}

const EntryPoint* EntryPoint::first() {
  return list_head;
}

void EntryPoint::ResetCalls() {
  for (EntryPoint* entry = list_head; entry; entry = entry->next_) {
    entry->forgotten_calls_ = entry->total_calls();
  }
}

void EntryPoint::set_failure(CUresult error, std::uint64_t first, std::uint64_t times) {
  error_.store(0, std::memory_order_release);
  fail_first_ = first;
  fail_times_ = times;
  error_.store(error, std::memory_order_release);
}

DefaultStream EntryPoint::default_stream() {
  return current_default_stream;
}

EntryPoint::DefaultStreamScope::DefaultStreamScope(DefaultStream value)
    : before_(current_default_stream) {
  current_default_stream = value;
}

EntryPoint::DefaultStreamScope::~DefaultStreamScope() {
  current_default_stream = before_;
}

void EntryPoint::Watch(standin_watcher next) {
  the_watcher_.store(next, std::memory_order_release);
}

EntryPoint::WatchedCall::WatchedCall(const EntryPoint& entry)
    : watcher_(EntryPoint::the_watcher_.load(std::memory_order_acquire)),
      call_{entry.name_, nullptr, &correlation_, ++watched_calls} {
  if (watcher_) watcher_(&call_);
}

CUresult EntryPoint::WatchedCall::Ended(CUresult result) {
  result_ = result;
  call_.result = &result_;
  if (watcher_) watcher_(&call_);
  return result;
}

void MarkInitialized() {
  if (initialized.exchange(true)) return;
  pthread_atfork(nullptr, nullptr, [] { forked = true; });
}

bool IsInitialized() {
  return initialized.load(std::memory_order_acquire);
}

void ApplyRules() {
  const auto find = [](const char* variable, const std::string& function) {
    if (EntryPoint* entry = EntryPoint::Find(function)) return entry;
    std::fprintf(stderr, "standin: %s: there is no function %s\n", variable, function.c_str());
    std::abort();
  };
  for (const LatencyRule& rule : settings().latencies) {
    find("STANDIN_LATENCY", rule.function)
        ->set_latency(static_cast<std::uint64_t>(rule.latency.count()));
  }
  for (const FailureRule& rule : settings().failures) {
    find("STANDIN_FAIL", rule.function)
        ->set_failure(static_cast<CUresult>(rule.error), rule.first, rule.times);
  }
}

}  // namespace standin
