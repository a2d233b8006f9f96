// Memory that graphs allocate by nodes of their own (cuGraphAddMemAllocNode, cuMemAllocAsync in a
// capture). The driver takes it when a graph is launched or uploaded, and keeps it for further
// launches of any graph. Under a limit that counts it, such a call is preceded by a claim.
//
// What one graph allocates and frees, others may share, in ways that only the driver knows. So no
// launch is refused that could do with such memory: what is demanded of the limit is what this one
// needs beside the allocations that launched graphs have made and nobody has freed yet. Graphs that
// run at the same time may take more, which then counts like all that the driver has reserved.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "shim/device/context_end.h"
#include "shim/source/memory_sources.h"

namespace cubfc {

namespace config {
struct Policy;
}
class Contexts;
class FailedRequests;
struct Device;
struct DriverFunctions;

// Thread-safe. No lock is held across a driver call. Nothing here waits for work.
class GraphMemory : private ContextListener {
 public:
  GraphMemory(const DriverFunctions& driver, const config::Policy& policy, Contexts& contexts,
              const MemorySources& sources, FailedRequests& failed);

  // An allocation that a graph makes: its address is fixed when the node is made, rounded out to
  // the driver's pages.
  struct Range {
    Device* device;
    CUdeviceptr begin;
    CUdeviceptr end;
    CUdeviceptr address;
    bool stays;  // the graph itself does not free it
  };
  struct Nodes {
    std::vector<Range> allocations;  // by device and address
    std::vector<CUdeviceptr> frees;  // of what other graphs have allocated
    bool empty() const { return allocations.empty() && frees.empty(); }
  };
  // Of a graph that is about to be instantiated, its child graphs included. (Bodies of conditional
  // nodes have no such nodes: cuda.h, CUDA_CONDITIONAL_NODE_PARAMS.) Empty if it has none, or no
  // limit counts them. Throws std::bad_alloc.
  Nodes nodes_of(CUgraph graph) const;
  // The driver has instantiated it: these are the executable graph's from now on. Another one may
  // have had its handle before. Throws std::bad_alloc.
  void instantiated(CUgraphExec graph, Nodes&& nodes);

  // Whether any executable graph has such nodes. No lock.
  bool any() const noexcept { return count_.load(std::memory_order_relaxed) > 0; }
  // Makes the driver's call that uploads or launches the graph, and returns its answer.
  // CUDA_ERROR_OUT_OF_MEMORY, and no call, where the limit has too little left and nothing can be
  // given back for it at once. `function`: as the program called it.
  enum class Runs : bool { kNo, kYes };  // an upload does not
  template <typename Call>
  CUresult run(CUgraphExec graph, Runs runs, const char* function, Call call) {
    const std::shared_ptr<const Nodes> nodes = find(graph);
    return nodes == nullptr ? sources_.call_with_room(std::nullopt, call)
                            : run(*nodes, runs, function, call);
  }
  // The same for a call that instantiates and uploads at once.
  template <typename Call>
  CUresult run(const Nodes& nodes, Runs runs, const char* function, Call call) {
    if (nodes.allocations.empty()) {
      const CUresult result = sources_.call_with_room(std::nullopt, call);
      if (result == CUDA_SUCCESS && runs == Runs::kYes) {
        note_run(nodes);
      }
      return result;
    }
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    for (Attempt attempt(*this, nodes, function);;) {
      if (attempt.claims()) {
        result = call();
        if (result == CUDA_SUCCESS && runs == Runs::kYes) {
          note_run(nodes);
        }
        attempt.end();
      }
      if (result != CUDA_ERROR_OUT_OF_MEMORY || !attempt.finds_more()) {
        attempt.report(result);
        return result;
      }
    }
  }

  // The driver has freed what the program knows by this address, which a graph may have allocated.
  void freed(CUdeviceptr address) noexcept;

 private:
  // What a launch needs of one device, in bytes: the addresses of all its allocations together, of
  // which two that never live at once may have the same.
  struct Part {
    Device* device;
    std::uint64_t bytes;
    std::uint64_t demand;  // and what others have allocated and not freed
  };
  using Parts = std::vector<Part>;

  class Attempt {
   public:
    Attempt(GraphMemory& memory, const Nodes& nodes, const char* function)
        : memory_(memory), nodes_(nodes), function_(function) {}
    // All parts are claimed; or none, and the limit of one device has too little left.
    bool claims();
    // The driver's call is over: what is reserved now counts.
    void end();
    // Whether another try may succeed, since something was given back at once.
    bool finds_more();
    void report(CUresult result) const;

   private:
    GraphMemory& memory_;
    const Nodes& nodes_;
    const char* const function_;
    Parts parts_;
    std::vector<std::unique_ptr<Search>> searches_;  // of each part
    std::size_t lacking_ = 0;                        // which part does
    bool is_over_limit_ = false;
  };

  // What its launches have left behind is gone with it.
  void context_ended(std::uint64_t id) override;
  void collect(CUgraph graph, Nodes& nodes, std::vector<CUdeviceptr>& frees) const;
  std::shared_ptr<const Nodes> find(CUgraphExec graph) const;
  Parts parts_of(const Nodes& nodes) const;
  void note_run(const Nodes& nodes) noexcept;

  const DriverFunctions& driver_;
  const config::Policy& policy_;
  Contexts& contexts_;
  const MemorySources& sources_;
  FailedRequests& failed_;
  std::atomic<std::size_t> count_{0};       // of known_
  std::atomic<std::size_t> live_count_{0};  // of live_
  mutable std::mutex mutex_;                // guards the maps
  std::unordered_map<CUgraphExec, std::shared_ptr<const Nodes>> known_;
  struct Live {
    Range range;
    std::uint64_t context_id;  // of the launch; 0: not known
  };
  std::map<CUdeviceptr, Live> live_;  // by address: allocated by a launch and not freed yet
};

}  // namespace cubfc
