// Memory that graphs allocate by nodes of their own (cuGraphAddMemAllocNode, cuMemAllocAsync in a
// capture). The driver takes it when a graph is first launched or uploaded, and keeps it for
// further launches of any graph. Under a limit that counts it, such a launch is preceded by a
// claim.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "shim/source/memory_sources.h"

namespace cubfc {

namespace config {
struct Policy;
}
class Contexts;
class FailedRequests;
struct Device;
struct DriverFunctions;

// Thread-safe. No lock is held across a driver call.
class GraphMemory {
 public:
  GraphMemory(const DriverFunctions& driver, const config::Policy& policy, Contexts& contexts,
              const MemorySources& sources, FailedRequests& failed);

  // What a launch of a graph may take of one device, in bytes: the addresses of all its
  // allocations, which are fixed when the nodes are made; two that never live at once may have the
  // same. The driver never needs more.
  struct Part {
    Device* device;
    std::uint64_t bytes;
  };
  using Parts = std::vector<Part>;
  // Of a graph that is about to be instantiated, its child graphs included. (Bodies of conditional
  // nodes have no such nodes: cuda.h, CUDA_CONDITIONAL_NODE_PARAMS.) Empty if it allocates nothing,
  // or no limit counts it. Throws std::bad_alloc.
  Parts parts_of(CUgraph graph) const;
  // The driver has instantiated it: this is what the executable graph takes from now on. Another
  // one may have had its handle before. Throws std::bad_alloc.
  void instantiated(CUgraphExec graph, Parts&& parts);

  // Whether any executable graph takes memory that a limit counts. No lock.
  bool any() const noexcept { return count_.load(std::memory_order_relaxed) > 0; }
  // Makes the driver's call that uploads or launches the graph, and returns its answer. What the
  // call may take, beyond what the driver has reserved for graphs and does not use, is claimed
  // first; CUDA_ERROR_OUT_OF_MEMORY, and no call, where the limit has too little left and nothing
  // can be given back for it. Graphs that have their memory from a launch before claim nothing.
  // `function`: as the program called it.
  template <typename Call>
  CUresult run(CUgraphExec graph, const char* function, Call call) {
    const std::shared_ptr<Known> known = find(graph);
    if (known == nullptr || has_its_memory(*known)) {
      return sources_.call_with_room(std::nullopt, call);
    }
    const CUresult result = run(known->parts, function, call);
    if (result == CUDA_SUCCESS) {
      note_memory(*known);
    }
    return result;
  }
  // The same for a call that instantiates and uploads at once.
  template <typename Call>
  CUresult run(const Parts& parts, const char* function, Call call) {
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    for (Attempt attempt(*this, parts, function);;) {
      if (attempt.claims()) {
        result = call();
        attempt.end(result);
      }
      if (result != CUDA_ERROR_OUT_OF_MEMORY || !attempt.finds_more()) {
        attempt.report(result);
        return result;
      }
    }
  }

 private:
  // An executable graph.
  struct Known {
    explicit Known(Parts&& its_parts) : parts(std::move(its_parts)) {}
    const Parts parts;
    // When it was last launched; 0: not yet. See has_its_memory().
    std::atomic<std::uint64_t> changes{0};
    std::atomic<std::uint64_t> reserved{0};
  };

  class Attempt {
   public:
    Attempt(GraphMemory& memory, const Parts& parts, const char* function);
    // All parts are claimed; or none, and the limit of one device has too little left.
    bool claims();
    // Of the driver's call. The claims end: what is reserved now counts.
    void end(CUresult result);
    // See Search::finds_more(), for the device that lacks memory.
    bool finds_more();
    void report(CUresult result) const;

   private:
    GraphMemory& memory_;
    const Parts& parts_;
    const char* const function_;
    std::vector<std::unique_ptr<Search>> searches_;  // of each part
    std::size_t lacking_ = 0;                        // which part does
    bool is_over_limit_ = false;
    std::uint64_t reserved_before_ = 0;
  };

  struct Range {
    CUdevice device;
    CUdeviceptr begin;
    CUdeviceptr end;
  };
  void collect(CUgraph graph, std::vector<Range>& ranges) const;
  std::shared_ptr<Known> find(CUgraphExec graph) const;
  bool has_its_memory(const Known& known) const;
  void note_memory(Known& known) const;
  std::uint64_t changes(const Parts& parts) const;
  static std::uint64_t reserved(const Parts& parts);

  const DriverFunctions& driver_;
  const config::Policy& policy_;
  Contexts& contexts_;
  const MemorySources& sources_;
  FailedRequests& failed_;
  // Launches that may have got memory which another graph had.
  std::atomic<std::uint64_t> taken_over_{1};
  std::atomic<std::size_t> count_{0};
  mutable std::mutex mutex_;  // guards the map
  std::unordered_map<CUgraphExec, std::shared_ptr<Known>> known_;
};

}  // namespace cubfc
