#include "shim/serve/graph_memory.h"

#include <algorithm>
#include <tuple>

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
    : driver_(driver), policy_(policy), contexts_(contexts), sources_(sources), failed_(failed) {
  contexts.add_listener(*this);
}

void GraphMemory::context_ended(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  std::erase_if(live_, [&](const auto& entry) { return entry.second.context_id == id; });
  live_count_.store(live_.size(), std::memory_order_relaxed);
}

// Adds the allocations and the frees of the graph's nodes.
void GraphMemory::collect(CUgraph graph, Nodes& all, std::vector<CUdeviceptr>& frees) const {
  std::size_t count = 0;
  if (driver_.cuGraphGetNodes(graph, nullptr, &count) != CUDA_SUCCESS || count == 0) {
    return;
  }
  std::vector<CUgraphNode> nodes(count);
  if (driver_.cuGraphGetNodes(graph, nodes.data(), &count) != CUDA_SUCCESS) {
    return;
  }
  nodes.resize(std::min(count, nodes.size()));
  for (const CUgraphNode node : nodes) {
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    CUDA_MEM_ALLOC_NODE_PARAMS allocation{};
    CUgraph child = nullptr;
    CUdeviceptr freed = 0;
    if (driver_.cuGraphNodeGetType(node, &type) != CUDA_SUCCESS) {
      continue;
    }
    if (type == CU_GRAPH_NODE_TYPE_GRAPH &&
        driver_.cuGraphChildGraphNodeGetGraph(node, &child) == CUDA_SUCCESS) {
      collect(child, all, frees);
    } else if (type == CU_GRAPH_NODE_TYPE_MEM_FREE &&
               driver_.cuGraphMemFreeNodeGetParams(node, &freed) == CUDA_SUCCESS) {
      frees.push_back(freed);
    } else if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC &&
               driver_.cuGraphMemAllocNodeGetParams(node, &allocation) == CUDA_SUCCESS &&
               allocation.poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
      Device* const device = contexts_.devices().get(allocation.poolProps.location.id);
      if (device != nullptr && device->limit.pools.counts()) {
        all.allocations.push_back(
            {device, arena::round_down(allocation.dptr, kPageBytes),
             arena::round_up(allocation.dptr + allocation.bytesize, kPageBytes), allocation.dptr,
             true});
      }
    }
  }
}

GraphMemory::Nodes GraphMemory::nodes_of(CUgraph graph) const {
  Nodes nodes;
  if (!policy_.limits() || policy_.limit_counts.value != config::LimitCounts::kAll ||
      driver_.cuGraphGetNodes == nullptr || driver_.cuGraphNodeGetType == nullptr ||
      driver_.cuGraphMemAllocNodeGetParams == nullptr ||
      driver_.cuGraphMemFreeNodeGetParams == nullptr ||
      driver_.cuGraphChildGraphNodeGetGraph == nullptr) {
    return nodes;
  }
  std::vector<CUdeviceptr> frees;
  collect(graph, nodes, frees);
  for (const CUdeviceptr address : frees) {
    bool is_own = false;
    for (Range& range : nodes.allocations) {
      const bool is_it = range.address == address;
      range.stays = range.stays && !is_it;
      is_own = is_own || is_it;
    }
    if (!is_own) {
      nodes.frees.push_back(address);
    }
  }
  std::sort(nodes.allocations.begin(), nodes.allocations.end(), [](const Range& a, const Range& b) {
    return std::tie(a.device, a.begin) < std::tie(b.device, b.begin);
  });
  return nodes;
}

void GraphMemory::instantiated(CUgraphExec graph, Nodes&& nodes) {
  if (nodes.empty() && !any()) {
    return;
  }
  auto known = nodes.empty() ? nullptr : std::make_shared<const Nodes>(std::move(nodes));
  const std::lock_guard lock(mutex_);
  if (known == nullptr) {
    known_.erase(graph);
  } else {
    known_[graph] = std::move(known);
  }
  count_.store(known_.size(), std::memory_order_relaxed);
}

std::shared_ptr<const GraphMemory::Nodes> GraphMemory::find(CUgraphExec graph) const {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(graph);
  return found == known_.end() ? nullptr : found->second;
}

// What an earlier launch of the same graph has allocated, and this one allocates again, counts
// once.
GraphMemory::Parts GraphMemory::parts_of(const Nodes& nodes) const {
  Parts parts;
  CUdeviceptr counted_until = 0;
  for (const Range& range : nodes.allocations) {
    if (parts.empty() || parts.back().device != range.device) {
      parts.push_back({range.device, 0, 0});
      counted_until = 0;
    }
    parts.back().bytes += arena::less(range.end, std::max(range.begin, counted_until));
    counted_until = std::max(counted_until, range.end);
  }
  const std::lock_guard lock(mutex_);
  for (Part& part : parts) {
    part.demand = part.bytes;
    for (const auto& [address, live] : live_) {
      const bool is_own =
          std::any_of(nodes.allocations.begin(), nodes.allocations.end(),
                      [&, at = address](const Range& range) { return range.address == at; });
      const Range& range = live.range;
      part.demand += range.device == part.device && !is_own ? range.end - range.begin : 0;
    }
  }
  return parts;
}

void GraphMemory::note_run(const Nodes& nodes) noexcept try {
  const Context* const context = contexts_.current();
  const std::uint64_t context_id =
      context == nullptr ? 0 : context->id.load(std::memory_order_acquire);
  const std::lock_guard lock(mutex_);
  for (const CUdeviceptr address : nodes.frees) {
    live_.erase(address);
  }
  for (const Range& range : nodes.allocations) {
    if (range.stays) {
      live_.insert_or_assign(range.address, Live{range, context_id});
    }
  }
  live_count_.store(live_.size(), std::memory_order_relaxed);
} catch (const std::bad_alloc&) {  // the run counts only by what the driver has reserved
}

void GraphMemory::freed(CUdeviceptr address) noexcept {
  if (live_count_.load(std::memory_order_relaxed) == 0) {
    return;
  }
  const std::lock_guard lock(mutex_);
  live_.erase(address);
  live_count_.store(live_.size(), std::memory_order_relaxed);
}

// The parts are added up anew at each try: others may have freed memory meanwhile.
bool GraphMemory::Attempt::claims() {
  parts_ = memory_.parts_of(nodes_);
  for (std::size_t i = searches_.size(); i < parts_.size(); ++i) {
    searches_.push_back(std::make_unique<Search>(memory_.sources_, *parts_[i].device,
                                                 Need{.bytes = parts_[i].bytes, .counted = true}));
  }
  for (lacking_ = 0; lacking_ < parts_.size(); ++lacking_) {
    const Part& part = parts_[lacking_];
    is_over_limit_ = !part.device->limit.pools.claim_for_graphs(part.demand);
    if (is_over_limit_) {
      for (std::size_t i = 0; i < lacking_; ++i) {
        parts_[i].device->limit.pools.unclaim_for_graphs();
      }
      return false;
    }
    part.device->preallocation.keep_to_limit();
  }
  lacking_ = 0;
  return true;
}

void GraphMemory::Attempt::end() {
  for (const Part& part : parts_) {
    part.device->limit.pools.unclaim_for_graphs();
  }
}

bool GraphMemory::Attempt::finds_more() {
  if (is_over_limit_) {
    return searches_[lacking_]->finds_more(Search::Waits::kNo);
  }
  // The driver does not say which device lacks memory.
  return std::any_of(searches_.begin(), searches_.end(),
                     [](const auto& search) { return search->finds_more(Search::Waits::kNo); });
}

void GraphMemory::Attempt::report(CUresult result) const {
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    const Part& part = parts_[lacking_];
    part.device->use.failed(Memory::kPool);
    memory_.failed_.report({*part.device, part.bytes, function_},
                           is_over_limit_ ? arena::Failure::kOverLimit : arena::Failure::kExhausted,
                           nullptr);
  }
}

}  // namespace cubfc
