// What the tests of the runtime have in common: two small devices, and what code of nvcc's would
// have registered.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "catch.h"
#include "registered_by_nvcc.h"
#include "standin.h"

namespace cudart_test {

inline void Must(cudaError_t result) {
  REQUIRE(result == cudaSuccess);
}

// __global__ void fill(unsigned* data, unsigned value, size_t count), by what stands for it on the
// host; only addresses are used. And __device__ int variable[4].
inline void FillOnHost() {}
inline int variable_on_host[4];
inline const void* FillKernel() {
  return reinterpret_cast<const void*>(&FillOnHost);
}

// The first device is current, and has nothing left of it at the end of the test.
class Runtime {
 public:
  Runtime() {
    static const bool started = Start();
    REQUIRE(started);
    Must(cudaSetDevice(0));
  }
  ~Runtime() {
    for (const int device : {1, 0}) {
      if (cudaSetDevice(device) == cudaSuccess) cudaDeviceReset();
    }
    cudaGetLastError();
  }
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

 private:
  static bool Start() {
    static char image[] = "image";
    static char name[] = "fill";
    static char variable[] = "variable";
    void** const handle = __cudaRegisterFatBinary(image);
    __cudaRegisterFunction(handle, static_cast<const char*>(FillKernel()), name, name, -1, nullptr,
                           nullptr, nullptr, nullptr, nullptr);
    __cudaRegisterVar(handle, reinterpret_cast<char*>(variable_on_host), variable, variable, 0,
                      sizeof(variable_on_host), 0, 0);
    __cudaRegisterFatBinaryEnd(handle);
    return standin_configure("STANDIN_DEVICES", "2") &&
           standin_configure("STANDIN_MEMORY", "64MiB");
  }
};

using Bytes = std::vector<std::uint8_t>;

// 1, 2, 3 and so on.
inline Bytes Counted(std::size_t count) {
  Bytes bytes(count);
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{1});
  return bytes;
}

// Zeros, whatever stream comes to them first.
inline void* Allocated(std::size_t bytes) {
  void* out = nullptr;
  Must(cudaMalloc(&out, bytes));
  Must(cudaMemset(out, 0, bytes));
  Must(cudaDeviceSynchronize());
  return out;
}

template <typename Element = std::uint8_t>
std::vector<Element> Read(const void* memory, std::size_t count) {
  std::vector<Element> out(count);
  Must(cudaDeviceSynchronize());
  Must(cudaMemcpy(out.data(), memory, count * sizeof(Element), cudaMemcpyDeviceToHost));
  return out;
}

using Nodes = std::vector<cudaGraphNode_t>;

inline cudaGraph_t NewGraph() {
  cudaGraph_t graph = nullptr;
  Must(cudaGraphCreate(&graph, 0));
  return graph;
}

inline cudaGraphExec_t Instantiated(cudaGraph_t graph) {
  cudaGraphExec_t exec = nullptr;
  Must(cudaGraphInstantiate(&exec, graph, 0));
  return exec;
}

inline void Run(cudaGraphExec_t exec) {
  Must(cudaGraphLaunch(exec, nullptr));
  Must(cudaDeviceSynchronize());
}
inline void Run(cudaGraph_t graph) {
  Run(Instantiated(graph));
}

// fill(memory, value, 8)
struct FillNode {
  void* memory;
  unsigned value;
  std::size_t count = 8;
  void* arguments[3] = {&memory, &value, &count};
  cudaKernelNodeParams parameters{
      const_cast<void*>(FillKernel()), {1, 1, 1}, {32, 1, 1}, 0, arguments, nullptr};

  FillNode(void* to, unsigned with) : memory(to), value(with) {}
  FillNode(const FillNode&) = delete;
  FillNode& operator=(const FillNode&) = delete;
};

inline std::vector<unsigned> Words(unsigned value) {
  return std::vector<unsigned>(8, value);
}

// A call of the host.
inline void Count(void* counter) {
  ++*static_cast<int*>(counter);
}

}  // namespace cudart_test
