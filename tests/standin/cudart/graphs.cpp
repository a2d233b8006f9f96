// cudaGraph*, what a stream's capture looks like inside, user objects. Nodes are in
// graph_nodes.cpp.
#include "forward.h"

using namespace cudart;

#if CUDART_VERSION >= 13000

CUDART_FORWARD(5, cudaGraphGetEdges, cuGraphGetEdges_v2)
CUDART_FORWARD(4, cudaGraphNodeGetDependentNodes, cuGraphNodeGetDependentNodes_v2)
CUDART_FORWARD(5, cudaGraphAddDependencies, cuGraphAddDependencies_v2)
CUDART_FORWARD(5, cudaGraphRemoveDependencies, cuGraphRemoveDependencies_v2)
CUDART_FORWARD(4, cudaGraphNodeGetDependencies, cuGraphNodeGetDependencies_v2)
CUDART_FORWARD(7, cudaStreamGetCaptureInfo, cuStreamGetCaptureInfo_v3)
CUDART_FORWARD(5, cudaStreamUpdateCaptureDependencies, cuStreamUpdateCaptureDependencies_v2)

#else  // the plain names are of forms without edges' data, and a number tells the newer ones

namespace {

CUstreamCaptureStatus* DriverStatus(cudaStreamCaptureStatus* status) {
  return reinterpret_cast<CUstreamCaptureStatus*>(status);
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

CUDART_FORWARD(4, cudaGraphGetEdges, cuGraphGetEdges)
CUDART_FORWARD(5, cudaGraphGetEdges_v2, cuGraphGetEdges_v2)
CUDART_FORWARD(3, cudaGraphNodeGetDependentNodes, cuGraphNodeGetDependentNodes)
CUDART_FORWARD(4, cudaGraphNodeGetDependentNodes_v2, cuGraphNodeGetDependentNodes_v2)
CUDART_FORWARD(4, cudaGraphAddDependencies, cuGraphAddDependencies)
CUDART_FORWARD(5, cudaGraphAddDependencies_v2, cuGraphAddDependencies_v2)
CUDART_FORWARD(4, cudaGraphRemoveDependencies, cuGraphRemoveDependencies)
CUDART_FORWARD(5, cudaGraphRemoveDependencies_v2, cuGraphRemoveDependencies_v2)

#endif

CUDART_FORWARD(2, cudaGraphCreate, cuGraphCreate)
CUDART_FORWARD(2, cudaGraphClone, cuGraphClone)
CUDART_FORWARD(3, cudaGraphNodeFindInClone, cuGraphNodeFindInClone)
CUDART_FORWARD(1, cudaGraphDestroy, cuGraphDestroy)
CUDART_FORWARD(1, cudaGraphDestroyNode, cuGraphDestroyNode)
CUDART_FORWARD(3, cudaGraphGetNodes, cuGraphGetNodes)
CUDART_FORWARD(3, cudaGraphGetRootNodes, cuGraphGetRootNodes)
CUDART_FORWARD(3, cudaGraphDebugDotPrint, cuGraphDebugDotPrint)

CUDART_FORWARD(3, cudaGraphInstantiate, cuGraphInstantiateWithFlags)
CUDART_FORWARD(3, cudaGraphInstantiateWithFlags, cuGraphInstantiateWithFlags)
CUDART_FORWARD(3, cudaGraphInstantiateWithParams, cuGraphInstantiateWithParams)
CUDART_FORWARD(2, cudaGraphExecGetFlags, cuGraphExecGetFlags)
CUDART_FORWARD(3, cudaGraphExecUpdate, cuGraphExecUpdate_v2)
CUDART_FORWARD(2, cudaGraphLaunch, cuGraphLaunch)
CUDART_FORWARD(2, cudaGraphUpload, cuGraphUpload)
CUDART_FORWARD(1, cudaGraphExecDestroy, cuGraphExecDestroy)

CUDART_FORWARD(5, cudaUserObjectCreate, cuUserObjectCreate)
CUDART_FORWARD(2, cudaUserObjectRetain, cuUserObjectRetain)
CUDART_FORWARD(2, cudaUserObjectRelease, cuUserObjectRelease)
CUDART_FORWARD(4, cudaGraphRetainUserObject, cuGraphRetainUserObject)
CUDART_FORWARD(3, cudaGraphReleaseUserObject, cuGraphReleaseUserObject)

CUDART_FORWARD_WITHOUT_CONTEXT(3, cudaDeviceGetGraphMemAttribute, cuDeviceGetGraphMemAttribute)
CUDART_FORWARD_WITHOUT_CONTEXT(3, cudaDeviceSetGraphMemAttribute, cuDeviceSetGraphMemAttribute)
CUDART_FORWARD_WITHOUT_CONTEXT(1, cudaDeviceGraphMemTrim, cuDeviceGraphMemTrim)
