// What the program says of a node, checked and copied: one function for each type of node.
#include "behaviour.h"
#include "copies.h"
#include "graph.h"
#include "launch.h"
#include "modules.h"

namespace standin {
namespace {

CUresult CheckContext(CUcontext handle) {
  Context* context = nullptr;
  return handle ? FindContext(handle, context) : Behaviour("any.no_context");
}

// One side of a copy: its first byte, and how many bytes there are from that to its last one.
bool IsUsable(CUmemorytype type, CUdeviceptr first, std::size_t extent) {
  return type != CU_MEMORYTYPE_DEVICE || IsDeviceRange(first, extent);
}

std::size_t Extent(const CUDA_MEMCPY3D& copy, std::size_t pitch, std::size_t height) {
  return ((copy.Depth - 1) * height + copy.Height - 1) * pitch + copy.WidthInBytes;
}

bool IsArray(CUmemorytype type) {
  return type == CU_MEMORYTYPE_ARRAY;
}

bool IsKnown(CUmemorytype type) {
  return type >= CU_MEMORYTYPE_HOST && type <= CU_MEMORYTYPE_UNIFIED;
}

}  // namespace

// In the order of NodeParameters.
CUgraphNodeType TypeOf(const NodeParameters& parameters) {
  constexpr CUgraphNodeType kTypes[] = {
      CU_GRAPH_NODE_TYPE_EMPTY,         CU_GRAPH_NODE_TYPE_KERNEL,     CU_GRAPH_NODE_TYPE_MEMCPY,
      CU_GRAPH_NODE_TYPE_MEMSET,        CU_GRAPH_NODE_TYPE_HOST,       CU_GRAPH_NODE_TYPE_GRAPH,
      CU_GRAPH_NODE_TYPE_EVENT_RECORD,  CU_GRAPH_NODE_TYPE_WAIT_EVENT, CU_GRAPH_NODE_TYPE_MEM_ALLOC,
      CU_GRAPH_NODE_TYPE_MEM_FREE,
      static_cast<CUgraphNodeType>(13),  // CU_GRAPH_NODE_TYPE_CONDITIONAL, which is of 12.3
  };
  static_assert(std::size(kTypes) == std::variant_size_v<NodeParameters>);
  return kTypes[parameters.index()];
}

CUDA_KERNEL_NODE_PARAMS Widened(const CUDA_KERNEL_NODE_PARAMS_v1& from) {
  return {from.func,         from.gridDimX,  from.gridDimY,  from.gridDimZ,
          from.blockDimX,    from.blockDimY, from.blockDimZ, from.sharedMemBytes,
          from.kernelParams, from.extra,     nullptr,        nullptr};
}

CUresult MakeKernelNode(const CUDA_KERNEL_NODE_PARAMS& from, NodeParameters& out) {
  if (from.kernelParams && from.extra) return CUDA_ERROR_INVALID_VALUE;
  // cuda.h: the kernel is used where the function is null, and then with its context or the current
  // one.
  const void* const function =
      from.func ? static_cast<const void*>(from.func) : static_cast<const void*>(from.kern);
  if (!function) return CUDA_ERROR_INVALID_HANDLE;
  Context* context = nullptr;
  if (const CUresult error = ContextOrCurrent(from.func ? nullptr : from.ctx, context)) {
    return error;
  }
  const Function* found = nullptr;
  if (FindFunction(function, found) == CUDA_SUCCESS && !found->needs.parameters.empty() &&
      !from.kernelParams && !from.extra) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  KernelNode node;
  const Launch launch{{from.gridDimX, from.gridDimY, from.gridDimZ},
                      {from.blockDimX, from.blockDimY, from.blockDimZ},
                      {}};
  if (const CUresult error = PrepareLaunch(function, launch, from.sharedMemBytes,
                                           {from.kernelParams, from.extra}, node)) {
    return error == CUDA_ERROR_INVALID_HANDLE ? CUDA_ERROR_INVALID_VALUE : error;
  }
  if (!from.func) {
    node.library_kernel = from.kern;
    node.function = nullptr;
  }
  node.context = context->handle;
  out = std::move(node);
  return CUDA_SUCCESS;
}

CUresult MakeCopyNode(const CUDA_MEMCPY3D& from, CUcontext context, NodeParameters& out) {
  if (!IsKnown(from.srcMemoryType) || !IsKnown(from.dstMemoryType)) return CUDA_ERROR_INVALID_VALUE;
  if (from.WidthInBytes == 0 || from.Height == 0 || from.Depth == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (IsArray(from.srcMemoryType) || IsArray(from.dstMemoryType)) return CUDA_ERROR_NOT_SUPPORTED;
  if (const CUresult error = CheckContext(context)) return error;
  CUDA_MEMCPY3D copy = from;
  const auto complete = [&](std::size_t& pitch, std::size_t& height) {
    if (pitch == 0 && copy.Height <= 1) pitch = copy.WidthInBytes;
    if (height == 0 && copy.Depth <= 1) height = copy.Height;
    return pitch >= copy.WidthInBytes && height >= copy.Height;
  };
  if (from.srcLOD != 0 || from.dstLOD != 0 || from.reserved0 || from.reserved1 ||
      !complete(copy.srcPitch, copy.srcHeight) || !complete(copy.dstPitch, copy.dstHeight)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const CUdeviceptr source =
      copy.srcDevice + (copy.srcZ * copy.srcHeight + copy.srcY) * copy.srcPitch + copy.srcXInBytes;
  const CUdeviceptr target =
      copy.dstDevice + (copy.dstZ * copy.dstHeight + copy.dstY) * copy.dstPitch + copy.dstXInBytes;
  if (!IsUsable(copy.srcMemoryType, source, Extent(copy, copy.srcPitch, copy.srcHeight)) ||
      !IsUsable(copy.dstMemoryType, target, Extent(copy, copy.dstPitch, copy.dstHeight))) {
    return Behaviour("cuMemcpy.not_device_memory");
  }
  out = CopyNode{copy, context};
  return CUDA_SUCCESS;
}

CUresult MakeSetNode(const CUDA_MEMSET_NODE_PARAMS& from, CUcontext context, NodeParameters& out) {
  const unsigned size = from.elementSize;
  const bool known_size = size == 1 || size == 2 || size == 4;
  if (!known_size || from.width == 0 || from.height == 0) return CUDA_ERROR_INVALID_VALUE;
  if (from.height > 1 && from.pitch < from.width * size) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult error = CheckContext(context)) return error;
  const std::size_t extent = (from.height - 1) * from.pitch + from.width * size;
  if (from.dst % size != 0 || !IsDeviceRange(from.dst, extent)) {
    return Behaviour("cuMemset.not_device_memory");
  }
  out = SetNode{from, context};
  return CUDA_SUCCESS;
}

CUresult MakeHostNode(const CUDA_HOST_NODE_PARAMS& from, NodeParameters& out) {
  if (!from.fn) return CUDA_ERROR_INVALID_VALUE;
  out = HostNode{from.fn, from.userData};
  return CUDA_SUCCESS;
}

CUresult MakeEventNode(CUgraphNodeType type, CUevent event, NodeParameters& out) {
  std::shared_ptr<Event> found;
  if (!event) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult error = FindEvent(event, found)) return error;
  if (type == CU_GRAPH_NODE_TYPE_WAIT_EVENT) {
    out = WaitNode{event};
  } else {
    out = RecordNode{event};
  }
  return CUDA_SUCCESS;
}

#if CUDA_VERSION >= 12020
namespace {

// cuGraphAddNode is also called without a context for copies and sets (cuda-python's tests, which
// pass on GPUs): they are then of the current one.
CUcontext OrCurrent(CUcontext named) {
  const auto& stack = thread_state().contexts;
  return named || stack.empty() ? named : stack.back();
}

}  // namespace

CUresult MakeNode(const CUgraphNodeParams& from, NodeParameters& out) {
  switch (from.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      const auto& kernel = from.kernel;
      return MakeKernelNode(
          {kernel.func, kernel.gridDimX, kernel.gridDimY, kernel.gridDimZ, kernel.blockDimX,
           kernel.blockDimY, kernel.blockDimZ, kernel.sharedMemBytes, kernel.kernelParams,
           kernel.extra, kernel.kern, kernel.ctx},
          out);
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      if (from.memcpy.flags != 0 || from.memcpy.reserved != 0) return CUDA_ERROR_INVALID_VALUE;
      return MakeCopyNode(from.memcpy.copyParams, OrCurrent(from.memcpy.copyCtx), out);
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      const auto& set = from.memset;
      return MakeSetNode({set.dst, set.pitch, set.value, set.elementSize, set.width, set.height},
                         OrCurrent(set.ctx), out);
    }
    case CU_GRAPH_NODE_TYPE_HOST:
      return MakeHostNode({from.host.fn, from.host.userData}, out);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return MakeEventNode(from.type, from.eventRecord.event, out);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return MakeEventNode(from.type, from.eventWait.event, out);
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}
#endif

}  // namespace standin
