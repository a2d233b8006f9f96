#include "shim/serve/graph_memory.h"

#include <algorithm>

#include "config/policy.h"
#include "shim/device/contexts.h"
#include "shim/device/devices.h"
#include "shim/serve/failed_requests.h"

namespace cubfc {
namespace {

// The driver maps memory in pages of so many bytes.
constexpr std::uint64_t kPageBytes = std::uint64_t{2} << 20;

}  // namespace

GraphMemory::GraphMemory(const DriverFunctions& driver, const config::Policy& policy,
                         Contexts& contexts, const MemorySources& sources, FailedRequests& failed)
    : driver_(driver), policy_(policy), contexts_(contexts), sources_(sources), failed_(failed) {}

// Adds the addresses of the allocations that the graph's nodes make.
void GraphMemory::collect(CUgraph graph, std::vector<Range>& ranges) const {
  std::size_t count = 0;
  if (driver_.cuGraphGetNodes(graph, nullptr, &count) != CUDA_SUCCESS) {
    return;
  }
  std::vector<CUgraphNode> nodes(count);
  if (count == 0 || driver_.cuGraphGetNodes(graph, nodes.data(), &count) != CUDA_SUCCESS) {
    return;
  }
  nodes.resize(std::min(count, nodes.size()));
  for (const CUgraphNode node : nodes) {
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    CUDA_MEM_ALLOC_NODE_PARAMS allocation{};
    CUgraph child = nullptr;
    if (driver_.cuGraphNodeGetType(node, &type) != CUDA_SUCCESS) {
      continue;
    }
    if (type == CU_GRAPH_NODE_TYPE_GRAPH &&
        driver_.cuGraphChildGraphNodeGetGraph(node, &child) == CUDA_SUCCESS) {
      collect(child, ranges);
    } else if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC &&
               driver_.cuGraphMemAllocNodeGetParams(node, &allocation) == CUDA_SUCCESS &&
               allocation.poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
      ranges.push_back({allocation.poolProps.location.id,
                        arena::round_down(allocation.dptr, kPageBytes),
                        arena::round_up(allocation.dptr + allocation.bytesize, kPageBytes)});
    }
  }
}

GraphMemory::Parts GraphMemory::parts_of(CUgraph graph) const {
  Parts parts;
  if (!policy_.limits() || policy_.limit_counts.value != config::LimitCounts::kAll ||
      driver_.cuGraphGetNodes == nullptr || driver_.cuGraphNodeGetType == nullptr ||
      driver_.cuGraphMemAllocNodeGetParams == nullptr ||
      driver_.cuGraphChildGraphNodeGetGraph == nullptr) {
    return parts;
  }
  std::vector<Range> ranges;
  collect(graph, ranges);
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) {
    return std::pair(a.device, a.begin) < std::pair(b.device, b.begin);
  });
  CUdeviceptr counted_until = 0;
  for (const Range& range : ranges) {
    Device* const device = contexts_.devices().get(range.device);
    if (device == nullptr || !device->limit.pools.counts()) {
      continue;
    }
    if (parts.empty() || parts.back().device != device) {
      parts.push_back({device, 0});
      counted_until = 0;
    }
    const CUdeviceptr begin = std::max(range.begin, counted_until);
    parts.back().bytes += arena::less(range.end, begin);
    counted_until = std::max(counted_until, range.end);
  }
  return parts;
}

void GraphMemory::instantiated(CUgraphExec graph, Parts&& parts) {
  if (parts.empty() && !any()) {
    return;
  }
  auto known = parts.empty() ? nullptr : std::make_shared<Known>(std::move(parts));
  const std::lock_guard lock(mutex_);
  if (known == nullptr) {
    known_.erase(graph);
  } else {
    known_[graph] = std::move(known);
  }
  count_.store(known_.size(), std::memory_order_relaxed);
}

std::shared_ptr<GraphMemory::Known> GraphMemory::find(CUgraphExec graph) const {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(graph);
  return found == known_.end() ? nullptr : found->second;
}

// Grows whenever memory that a graph had may have become another's, or the device's.
std::uint64_t GraphMemory::changes(const Parts& parts) const {
  std::uint64_t changes = taken_over_.load(std::memory_order_relaxed);
  for (const Part& part : parts) {
    changes += part.device->limit.pools.trims();
  }
  return changes;
}

std::uint64_t GraphMemory::reserved(const Parts& parts) {
  std::uint64_t bytes = 0;
  for (const Part& part : parts) {
    bytes += part.device->limit.pools.graphs().reserved;
  }
  return bytes;
}

// From its last launch. What the program trims by itself is seen by what is reserved.
bool GraphMemory::has_its_memory(const Known& known) const {
  return known.changes.load(std::memory_order_relaxed) == changes(known.parts) &&
         reserved(known.parts) >= known.reserved.load(std::memory_order_relaxed);
}

void GraphMemory::note_memory(Known& known) const {
  known.reserved.store(reserved(known.parts), std::memory_order_relaxed);
  known.changes.store(changes(known.parts), std::memory_order_relaxed);
}

GraphMemory::Attempt::Attempt(GraphMemory& memory, const Parts& parts, const char* function)
    : memory_(memory), parts_(parts), function_(function) {
  for (const Part& part : parts) {
    searches_.push_back(std::make_unique<Search>(memory.sources_, *part.device,
                                                 Need{.bytes = part.bytes, .counted = true}));
  }
}

bool GraphMemory::Attempt::claims() {
  reserved_before_ = reserved(parts_);
  for (lacking_ = 0; lacking_ < parts_.size(); ++lacking_) {
    const Part& part = parts_[lacking_];
    is_over_limit_ = !part.device->limit.pools.claim_for_graphs(part.bytes);
    if (is_over_limit_) {
      for (std::size_t i = 0; i < lacking_; ++i) {
        parts_[i].device->limit.pools.unclaim_for_graphs(parts_[i].bytes);
      }
      return false;
    }
    part.device->preallocation.keep_to_limit();
  }
  lacking_ = 0;
  return true;
}

void GraphMemory::Attempt::end(CUresult result) {
  std::uint64_t wanted = 0;
  for (const Part& part : parts_) {
    part.device->limit.pools.unclaim_for_graphs(part.bytes);
    wanted += part.bytes;
  }
  if (result == CUDA_SUCCESS && arena::less(reserved(parts_), reserved_before_) < wanted) {
    memory_.taken_over_.fetch_add(1, std::memory_order_relaxed);
  }
}

bool GraphMemory::Attempt::finds_more() {
  return lacking_ < searches_.size() && searches_[lacking_]->finds_more();
}

void GraphMemory::Attempt::report(CUresult result) const {
  if (result == CUDA_ERROR_OUT_OF_MEMORY && lacking_ < parts_.size()) {
    const Part& part = parts_[lacking_];
    part.device->use.failed(Memory::kPool);
    memory_.failed_.report({*part.device, part.bytes, function_},
                           is_over_limit_ ? arena::Failure::kOverLimit : arena::Failure::kExhausted,
                           nullptr);
  }
}

}  // namespace cubfc
