// The wrappers of functions that instantiate, upload or launch a graph. If the driver lacks memory
// for the graph itself, and unused memory can be released for it, the call is repeated. The bytes
// that the graph's nodes allocate are claimed from the limit before the driver takes them.
#include "shim/driver/captures.h"
#include "shim/hook/calls.h"
#include "shim/serve/graph_memory.h"
#include "shim/sleep/sleeper.h"

namespace cubfc {
namespace {

// The nodes by which this graph allocates and frees.
GraphMemory::Nodes nodes_of(CUgraph graph) {
  Process* const process = Process::active();
  return process == nullptr ? GraphMemory::Nodes{} : process->graph_memory().nodes_of(graph);
}

// The flags of a function that instantiates a graph, by its arguments after the result.
unsigned long long flags_of(CUgraph /*graph*/, unsigned long long flags) {
  return flags;
}
unsigned long long flags_of(CUgraph /*graph*/, const CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  return parameters == nullptr ? 0 : parameters->flags;
}
unsigned long long flags_of(CUgraph /*graph*/, CUgraphNode* /*node*/, char* /*text*/,
                            size_t /*bytes*/) {
  return 0;
}

void note_flags(Process& process, unsigned long long flags) {
  if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0) {
    process.sleeper().device_can_launch();
  }
}

// Calls the driver's function that instantiates the graph.
template <typename... Args, typename... Given>
CUresult instantiate(CUgraph graph, CUresult (*DriverFunctions::*function)(Args...),
                     CUgraphExec* made, Given... args) try {
  const NoCancellation no_cancellation;
  GraphMemory::Nodes nodes = nodes_of(graph);
  return noted(call_with_room(function, made, args...), [&](Process& process) {
    note_flags(process, flags_of(args...));
    process.graph_memory().instantiated(*made, std::move(nodes));
  });
} catch (const std::bad_alloc&) {
  return CUDA_ERROR_OUT_OF_MEMORY;  // the host has no memory
}

// As instantiate(), for a function that can upload the graph in the same call.
template <typename... Args>
CUresult instantiate_with(CUgraphExec* made, CUgraph graph,
                          CUDA_GRAPH_INSTANTIATE_PARAMS* parameters,
                          CUresult (*DriverFunctions::*function)(Args...)) try {
  Process* const process = Process::active();
  if (process == nullptr || parameters == nullptr ||
      (parameters->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) == 0) {
    return instantiate(graph, function, made, graph, parameters);
  }
  const NoCancellation no_cancellation;
  GraphMemory& memory = process->graph_memory();
  GraphMemory::Nodes nodes = memory.nodes_of(graph);
  const CUresult result = memory.run(nodes, GraphMemory::Runs::kNo, "cuGraphInstantiateWithParams",
                                     [&] { return call(function, made, graph, parameters); });
  return noted(result, [&](Process&) {
    note_flags(*process, parameters->flags);
    memory.instantiated(*made, std::move(nodes));
  });
} catch (const std::bad_alloc&) {
  return CUDA_ERROR_OUT_OF_MEMORY;  // the host has no memory
}

// Calls the driver's function that uploads or launches the graph. If the stream captures, the
// driver makes the call a node of another graph or refuses it, and takes no memory: nothing is
// claimed.
CUresult run(GraphMemory::Runs runs, bool per_thread,
             CUresult (*DriverFunctions::*function)(CUgraphExec, CUstream), CUgraphExec graph,
             CUstream stream) try {
  Process* const process = Process::active();
  if (process == nullptr || !process->graph_memory().any()) {
    return call_with_room(function, graph, stream);
  }
  const NoCancellation no_cancellation;
  if (process->captures().is_capturing(stream, per_thread)) {
    return call(function, graph, stream);
  }
  return process->graph_memory().run(
      graph, runs, runs == GraphMemory::Runs::kYes ? "cuGraphLaunch" : "cuGraphUpload",
      [&] { return call(function, graph, stream); });
} catch (const std::bad_alloc&) {
  return CUDA_ERROR_OUT_OF_MEMORY;  // the host has no memory
}
constexpr auto kUpload = GraphMemory::Runs::kNo;
constexpr auto kLaunch = GraphMemory::Runs::kYes;

}  // namespace

using Functions = DriverFunctions;

namespace wrapper {
extern "C" {

CUresult cubfc_cuGraphInstantiate(CUgraphExec* program, CUgraph graph, CUgraphNode* node,
                                  char* text, size_t bytes) {
  return instantiate(graph, &Functions::cuGraphInstantiate, program, graph, node, text, bytes);
}

CUresult cubfc_cuGraphInstantiate_v2(CUgraphExec* program, CUgraph graph, CUgraphNode* node,
                                     char* text, size_t bytes) {
  return instantiate(graph, &Functions::cuGraphInstantiate_v2, program, graph, node, text, bytes);
}

CUresult cubfc_cuGraphInstantiateWithFlags(CUgraphExec* program, CUgraph graph,
                                           unsigned long long flags) {
  return instantiate(graph, &Functions::cuGraphInstantiateWithFlags, program, graph, flags);
}

CUresult cubfc_cuGraphInstantiateWithParams(CUgraphExec* program, CUgraph graph,
                                            CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  return instantiate_with(program, graph, parameters, &Functions::cuGraphInstantiateWithParams);
}

CUresult cubfc_cuGraphInstantiateWithParams_ptsz(CUgraphExec* program, CUgraph graph,
                                                 CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  return instantiate_with(program, graph, parameters,
                          &Functions::cuGraphInstantiateWithParams_ptsz);
}

CUresult cubfc_cuGraphUpload(CUgraphExec program, CUstream stream) {
  return run(kUpload, false, &Functions::cuGraphUpload, program, stream);
}

CUresult cubfc_cuGraphUpload_ptsz(CUgraphExec program, CUstream stream) {
  return run(kUpload, true, &Functions::cuGraphUpload_ptsz, program, stream);
}

CUresult cubfc_cuGraphLaunch(CUgraphExec program, CUstream stream) {
  return run(kLaunch, false, &Functions::cuGraphLaunch, program, stream);
}

CUresult cubfc_cuGraphLaunch_ptsz(CUgraphExec program, CUstream stream) {
  return run(kLaunch, true, &Functions::cuGraphLaunch_ptsz, program, stream);
}

}  // extern "C"
}  // namespace wrapper
}  // namespace cubfc
