// Functions of the driver's that touch device memory, by name, as programs call them: for programs
// that sleep between such calls.
#pragma once

#include <cuda.h>

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace touching {

// What a call needs: a stream of its own, and the software driver's kernel `fill`.
struct Tools {
  CUstream stream = nullptr;
  CUmodule module = nullptr;
  CUfunction fill = nullptr;
  struct Graph {  // that was launched last, with what it sets
    CUdeviceptr to = 0;
    unsigned value = 0;
    std::size_t words = 0;
    CUgraphExec program = nullptr;
  } graph;
};
inline Tools make_tools() {
  Tools tools;
  if (cuStreamCreate(&tools.stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS ||
      cuModuleLoadData(&tools.module, "an image") != CUDA_SUCCESS ||
      cuModuleGetFunction(&tools.fill, tools.module, "fill") != CUDA_SUCCESS) {
    return {};
  }
  return tools;
}

inline void destroy_tools(Tools& tools) {
  if (tools.graph.program != nullptr) {
    cuGraphExecDestroy(tools.graph.program);
  }
  cuModuleUnload(tools.module);
  cuStreamDestroy(tools.stream);
  tools = {};
}

// Sets `words` 32-bit words from `to` on; with `only_one`, only the first of them.
struct Set {
  std::string_view function;
  CUresult (*call)(Tools& tools, CUdeviceptr to, unsigned value, std::size_t words);
  bool only_one = false;
};

namespace detail {

inline CUresult launch(Tools& tools, CUdeviceptr to, unsigned value, std::size_t words,
                       bool cooperative, bool ex) {
  std::uint64_t count = words;
  std::array<void*, 3> arguments{&to, &value, &count};
  const auto blocks = static_cast<unsigned>((words + 255) / 256);
  if (ex) {
    CUlaunchConfig config{};
    config.gridDimX = blocks;
    config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
    config.blockDimX = 256;
    config.hStream = tools.stream;
    return cuLaunchKernelEx(&config, tools.fill, arguments.data(), nullptr);
  }
  return cooperative ? cuLaunchCooperativeKernel(tools.fill, blocks, 1, 1, 256, 1, 1, 0,
                                                 tools.stream, arguments.data())
                     : cuLaunchKernel(tools.fill, blocks, 1, 1, 256, 1, 1, 0, tools.stream,
                                      arguments.data(), nullptr);
}

// Makes a graph at the first call with these arguments, and launches it.
inline CUresult launch_graph(Tools& tools, CUdeviceptr to, unsigned value, std::size_t words) {
  Tools::Graph& made = tools.graph;
  if (made.program == nullptr || made.to != to || made.value != value || made.words != words) {
    if (made.program != nullptr) {
      cuGraphExecDestroy(made.program);
    }
    made = {to, value, words, nullptr};
    CUcontext context = nullptr;
    CUgraph graph = nullptr;
    CUgraphNode node = nullptr;
    CUDA_MEMSET_NODE_PARAMS set{to, 0, value, 4, words, 1};
    CUresult result = cuCtxGetCurrent(&context);
    result = result == CUDA_SUCCESS ? cuGraphCreate(&graph, 0) : result;
    result = result == CUDA_SUCCESS ? cuGraphAddMemsetNode(&node, graph, nullptr, 0, &set, context)
                                    : result;
    result = result == CUDA_SUCCESS ? cuGraphInstantiate(&made.program, graph, 0) : result;
    cuGraphDestroy(graph);
    if (result != CUDA_SUCCESS) {
      return result;
    }
  }
  return cuGraphLaunch(made.program, tools.stream);
}

inline CUresult batch(Tools& tools, CUdeviceptr to, unsigned value, std::size_t /*words*/) {
  CUstreamBatchMemOpParams write{};
  write.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  write.writeValue.address = to;
  write.writeValue.value = value;
  return cuStreamBatchMemOp(tools.stream, 1, &write, 0);
}

inline CUDA_MEMCPY2D flat(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = from;
  copy.dstDevice = to;
  copy.WidthInBytes = copy.srcPitch = copy.dstPitch = bytes;
  copy.Height = 1;
  return copy;
}
inline CUDA_MEMCPY3D deep(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = from;
  copy.dstDevice = to;
  copy.WidthInBytes = copy.srcPitch = copy.dstPitch = bytes;
  copy.srcHeight = copy.dstHeight = copy.Height = copy.Depth = 1;
  return copy;
}
inline CUresult with_context(CUresult (*call)(CUcontext, CUdeviceptr, CUdeviceptr, std::size_t,
                                              CUstream),
                             CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  CUcontext context = nullptr;
  const CUresult result = cuCtxGetCurrent(&context);
  return result == CUDA_SUCCESS ? call(context, to, from, bytes, stream) : result;
}

}  // namespace detail

inline const std::vector<Set>& sets() {
  using T = Tools&;
  using P = CUdeviceptr;
  using N = std::size_t;
  static const std::vector<Set> all{
      {"cuMemsetD32", [](T, P to, unsigned v, N n) { return cuMemsetD32(to, v, n); }},
      {"cuMemsetD32Async",
       [](T t, P to, unsigned v, N n) { return cuMemsetD32Async(to, v, n, t.stream); }},
      {"cuMemsetD2D32", [](T, P to, unsigned v, N n) { return cuMemsetD2D32(to, 4 * n, v, n, 1); }},
      {"cuMemsetD2D32Async",
       [](T t, P to, unsigned v, N n) { return cuMemsetD2D32Async(to, 4 * n, v, n, 1, t.stream); }},
      {"cuMemcpyHtoD",
       [](T, P to, unsigned v, N n) {
         const std::vector<unsigned> host(n, v);
         return cuMemcpyHtoD(to, host.data(), 4 * n);
       }},
      {"cuMemcpyHtoDAsync",
       [](T t, P to, unsigned v, N n) {
         const std::vector<unsigned> host(n, v);
         const CUresult result = cuMemcpyHtoDAsync(to, host.data(), 4 * n, t.stream);
         return result == CUDA_SUCCESS ? cuStreamSynchronize(t.stream) : result;
       }},
      {"cuLaunchKernel",
       [](T t, P to, unsigned v, N n) { return detail::launch(t, to, v, n, false, false); }},
      {"cuLaunchKernelEx",
       [](T t, P to, unsigned v, N n) { return detail::launch(t, to, v, n, false, true); }},
      {"cuLaunchCooperativeKernel",
       [](T t, P to, unsigned v, N n) { return detail::launch(t, to, v, n, true, false); }},
      {"cuGraphLaunch", detail::launch_graph},
      {"cuStreamWriteValue32",
       [](T t, P to, unsigned v, N) { return cuStreamWriteValue32(t.stream, to, v, 0); }, true},
      {"cuStreamBatchMemOp", detail::batch, true},
  };
  return all;
}

// Copies within the device.
struct Copy {
  std::string_view function;
  CUresult (*call)(Tools& tools, CUdeviceptr to, CUdeviceptr from, std::size_t bytes);
};
inline const std::vector<Copy>& copies() {
  using T = Tools&;
  using P = CUdeviceptr;
  using N = std::size_t;
  static const std::vector<Copy> all{
      {"cuMemcpy", [](T, P to, P from, N n) { return cuMemcpy(to, from, n); }},
      {"cuMemcpyAsync",
       [](T t, P to, P from, N n) { return cuMemcpyAsync(to, from, n, t.stream); }},
      {"cuMemcpyDtoD", [](T, P to, P from, N n) { return cuMemcpyDtoD(to, from, n); }},
      {"cuMemcpyDtoDAsync",
       [](T t, P to, P from, N n) { return cuMemcpyDtoDAsync(to, from, n, t.stream); }},
      {"cuMemcpy2D",
       [](T, P to, P from, N n) {
         const CUDA_MEMCPY2D copy = detail::flat(to, from, n);
         return cuMemcpy2D(&copy);
       }},
      {"cuMemcpy2DUnaligned",
       [](T, P to, P from, N n) {
         const CUDA_MEMCPY2D copy = detail::flat(to, from, n);
         return cuMemcpy2DUnaligned(&copy);
       }},
      {"cuMemcpy2DAsync",
       [](T t, P to, P from, N n) {
         const CUDA_MEMCPY2D copy = detail::flat(to, from, n);
         return cuMemcpy2DAsync(&copy, t.stream);
       }},
      {"cuMemcpy3D",
       [](T, P to, P from, N n) {
         const CUDA_MEMCPY3D copy = detail::deep(to, from, n);
         return cuMemcpy3D(&copy);
       }},
      {"cuMemcpy3DAsync",
       [](T t, P to, P from, N n) {
         const CUDA_MEMCPY3D copy = detail::deep(to, from, n);
         return cuMemcpy3DAsync(&copy, t.stream);
       }},
      {"cuMemcpyPeer",
       [](T, P to, P from, N n) {
         return detail::with_context(
             [](CUcontext c, P d, P s, N b, CUstream) { return cuMemcpyPeer(d, c, s, c, b); }, to,
             from, n, nullptr);
       }},
      {"cuMemcpyPeerAsync",
       [](T t, P to, P from, N n) {
         return detail::with_context(
             [](CUcontext c, P d, P s, N b, CUstream stream) {
               return cuMemcpyPeerAsync(d, c, s, c, b, stream);
             },
             to, from, n, t.stream);
       }},
  };
  return all;
}

// Copies to the host; the bytes are there when the call returns.
struct Read {
  std::string_view function;
  CUresult (*call)(Tools& tools, void* to, CUdeviceptr from, std::size_t bytes);
};
inline const std::vector<Read>& reads() {
  using T = Tools&;
  using P = CUdeviceptr;
  using N = std::size_t;
  static const std::vector<Read> all{
      {"cuMemcpyDtoH", [](T, void* to, P from, N n) { return cuMemcpyDtoH(to, from, n); }},
      {"cuMemcpyDtoHAsync",
       [](T t, void* to, P from, N n) {
         const CUresult result = cuMemcpyDtoHAsync(to, from, n, t.stream);
         return result == CUDA_SUCCESS ? cuStreamSynchronize(t.stream) : result;
       }},
  };
  return all;
}

}  // namespace touching
