// What the probe asks: cases, each with the id that it has in the behaviour data. A case runs in a
// child process that may die of it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "driver.h"

namespace probe {

/// What a case found. One of `result`, `json` and `unanswered` is there.
struct Answer {
  std::optional<CUresult> result;
  std::optional<bool> capture_survives;
  std::string json;        ///< a value, as JSON text
  std::string unanswered;  ///< why this machine cannot answer
  std::string note;        ///< what else was seen, one line
};

Answer answer(CUresult result);
Answer answer_json(std::string json, std::string note = "");
Answer unanswered(std::string why);

/// The process in which cases run.
class Session {
 public:
  Session(const Driver& driver, bool may_fill) : cu(driver), may_fill_(may_fill) {}

  /// cuInit, and the primary context of device 0 made current. The first error, or success.
  CUresult start();

  /// Whether the context still works, after a case that may have broken it. Makes it current again.
  bool healthy();

  [[nodiscard]] CUdevice device() const { return device_; }
  [[nodiscard]] CUcontext context() const { return context_; }

  /// Whether a case may take the whole device. Otherwise 60% of it at the most.
  [[nodiscard]] bool may_fill() const { return may_fill_; }

  /// A second context on the same device; not current. Destroy it with cuCtxDestroy.
  [[nodiscard]] CUcontext second_context() const;

  /// A block of device memory, of which the caller owns the address; 0 when there is none.
  [[nodiscard]] CUdeviceptr block(std::size_t bytes = 100000) const;

  const Driver& cu;  // NOLINT(misc-non-private-member-variables-in-classes): read in every line

 private:
  bool may_fill_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
};

/// What has been done when a case begins. With less than a context it has a process of its own.
enum class Begins { kNothingDone, kInContext, kInContextAlone };

enum class Kind { kResult, kValue, kMeasurement };

struct Case {
  std::string id;
  std::function<Answer(Session&)> run;
  Begins begins = Begins::kInContext;
  Kind kind = Kind::kResult;
};

using Cases = std::vector<Case>;

void add_process_cases(Cases& cases);     // initialisation, contexts, devices
void add_allocation_cases(Cases& cases);  // cuMemAlloc*, cuMemFree*
void add_query_cases(Cases& cases);       // address ranges, pointer attributes, memory information
void add_sharing_cases(Cases& cases);     // IPC
void add_mapping_cases(Cases& cases);     // cuMemCreate and its kin, host memory, handles
void add_stream_cases(Cases& cases);      // streams, events, copies, modules
void add_capture_cases(Cases& cases);     // stream capture
void add_graph_cases(Cases& cases);       // memory that graphs allocate
void add_peer_cases(Cases& cases);        // copies between devices
void add_value_cases(Cases& cases);       // alignments, granularities, what a free does
void add_timing_cases(Cases& cases);      // what calls take
void add_argument_cases(Cases& cases);    // mapped memory, pools: what each argument gets
void add_waiting_cases(Cases& cases);     // what a call that waits holds up
void add_address_cases(Cases& cases);     // whether resolved pointers are the symbols' addresses

/// A pointer to nothing.
inline constexpr CUdeviceptr kGarbage = 0xdeadbeef000;

inline CUdeviceptr address_of(const void* host) {
  return reinterpret_cast<CUdeviceptr>(host);
}

/// Work in a stream that is not done before this object releases it.
class HeldStream {
 public:
  explicit HeldStream(const Driver& driver, unsigned flags = CU_STREAM_NON_BLOCKING);
  HeldStream(const HeldStream&) = delete;
  HeldStream& operator=(const HeldStream&) = delete;
  ~HeldStream();

  /// Queues the work that waits; it gives up waiting after `at_most_ms`.
  CUresult hold(int at_most_ms = 3000);
  void release();
  [[nodiscard]] CUstream get() const { return stream_; }

 private:
  struct Gate;
  const Driver& cu_;
  CUstream stream_ = nullptr;
  Gate* gate_;
};

}  // namespace probe
