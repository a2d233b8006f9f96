// Memory that graphs allocate by nodes of their own (cuGraphAddMemAllocNode, cuMemAllocAsync in a
// capture). The driver takes the memory when a graph is launched or uploaded, and keeps it for
// further launches of any graph. Under a limit that counts such memory, bytes are claimed before
// such a call.
//
// Graphs may share the memory that they allocate and free, in ways that only the driver knows. A
// launch must not be refused if such memory could serve it. So a launch claims only what its graph
// needs, plus what launched graphs have allocated and nobody has freed yet. Graphs that run at the
// same time may take more than was claimed. The rest counts once the driver has reserved it.
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

  // An allocation that a graph makes. Its address is fixed when the node is made. `begin` and `end`
  // are the allocation's bounds, rounded outwards to the driver's pages.
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
  // The nodes of a graph that is about to be instantiated, its child graphs included. (Bodies of
  // conditional nodes have no such nodes: cuda.h, CUDA_CONDITIONAL_NODE_PARAMS.) Empty if the graph
  // has none, or no limit counts them. Throws std::bad_alloc.
  Nodes nodes_of(CUgraph graph) const;
  // Called when the driver has instantiated the graph: `nodes` are the executable graph's from now
  // on. They replace the nodes of an earlier graph that had the same handle. Throws std::bad_alloc.
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

  // Called when the driver has freed the memory at this address, which a graph may have allocated.
  void freed(CUdeviceptr address) noexcept;

 private:
  // What a launch needs of one device, in bytes. `bytes`: for all allocations of the graph. Two
  // allocations that never live at once may have the same addresses; these count once.
  struct Part {
    Device* device;
    std::uint64_t bytes;
    // `bytes`, and what launches of other graphs have allocated and nobody has freed yet.
    std::uint64_t demand;
  };
  using Parts = std::vector<Part>;

  class Attempt {
   public:
    Attempt(GraphMemory& memory, const Nodes& nodes, const char* function)
        : memory_(memory), nodes_(nodes), function_(function) {}
    // Claims all parts. False, and none is claimed, if the limit of one device has too little left.
    bool claims();
    // Called when the driver's call is over: the claims end, and what the driver has reserved
    // counts.
    void end();
    // Whether another try may succeed, since something was given back at once.
    bool finds_more();
    void report(CUresult result) const;

   private:
    GraphMemory& memory_;
    const Nodes& nodes_;
    const char* const function_;
    Parts parts_;
    std::vector<std::unique_ptr<Search>> searches_;  // one for each part
    std::size_t lacking_ = 0;                        // the index of the part that lacks memory
    bool is_over_limit_ = false;
  };

  // What the context's launches have allocated and not freed is gone with the context.
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
