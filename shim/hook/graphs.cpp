// Graphs are instantiated, uploaded and launched. What the driver takes for the graph itself is
// asked for again when it lacks memory that arenas hold and nobody uses; what its nodes allocate is
// claimed from a limit first.
#include "shim/hook/calls.h"
#include "shim/serve/graph_memory.h"

namespace cubfc {
namespace {

// What a launch of this graph may take.
GraphMemory::Parts parts_of(CUgraph graph) {
  Process* const process = Process::active();
  return process == nullptr ? GraphMemory::Parts{} : process->graph_memory().parts_of(graph);
}

// Calls the driver's function to instantiate it.
template <typename... Args, typename... Given>
CUresult instantiate(CUgraph graph, CUresult (*DriverFunctions::*function)(Args...),
                     CUgraphExec* made, Given... args) try {
  const NoCancellation no_cancellation;
  GraphMemory::Parts parts = parts_of(graph);
  return noted(call_with_room(function, made, args...), [&](Process& process) {
    process.graph_memory().instantiated(*made, std::move(parts));
  });
} catch (const std::bad_alloc&) {
  return CUDA_ERROR_OUT_OF_MEMORY;  // of the host
}

// The same where the call may upload it, too.
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
  GraphMemory::Parts parts = memory.parts_of(graph);
  const CUresult result = memory.run(parts, "cuGraphInstantiateWithParams",
                                     [&] { return call(function, made, graph, parameters); });
  return noted(result, [&](Process&) { memory.instantiated(*made, std::move(parts)); });
} catch (const std::bad_alloc&) {
  return CUDA_ERROR_OUT_OF_MEMORY;  // of the host
}

// Calls the driver's function to upload or launch it.
CUresult run(const char* name, CUresult (*DriverFunctions::*function)(CUgraphExec, CUstream),
             CUgraphExec graph, CUstream stream) try {
  Process* const process = Process::active();
  if (process == nullptr || !process->graph_memory().any()) {
    return call_with_room(function, graph, stream);
  }
  const NoCancellation no_cancellation;
  return process->graph_memory().run(graph, name, [&] { return call(function, graph, stream); });
} catch (const std::bad_alloc&) {
  return CUDA_ERROR_OUT_OF_MEMORY;  // of the host
}

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
  return run("cuGraphUpload", &Functions::cuGraphUpload, program, stream);
}

CUresult cubfc_cuGraphUpload_ptsz(CUgraphExec program, CUstream stream) {
  return run("cuGraphUpload", &Functions::cuGraphUpload_ptsz, program, stream);
}

CUresult cubfc_cuGraphLaunch(CUgraphExec program, CUstream stream) {
  return run("cuGraphLaunch", &Functions::cuGraphLaunch, program, stream);
}

CUresult cubfc_cuGraphLaunch_ptsz(CUgraphExec program, CUstream stream) {
  return run("cuGraphLaunch", &Functions::cuGraphLaunch_ptsz, program, stream);
}

}  // extern "C"
}  // namespace wrapper
}  // namespace cubfc
