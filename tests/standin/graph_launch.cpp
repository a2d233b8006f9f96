// cuGraphLaunch and cuGraphUpload: the rules of an executable graph's memory, then its work in a
// stream.
#include "behaviour.h"
#include "capture.h"
#include "entry_point.h"
#include "graph_memory.h"
#include "work.h"

namespace standin {
namespace {

struct BlocksOfExec {
  explicit BlocksOfExec(const GraphExec& exec) { CollectBlocks(exec.graph, allocated, freed); }

  std::vector<GraphBlock*> allocated;
  std::vector<GraphBlock*> freed;
};

// cuda.h, cuGraphLaunch: memory that is still allocated may be so only with the flag that frees it
// first. What a free node frees must be allocated, or be so by then.
CUresult CheckMemory(const GraphExec& exec, const BlocksOfExec& blocks) {
  const bool frees_first = (exec.flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0;
  for (const GraphBlock* block : blocks.allocated) {
    if (block->gone || (block->allocated && !frees_first)) return CUDA_ERROR_INVALID_VALUE;
  }
  for (const GraphBlock* block : blocks.freed) {
    const bool own = std::find(blocks.allocated.begin(), blocks.allocated.end(), block) !=
                     blocks.allocated.end();
    if (!own && !block->allocated) return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

void NoteUse(const BlocksOfExec& blocks, const Stream& stream, const FencePtr& end) {
  const auto note = [&](GraphBlock& block, bool allocated) {
    std::erase_if(block.busy, [](const FencePtr& fence) { return fence->done; });
    block.allocated = allocated;
    block.busy.push_back(end);
    block.last_stream = stream.id;
    const auto found = state().allocations.find(block.base);
    if (found != state().allocations.end() && block.holders == 0 && !allocated) {
      state().allocations.erase(found);
    }
  };
  for (GraphBlock* block : blocks.allocated) note(*block, true);
  for (GraphBlock* block : blocks.freed) note(*block, false);
}

// What a launch in a stream that captures adds to the graph: cuda.h's child graph node.
std::shared_ptr<Graph> GraphOf(const ExecGraph& exec) {
  std::shared_ptr<Graph> graph = NewGraph(GraphOwner::kChildNode);
  for (const ExecNode& node : exec.nodes) {
    NodeParameters parameters;
    if (node.enabled) parameters = *node.parameters;
    if (auto* child = std::get_if<ChildNode>(&parameters)) {
      child->graph = GraphOf(node.inner.front());
    }
    AppendNode(*graph, std::move(parameters), {});
  }
  for (std::size_t i = 0; i < exec.nodes.size(); ++i) {
    for (const std::size_t before : exec.nodes[i].dependencies) {
      graph->nodes[i]->dependencies.push_back({graph->nodes[before].get(), {}});
    }
  }
  return graph;
}

CUresult CaptureLaunch(Stream& stream, const GraphExec& exec, const BlocksOfExec& blocks) {
  const bool cloned = blocks.allocated.empty() && blocks.freed.empty() && exec.conditions.empty();
  if (!cloned) return CUDA_ERROR_NOT_SUPPORTED;
  if (!stream.capture->valid) return Behaviour("capture.work.invalidated");
  const std::shared_ptr<Graph> graph = GraphOf(exec.graph);
  graph->objects = *exec.objects;
  return AddNode(stream, ChildNode{graph});
}

CUresult LaunchGraph(CUgraphExec handle, CUstream stream_handle) {
  const Lock lock(state().mutex);
  StreamPtr stream;
  GraphExecPtr exec;
  if (const CUresult error = FindStream(stream_handle, stream)) return error;
  if (const CUresult error = FindExec(handle, exec)) return error;
  const BlocksOfExec blocks(*exec);
  if (stream->capture) return CaptureLaunch(*stream, *exec, blocks);
  if (const CUresult error = CheckLegacyUse(*stream)) return error;
  if (const CUresult error = CheckMemory(*exec, blocks)) return error;
  Fences after;
  if (exec->last_launch) after.push_back(exec->last_launch);
  if (const CUresult error = MapBlocks(blocks.allocated, *stream, after)) return error;
  // It holds the executable graph, whose addresses it needs, and the user objects of today.
  const auto end = std::make_shared<Fence>();
  exec->last_launch = Enqueue(
      *stream,
      [exec, objects = exec->objects, plan = PlanOf(exec->graph, end), delay = state().work_delay] {
        for (const auto& condition : exec->conditions) {
          if (condition->assigned_at_launch) condition->value = condition->default_value;
        }
        RunPlan(plan, delay);
      },
      std::move(after), end);
  NoteUse(blocks, *stream, exec->last_launch);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult UploadGraph(GraphExec& exec, CUstream stream_handle) {
  StreamPtr stream;
  if (const CUresult error = FindStream(stream_handle, stream)) return error;
  if (stream->capture) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult error = CheckLegacyUse(*stream)) return error;
  const BlocksOfExec blocks(exec);
  Fences after;
  if (exec.last_launch) after.push_back(exec.last_launch);
  if (const CUresult error = MapBlocks(blocks.allocated, *stream, after)) return error;
  const FencePtr end = Enqueue(*stream, nullptr, std::move(after));
  for (GraphBlock* block : blocks.allocated) {
    block->busy.push_back(end);
    block->last_stream = stream->id;
  }
  return CUDA_SUCCESS;
}

}  // namespace standin

using namespace standin;

STREAM_ENTRY(cuGraphLaunch, _ptsz, (CUgraphExec exec, CUstream stream), (exec, stream)) {
  return LaunchGraph(exec, stream);
}

STREAM_ENTRY(cuGraphUpload, _ptsz, (CUgraphExec handle, CUstream stream), (handle, stream)) {
  const Lock lock(state().mutex);
  GraphExecPtr exec;
  if (const CUresult error = FindExec(handle, exec)) return error;
  return UploadGraph(*exec, stream);
}
