// cudaGraph*Node*: what each type of node is made of, asked for, and changed.
#include <cstring>

#include "convert.h"
#include "forward.h"
#include "registrations.h"

using namespace cudart;

namespace {

// In the order of cudaGraphAdd*Node: the new node, its graph, what it depends on, how many those
// are.
struct NewNode {
  cudaGraphNode_t* out;
  cudaGraph_t graph;
  const cudaGraphNode_t* dependencies;
  size_t count;
};

// The runtime's description of a kernel and the driver's, in either of their versions.
template <typename Runtime, typename Kernel>
cudaError_t ToKernel(const Driver& driver, const Runtime& from, Kernel& out) {
  out = {};
  out.gridDimX = from.gridDim.x;
  out.gridDimY = from.gridDim.y;
  out.gridDimZ = from.gridDim.z;
  out.blockDimX = from.blockDim.x;
  out.blockDimY = from.blockDim.y;
  out.blockDimZ = from.blockDim.z;
  out.sharedMemBytes = from.sharedMemBytes;
  out.kernelParams = from.kernelParams;
  out.extra = from.extra;
  if (const CUresult error = driver.cuCtxGetCurrent(&out.ctx)) return ToRuntime(error);
  return FindKernel(driver, from.func, &out.kern);
}

// Runs body(driver, parameters) for the driver's description of the kernel.
template <typename Body>
cudaError_t WithKernel(const cudaKernelNodeParams* kernel, Body body) {
  return WithContext([&](const Driver& driver) {
    if (!kernel) return cudaErrorInvalidValue;
    CUDA_KERNEL_NODE_PARAMS parameters{};
    if (const cudaError_t error = ToKernel(driver, *kernel, parameters)) return error;
    return ToRuntime(body(driver, &parameters));
  });
}

// Runs body(driver, context) with the context that the node's work is to run in.
template <typename Body>
cudaError_t InContext(Body body) {
  return WithContext([&](const Driver& driver) {
    CUcontext context = nullptr;
    if (const CUresult error = driver.cuCtxGetCurrent(&context)) return ToRuntime(error);
    return static_cast<cudaError_t>(body(driver, context));
  });
}

cudaError_t AddCopy(const NewNode& node, const CUDA_MEMCPY3D& box) {
  return InContext([&](const Driver& driver, CUcontext context) {
    return driver.cuGraphAddMemcpyNode(node.out, node.graph, node.dependencies, node.count, &box,
                                       context);
  });
}
cudaError_t SetCopy(cudaGraphNode_t node, const CUDA_MEMCPY3D& box) {
  return WithContext(
      [&](const Driver& driver) { return driver.cuGraphMemcpyNodeSetParams(node, &box); });
}
cudaError_t SetCopy(cudaGraphExec_t exec, cudaGraphNode_t node, const CUDA_MEMCPY3D& box) {
  return InContext([&](const Driver& driver, CUcontext context) {
    return driver.cuGraphExecMemcpyNodeSetParams(exec, node, &box, context);
  });
}

// Run use(box) for what is to be copied: a box, bytes, or bytes to or from a variable of the
// device.
template <typename Use>
cudaError_t CopyOfBox(const cudaMemcpy3DParms* copy, Use use) {
  return WithContext([&](const Driver& driver) {
    if (!copy) return cudaErrorInvalidValue;
    CUDA_MEMCPY3D box{};
    if (const cudaError_t error = ToBox(driver, *copy, box)) return error;
    return use(box);
  });
}
template <typename Use>
cudaError_t CopyOfBytes(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, Use use) {
  if (!IsKind(kind)) return Remember(cudaErrorInvalidMemcpyDirection);
  return use(Row(to, from, bytes));
}
template <typename Use>
cudaError_t CopyToVariable(const void* symbol, const void* from, size_t bytes, size_t offset,
                           cudaMemcpyKind kind, Use use) {
  return WithContext([&](const Driver& driver) {
    CUdeviceptr to = 0;
    if (const cudaError_t error = FindInVariable(driver, symbol, offset, bytes, &to)) return error;
    return CopyOfBytes(Pointer(to), from, bytes, kind, use);
  });
}
template <typename Use>
cudaError_t CopyFromVariable(void* to, const void* symbol, size_t bytes, size_t offset,
                             cudaMemcpyKind kind, Use use) {
  return WithContext([&](const Driver& driver) {
    CUdeviceptr from = 0;
    if (const cudaError_t error = FindInVariable(driver, symbol, offset, bytes, &from))
      return error;
    return CopyOfBytes(to, Pointer(from), bytes, kind, use);
  });
}

static_assert(sizeof(cudaMemsetParams) == sizeof(CUDA_MEMSET_NODE_PARAMS));
const CUDA_MEMSET_NODE_PARAMS* Set(const cudaMemsetParams* set) {
  return reinterpret_cast<const CUDA_MEMSET_NODE_PARAMS*>(set);
}

// Of most types the description has one form; the driver wants the context of others, and describes
// kernels and copies in its own way.
cudaError_t ToNode(const Driver& driver, const cudaGraphNodeParams& from, CUgraphNodeParams& out) {
  static_assert(sizeof(from) == sizeof(out));
  static_assert(offsetof(cudaGraphNodeParams, kernel) == offsetof(CUgraphNodeParams, kernel));
  CUcontext context = nullptr;
  if (const CUresult error = driver.cuCtxGetCurrent(&context)) return ToRuntime(error);
  std::memcpy(&out, &from, sizeof(out));
  switch (from.type) {
    case cudaGraphNodeTypeKernel:
      return ToKernel(driver, from.kernel, out.kernel);
    case cudaGraphNodeTypeMemcpy:
      out.memcpy = {};
      out.memcpy.flags = from.memcpy.flags;
      out.memcpy.copyCtx = context;
      return ToBox(driver, from.memcpy.copyParams, out.memcpy.copyParams);
    case cudaGraphNodeTypeMemset:
      out.memset.ctx = context;
      return cudaSuccess;
    case cudaGraphNodeTypeConditional:
      out.conditional.ctx = context;
      return cudaSuccess;
    default:
      return cudaSuccess;
  }
}

cudaError_t AddNode(const NewNode& node, const cudaGraphEdgeData* edges,
                    cudaGraphNodeParams* asked) {
  return WithContext([&](const Driver& driver) {
    if (!asked) return cudaErrorInvalidValue;
    CUgraphNodeParams parameters{};
    if (const cudaError_t error = ToNode(driver, *asked, parameters)) return error;
    const CUresult result = driver.cuGraphAddNode_v2(
        node.out, node.graph, node.dependencies, reinterpret_cast<const CUgraphEdgeData*>(edges),
        node.count, &parameters);
    // What it tells of the new node.
    if (asked->type == cudaGraphNodeTypeMemAlloc) {
      asked->alloc.dptr = Pointer(parameters.alloc.dptr);
    } else if (asked->type == cudaGraphNodeTypeConditional) {
      asked->conditional.phGraph_out = parameters.conditional.phGraph_out;
    }
    return ToRuntime(result);
  });
}

// Runs body(driver, parameters) for the driver's description of a node.
template <typename Body>
cudaError_t WithNode(const cudaGraphNodeParams* asked, Body body) {
  return WithContext([&](const Driver& driver) {
    if (!asked) return cudaErrorInvalidValue;
    CUgraphNodeParams parameters{};
    if (const cudaError_t error = ToNode(driver, *asked, parameters)) return error;
    return ToRuntime(body(driver, &parameters));
  });
}

}  // namespace

// Up to CUDA 12 a number tells the form with edges' data.
#if CUDART_VERSION >= 13000
CUDART_API cudaGraphAddNode(cudaGraphNode_t* out, cudaGraph_t graph,
                            const cudaGraphNode_t* dependencies, const cudaGraphEdgeData* edges,
                            size_t count, cudaGraphNodeParams* node) {
  return AddNode({out, graph, dependencies, count}, edges, node);
}
#else
CUDART_API cudaGraphAddNode(cudaGraphNode_t* out, cudaGraph_t graph,
                            const cudaGraphNode_t* dependencies, size_t count,
                            cudaGraphNodeParams* node) {
  return AddNode({out, graph, dependencies, count}, nullptr, node);
}
CUDART_API cudaGraphAddNode_v2(cudaGraphNode_t* out, cudaGraph_t graph,
                               const cudaGraphNode_t* dependencies, const cudaGraphEdgeData* edges,
                               size_t count, cudaGraphNodeParams* node) {
  return AddNode({out, graph, dependencies, count}, edges, node);
}
#endif

CUDART_API cudaGraphNodeSetParams(cudaGraphNode_t node, cudaGraphNodeParams* to) {
  return WithNode(to, [&](const Driver& driver, CUgraphNodeParams* parameters) {
    return driver.cuGraphNodeSetParams(node, parameters);
  });
}

CUDART_API cudaGraphExecNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                      cudaGraphNodeParams* to) {
  return WithNode(to, [&](const Driver& driver, CUgraphNodeParams* parameters) {
    return driver.cuGraphExecNodeSetParams(exec, node, parameters);
  });
}

CUDART_API cudaGraphAddKernelNode(cudaGraphNode_t* out, cudaGraph_t graph,
                                  const cudaGraphNode_t* dependencies, size_t count,
                                  const cudaKernelNodeParams* kernel) {
  return WithKernel(kernel, [&](const Driver& driver, const CUDA_KERNEL_NODE_PARAMS* parameters) {
    return driver.cuGraphAddKernelNode_v2(out, graph, dependencies, count, parameters);
  });
}

CUDART_API cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const cudaKernelNodeParams* kernel) {
  return WithKernel(kernel, [&](const Driver& driver, const CUDA_KERNEL_NODE_PARAMS* parameters) {
    return driver.cuGraphKernelNodeSetParams_v2(node, parameters);
  });
}

CUDART_API cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                            const cudaKernelNodeParams* kernel) {
  return WithKernel(kernel, [&](const Driver& driver, const CUDA_KERNEL_NODE_PARAMS* parameters) {
    return driver.cuGraphExecKernelNodeSetParams_v2(exec, node, parameters);
  });
}

CUDART_API cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams* out) {
  return WithContext([&](const Driver& driver) {
    CUDA_KERNEL_NODE_PARAMS found{};
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult error = driver.cuGraphKernelNodeGetParams_v2(node, &found)) return error;
    out->func = HostFunctionOf(driver, found.kern, found.func);
    out->gridDim = {found.gridDimX, found.gridDimY, found.gridDimZ};
    out->blockDim = {found.blockDimX, found.blockDimY, found.blockDimZ};
    out->sharedMemBytes = found.sharedMemBytes;
    out->kernelParams = found.kernelParams;
    out->extra = found.extra;
    return CUDA_SUCCESS;
  });
}

CUDART_API cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, cudaMemcpy3DParms* out) {
  return WithContext([&](const Driver& driver) {
    CUDA_MEMCPY3D box{};
    if (!out) return cudaErrorInvalidValue;
    if (const CUresult error = driver.cuGraphMemcpyNodeGetParams(node, &box)) {
      return ToRuntime(error);
    }
    return FromBox(driver, box, *out);
  });
}

// CUDART_COPY_NODES(what is copied, its parameters, its arguments): the calls that make a node of
// such a copy, and that change it in a graph and in what runs.
#define CUDART_COPY_NODES(suffix, describe, parameters, arguments)                                \
  CUDART_API cudaGraphAddMemcpyNode##suffix(cudaGraphNode_t* out, cudaGraph_t graph,              \
                                            const cudaGraphNode_t* dependencies, size_t count,    \
                                            CUDART_LIST parameters) {                             \
    return describe(CUDART_LIST arguments, [&](const CUDA_MEMCPY3D& box) {                        \
      return AddCopy({out, graph, dependencies, count}, box);                                     \
    });                                                                                           \
  }                                                                                               \
  CUDART_API cudaGraphMemcpyNodeSetParams##suffix(cudaGraphNode_t node, CUDART_LIST parameters) { \
    return describe(CUDART_LIST arguments,                                                        \
                    [&](const CUDA_MEMCPY3D& box) { return SetCopy(node, box); });                \
  }                                                                                               \
  CUDART_API cudaGraphExecMemcpyNodeSetParams##suffix(cudaGraphExec_t exec, cudaGraphNode_t node, \
                                                      CUDART_LIST parameters) {                   \
    return describe(CUDART_LIST arguments,                                                        \
                    [&](const CUDA_MEMCPY3D& box) { return SetCopy(exec, node, box); });          \
  }
#define CUDART_LIST(...) __VA_ARGS__

CUDART_COPY_NODES(, CopyOfBox, (const cudaMemcpy3DParms* copy), (copy))
CUDART_COPY_NODES(1D, CopyOfBytes, (void* to, const void* from, size_t bytes, cudaMemcpyKind kind),
                  (to, from, bytes, kind))
CUDART_COPY_NODES(ToSymbol, CopyToVariable,
                  (const void* symbol, const void* from, size_t bytes, size_t offset,
                   cudaMemcpyKind kind),
                  (symbol, from, bytes, offset, kind))
CUDART_COPY_NODES(FromSymbol, CopyFromVariable,
                  (void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind),
                  (to, symbol, bytes, offset, kind))

CUDART_API cudaGraphAddMemsetNode(cudaGraphNode_t* out, cudaGraph_t graph,
                                  const cudaGraphNode_t* dependencies, size_t count,
                                  const cudaMemsetParams* set) {
  return InContext([&](const Driver& driver, CUcontext context) {
    return driver.cuGraphAddMemsetNode(out, graph, dependencies, count, Set(set), context);
  });
}

CUDART_API cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                            const cudaMemsetParams* set) {
  return InContext([&](const Driver& driver, CUcontext context) {
    return driver.cuGraphExecMemsetNodeSetParams(exec, node, Set(set), context);
  });
}

CUDART_API cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle* out, cudaGraph_t graph,
                                            unsigned value, unsigned flags) {
  return InContext([&](const Driver& driver, CUcontext context) {
    return Ask(driver.cuGraphConditionalHandleCreate, out, graph, context, value, flags);
  });
}

CUDART_FORWARD(2, cudaGraphMemsetNodeGetParams, cuGraphMemsetNodeGetParams)
CUDART_FORWARD(2, cudaGraphMemsetNodeSetParams, cuGraphMemsetNodeSetParams)
CUDART_FORWARD(3, cudaGraphKernelNodeGetAttribute, cuGraphKernelNodeGetAttribute)
CUDART_FORWARD(3, cudaGraphKernelNodeSetAttribute, cuGraphKernelNodeSetAttribute)
CUDART_FORWARD(2, cudaGraphKernelNodeCopyAttributes, cuGraphKernelNodeCopyAttributes)
CUDART_FORWARD(5, cudaGraphAddHostNode, cuGraphAddHostNode)
CUDART_FORWARD(2, cudaGraphHostNodeGetParams, cuGraphHostNodeGetParams)
CUDART_FORWARD(2, cudaGraphHostNodeSetParams, cuGraphHostNodeSetParams)
CUDART_FORWARD(3, cudaGraphExecHostNodeSetParams, cuGraphExecHostNodeSetParams)
CUDART_FORWARD(5, cudaGraphAddChildGraphNode, cuGraphAddChildGraphNode)
CUDART_FORWARD(2, cudaGraphChildGraphNodeGetGraph, cuGraphChildGraphNodeGetGraph)
CUDART_FORWARD(3, cudaGraphExecChildGraphNodeSetParams, cuGraphExecChildGraphNodeSetParams)
CUDART_FORWARD(4, cudaGraphAddEmptyNode, cuGraphAddEmptyNode)
CUDART_FORWARD(5, cudaGraphAddEventRecordNode, cuGraphAddEventRecordNode)
CUDART_FORWARD(2, cudaGraphEventRecordNodeGetEvent, cuGraphEventRecordNodeGetEvent)
CUDART_FORWARD(2, cudaGraphEventRecordNodeSetEvent, cuGraphEventRecordNodeSetEvent)
CUDART_FORWARD(3, cudaGraphExecEventRecordNodeSetEvent, cuGraphExecEventRecordNodeSetEvent)
CUDART_FORWARD(5, cudaGraphAddEventWaitNode, cuGraphAddEventWaitNode)
CUDART_FORWARD(2, cudaGraphEventWaitNodeGetEvent, cuGraphEventWaitNodeGetEvent)
CUDART_FORWARD(2, cudaGraphEventWaitNodeSetEvent, cuGraphEventWaitNodeSetEvent)
CUDART_FORWARD(3, cudaGraphExecEventWaitNodeSetEvent, cuGraphExecEventWaitNodeSetEvent)
CUDART_FORWARD(5, cudaGraphAddMemAllocNode, cuGraphAddMemAllocNode)
CUDART_FORWARD(2, cudaGraphMemAllocNodeGetParams, cuGraphMemAllocNodeGetParams)
CUDART_FORWARD(5, cudaGraphAddMemFreeNode, cuGraphAddMemFreeNode)
CUDART_FORWARD(2, cudaGraphMemFreeNodeGetParams, cuGraphMemFreeNodeGetParams)
CUDART_FORWARD(2, cudaGraphNodeGetType, cuGraphNodeGetType)
CUDART_FORWARD(3, cudaGraphNodeSetEnabled, cuGraphNodeSetEnabled)
CUDART_FORWARD(3, cudaGraphNodeGetEnabled, cuGraphNodeGetEnabled)
