// cudaGraph*, what a stream's capture looks like inside, user objects.
#include "runtime.h"

using namespace cudart;

namespace {

CUstreamCaptureStatus* DriverStatus(cudaStreamCaptureStatus* status) {
  return reinterpret_cast<CUstreamCaptureStatus*>(status);
}

// Of the runtime's nodes only the conditional one has a form of its own that programs use here: the
// others have calls of their own (cudaGraphAddKernelNode), which no program that was met asks for.
cudaError_t AddNode(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                    const cudaGraphEdgeData* edges, size_t count, cudaGraphNodeParams* node) {
  return WithContext([&](const Driver& driver) {
    if (!node) return cudaErrorInvalidValue;
    if (node->type != cudaGraphNodeTypeConditional) {
      return NotServed("cudaGraphAddNode of a node that is not conditional");
    }
    CUgraphNodeParams params{};
    params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    params.conditional.handle = node->conditional.handle;
    params.conditional.type = static_cast<CUgraphConditionalNodeType>(node->conditional.type);
    params.conditional.size = node->conditional.size;
    if (const CUresult error = driver.cuCtxGetCurrent(&params.conditional.ctx)) {
      return ToRuntime(error);
    }
    const CUresult result = driver.cuGraphAddNode_v2(
        out, graph, dependencies, reinterpret_cast<const CUgraphEdgeData*>(edges), count, &params);
    node->conditional.phGraph_out = params.conditional.phGraph_out;
    return ToRuntime(result);
  });
}

cudaError_t Dependencies(cudaGraphNode_t node, cudaGraphNode_t* dependencies,
                         cudaGraphEdgeData* edges, size_t* count) {
  return WithContext([&](const Driver& driver) {
    return driver.cuGraphNodeGetDependencies_v2(node, dependencies,
                                                reinterpret_cast<CUgraphEdgeData*>(edges), count);
  });
}

cudaError_t CaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                        unsigned long long* id, cudaGraph_t* graph,
                        const cudaGraphNode_t** dependencies, const cudaGraphEdgeData** edges,
                        size_t* count) {
  return WithContext([&](const Driver& driver) {
    static_assert(sizeof(*id) == sizeof(cuuint64_t));
    return driver.cuStreamGetCaptureInfo_v3(
        stream, DriverStatus(status), reinterpret_cast<cuuint64_t*>(id), graph, dependencies,
        reinterpret_cast<const CUgraphEdgeData**>(edges), count);
  });
}

cudaError_t UpdateDependencies(cudaStream_t stream, cudaGraphNode_t* dependencies,
                               const cudaGraphEdgeData* edges, size_t count, unsigned flags) {
  return WithContext([&](const Driver& driver) {
    return driver.cuStreamUpdateCaptureDependencies_v2(
        stream, dependencies, reinterpret_cast<const CUgraphEdgeData*>(edges), count, flags);
  });
}

}  // namespace

// Up to CUDA 12 these names are of forms without edges' data, and a number tells the newer ones.
#if CUDART_VERSION >= 13000
CUDART_API cudaGraphAddNode(cudaGraphNode_t* out, cudaGraph_t graph,
                            const cudaGraphNode_t* dependencies, const cudaGraphEdgeData* edges,
                            size_t count, cudaGraphNodeParams* node) {
  return AddNode(out, graph, dependencies, edges, count, node);
}
CUDART_API cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* dependencies,
                                        cudaGraphEdgeData* edges, size_t* count) {
  return Dependencies(node, dependencies, edges, count);
}
CUDART_API cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                    unsigned long long* id, cudaGraph_t* graph,
                                    const cudaGraphNode_t** dependencies,
                                    const cudaGraphEdgeData** edges, size_t* count) {
  return CaptureInfo(stream, status, id, graph, dependencies, edges, count);
}
CUDART_API cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* dependencies,
                                               const cudaGraphEdgeData* edges, size_t count,
                                               unsigned flags) {
  return UpdateDependencies(stream, dependencies, edges, count, flags);
}
#else
CUDART_API cudaGraphAddNode(cudaGraphNode_t* out, cudaGraph_t graph,
                            const cudaGraphNode_t* dependencies, size_t count,
                            cudaGraphNodeParams* node) {
  return AddNode(out, graph, dependencies, nullptr, count, node);
}
CUDART_API cudaGraphAddNode_v2(cudaGraphNode_t* out, cudaGraph_t graph,
                               const cudaGraphNode_t* dependencies, const cudaGraphEdgeData* edges,
                               size_t count, cudaGraphNodeParams* node) {
  return AddNode(out, graph, dependencies, edges, count, node);
}
CUDART_API cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* dependencies,
                                        size_t* count) {
  return Dependencies(node, dependencies, nullptr, count);
}
CUDART_API cudaGraphNodeGetDependencies_v2(cudaGraphNode_t node, cudaGraphNode_t* dependencies,
                                           cudaGraphEdgeData* edges, size_t* count) {
  return Dependencies(node, dependencies, edges, count);
}
#undef cudaStreamGetCaptureInfo
CUDART_API cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                    unsigned long long* id) {
  return CaptureInfo(stream, status, id, nullptr, nullptr, nullptr, nullptr);
}
CUDART_API cudaStreamGetCaptureInfo_v2(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                       unsigned long long* id, cudaGraph_t* graph,
                                       const cudaGraphNode_t** dependencies, size_t* count) {
  return CaptureInfo(stream, status, id, graph, dependencies, nullptr, count);
}
CUDART_API cudaStreamGetCaptureInfo_v3(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                       unsigned long long* id, cudaGraph_t* graph,
                                       const cudaGraphNode_t** dependencies,
                                       const cudaGraphEdgeData** edges, size_t* count) {
  return CaptureInfo(stream, status, id, graph, dependencies, edges, count);
}
CUDART_API cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* dependencies,
                                               size_t count, unsigned flags) {
  return UpdateDependencies(stream, dependencies, nullptr, count, flags);
}
CUDART_API cudaStreamUpdateCaptureDependencies_v2(cudaStream_t stream,
                                                  cudaGraphNode_t* dependencies,
                                                  const cudaGraphEdgeData* edges, size_t count,
                                                  unsigned flags) {
  return UpdateDependencies(stream, dependencies, edges, count, flags);
}
#endif

CUDART_API cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph,
                                         const cudaGraphNode_t* dependencies,
                                         const cudaGraphEdgeData* edges, size_t count,
                                         cudaStreamCaptureMode mode) {
  return WithContext([&](const Driver& driver) {
    return driver.cuStreamBeginCaptureToGraph(stream, graph, dependencies,
                                              reinterpret_cast<const CUgraphEdgeData*>(edges),
                                              count, static_cast<CUstreamCaptureMode>(mode));
  });
}

CUDART_API cudaGraphCreate(cudaGraph_t* out, unsigned flags) {
  return WithContext([&](const Driver& driver) { return driver.cuGraphCreate(out, flags); });
}

CUDART_API cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long flags) {
  return WithContext(
      [&](const Driver& driver) { return driver.cuGraphInstantiateWithFlags(out, graph, flags); });
}

CUDART_API cudaGraphInstantiateWithFlags(cudaGraphExec_t* out, cudaGraph_t graph,
                                         unsigned long long flags) {
  return cudaGraphInstantiate(out, graph, flags);
}

CUDART_API cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return WithContext(
      [&](const Driver& driver) { return driver.cuGraphGetNodes(graph, nodes, count); });
}

CUDART_API cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return WithContext([&](const Driver& driver) { return driver.cuGraphLaunch(exec, stream); });
}

CUDART_API cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream) {
  return WithContext([&](const Driver& driver) { return driver.cuGraphUpload(exec, stream); });
}

CUDART_API cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return WithContext([&](const Driver& driver) { return driver.cuGraphExecDestroy(exec); });
}

CUDART_API cudaGraphDestroy(cudaGraph_t graph) {
  return WithContext([&](const Driver& driver) { return driver.cuGraphDestroy(graph); });
}

CUDART_API cudaGraphDebugDotPrint(cudaGraph_t graph, const char* path, unsigned flags) {
  return WithContext(
      [&](const Driver& driver) { return driver.cuGraphDebugDotPrint(graph, path, flags); });
}

CUDART_API cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle* out, cudaGraph_t graph,
                                            unsigned value, unsigned flags) {
  return WithContext([&](const Driver& driver) {
    CUcontext context = nullptr;
    if (const CUresult error = driver.cuCtxGetCurrent(&context)) return error;
    static_assert(sizeof(*out) == sizeof(CUgraphConditionalHandle));
    return driver.cuGraphConditionalHandleCreate(reinterpret_cast<CUgraphConditionalHandle*>(out),
                                                 graph, context, value, flags);
  });
}

CUDART_API cudaUserObjectCreate(cudaUserObject_t* out, void* pointer, cudaHostFn_t destroy,
                                unsigned count, unsigned flags) {
  return WithContext([&](const Driver& driver) {
    return driver.cuUserObjectCreate(out, pointer, destroy, count, flags);
  });
}

CUDART_API cudaUserObjectRelease(cudaUserObject_t object, unsigned count) {
  return WithContext(
      [&](const Driver& driver) { return driver.cuUserObjectRelease(object, count); });
}

CUDART_API cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count,
                                     unsigned flags) {
  return WithContext([&](const Driver& driver) {
    return driver.cuGraphRetainUserObject(graph, object, count, flags);
  });
}

CUDART_API cudaDeviceGetGraphMemAttribute(int device, cudaGraphMemAttributeType attribute,
                                          void* value) {
  return WithDriver([&](const Driver& driver) {
    return driver.cuDeviceGetGraphMemAttribute(device, static_cast<CUgraphMem_attribute>(attribute),
                                               value);
  });
}

CUDART_API cudaDeviceSetGraphMemAttribute(int device, cudaGraphMemAttributeType attribute,
                                          void* value) {
  return WithDriver([&](const Driver& driver) {
    return driver.cuDeviceSetGraphMemAttribute(device, static_cast<CUgraphMem_attribute>(attribute),
                                               value);
  });
}

CUDART_API cudaDeviceGraphMemTrim(int device) {
  return WithDriver([&](const Driver& driver) { return driver.cuDeviceGraphMemTrim(device); });
}
