// The gate through which every driver function passes: it tells a watcher of the call, counts it,
// takes the set latency and returns the set failure. Knows the list of the functions that this
// driver has, not what they do.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <string_view>

#include "standin.h"

namespace standin {

enum class Needs { kNothing, kInit };
enum class DefaultStream { kLegacy, kPerThread };

class EntryPoint {
 public:
  // `name` must outlive the process. Registers itself.
  EntryPoint(const char* name, void* address, Needs needs, DefaultStream default_stream);
  EntryPoint(const EntryPoint&) = delete;
  EntryPoint& operator=(const EntryPoint&) = delete;

  template <typename Body>
  CUresult Call(Body body) {
    if (!the_watcher_.load(std::memory_order_relaxed)) return Serve(body);
    WatchedCall call(*this);
    return call.Ended(Serve(body));
  }

  const char* name() const { return name_; }
  void* address() const { return address_; }
  const EntryPoint* next() const { return next_; }
  // Since the last reset, and since the beginning.
  std::uint64_t calls() const { return total_calls() - forgotten_calls_; }
  std::uint64_t total_calls() const { return calls_.load(std::memory_order_relaxed); }

  static EntryPoint* Find(std::string_view name);
  static const EntryPoint* first();
  static void ResetCalls();

  void set_latency(std::uint64_t ns) { latency_ns_ = ns; }
  // From call number `first` of all on, `times` calls fail.
  void set_failure(CUresult error, std::uint64_t first, std::uint64_t times);

  // What stream 0 means to the function that this thread is in.
  static DefaultStream default_stream();

  // Who is told of every call from now on (standin_watch); nullptr for nobody.
  static void Watch(standin_watcher next);

 private:
  // Tells of the beginning when it is made.
  class WatchedCall {
   public:
    explicit WatchedCall(const EntryPoint& entry);
    WatchedCall(const WatchedCall&) = delete;
    WatchedCall& operator=(const WatchedCall&) = delete;
    CUresult Ended(CUresult result);

   private:
    const standin_watcher watcher_;
    std::uint64_t correlation_ = 0;
    int result_ = 0;
    standin_call call_;
  };

  class DefaultStreamScope {
   public:
    explicit DefaultStreamScope(DefaultStream value);
    ~DefaultStreamScope();

   private:
    DefaultStream before_;
  };

  template <typename Body>
  CUresult Serve(Body& body) {
    if (const CUresult refused = Enter()) return refused;
    const DefaultStreamScope scope(default_stream_);
    return body();
  }
  CUresult Enter();

  static inline std::atomic<standin_watcher> the_watcher_{nullptr};

  const char* const name_;
  void* const address_;
  const Needs needs_;
  const DefaultStream default_stream_;
  EntryPoint* next_;
  std::atomic<std::uint64_t> calls_{0};
  std::atomic<std::uint64_t> forgotten_calls_{0};
  std::atomic<std::uint64_t> latency_ns_{0};
  std::atomic<int> error_{0};
  std::atomic<std::uint64_t> fail_first_{0};
  std::atomic<std::uint64_t> fail_times_{0};
};

// Set by cuInit, and by fork in the child, where the driver is of no use any more.
void MarkInitialized();
bool IsInitialized();

// Applies STANDIN_LATENCY and STANDIN_FAIL; ends the process if they name an unknown function.
void ApplyRules();

}  // namespace standin

#define STANDIN_EXPORT(symbol, body, parameters, arguments, needs, default_stream) \
  extern "C" CUresult symbol parameters;                                           \
  namespace {                                                                      \
  ::standin::EntryPoint entry_##symbol(#symbol, reinterpret_cast<void*>(&symbol),  \
                                       ::standin::Needs::needs,                    \
                                       ::standin::DefaultStream::default_stream);  \
  }                                                                                \
  extern "C" CUresult symbol parameters {                                          \
    return entry_##symbol.Call([&] { return body arguments; });                    \
  }

// ENTRY(cuFoo, (int a), (a)) { ... } defines the exported driver function cuFoo.
#define ENTRY(symbol, parameters, arguments)                                    \
  static CUresult Serve_##symbol parameters;                                    \
  STANDIN_EXPORT(symbol, Serve_##symbol, parameters, arguments, kInit, kLegacy) \
  static CUresult Serve_##symbol parameters

// The same for one that may be called before cuInit.
#define EARLY_ENTRY(symbol, parameters, arguments)                                 \
  static CUresult Serve_##symbol parameters;                                       \
  STANDIN_EXPORT(symbol, Serve_##symbol, parameters, arguments, kNothing, kLegacy) \
  static CUresult Serve_##symbol parameters

// The same for one that has a twin (suffix _ptsz or _ptds) for the per-thread default stream.
#define STREAM_ENTRY(symbol, suffix, parameters, arguments)                                \
  static CUresult Serve_##symbol parameters;                                               \
  STANDIN_EXPORT(symbol, Serve_##symbol, parameters, arguments, kInit, kLegacy)            \
  STANDIN_EXPORT(symbol##suffix, Serve_##symbol, parameters, arguments, kInit, kPerThread) \
  static CUresult Serve_##symbol parameters
