// What the tests of graphs have in common: graphs and nodes that must come to be, and what they
// wrote.
#pragma once

#include <cuda.h>

#include <vector>

#include "catch.h"
#include "standin.h"
#include "test_device.h"

namespace standin_test {

inline void Must(CUresult result) {
  REQUIRE(result == CUDA_SUCCESS);
}

inline CUstream NewStream() {
  CUstream stream = nullptr;
  Must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

inline CUgraph NewGraph() {
  CUgraph graph = nullptr;
  Must(cuGraphCreate(&graph, 0));
  return graph;
}

inline CUcontext Current() {
  CUcontext context = nullptr;
  Must(cuCtxGetCurrent(&context));
  return context;
}

using Nodes = std::vector<CUgraphNode>;

inline CUfunction FunctionOf(const char* name) {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  Must(cuModuleLoadData(&module, "image"));
  Must(cuModuleGetFunction(&function, module, name));
  return function;
}

inline CUDA_KERNEL_NODE_PARAMS KernelOf(CUfunction function, void** arguments) {
  CUDA_KERNEL_NODE_PARAMS kernel{};
  kernel.func = function;
  kernel.gridDimX = kernel.gridDimY = kernel.gridDimZ = 1;
  kernel.blockDimX = 32;
  kernel.blockDimY = kernel.blockDimZ = 1;
  kernel.kernelParams = arguments;
  return kernel;
}

// One word at `address`.
inline CUDA_MEMSET_NODE_PARAMS SetOf(CUdeviceptr address, unsigned value) {
  return {.dst = address, .pitch = 0, .value = value, .elementSize = 4, .width = 1, .height = 1};
}

inline CUgraphNode AddSet(CUgraph graph, CUdeviceptr address, unsigned value,
                          const Nodes& after = {}) {
  CUgraphNode node = nullptr;
  const CUDA_MEMSET_NODE_PARAMS set = SetOf(address, value);
  Must(cuGraphAddMemsetNode(&node, graph, after.data(), after.size(), &set, Current()));
  return node;
}

inline CUgraphNode AddEmpty(CUgraph graph, const Nodes& after = {}) {
  CUgraphNode node = nullptr;
  Must(cuGraphAddEmptyNode(&node, graph, after.data(), after.size()));
  return node;
}

// One word from device to device.
inline CUDA_MEMCPY3D CopyOf(CUdeviceptr to, CUdeviceptr from) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = from;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = to;
  copy.WidthInBytes = 4;
  copy.Height = 1;
  copy.Depth = 1;
  return copy;
}

inline CUgraphNode AddCopy(CUgraph graph, CUdeviceptr to, CUdeviceptr from,
                           const Nodes& after = {}) {
  CUgraphNode node = nullptr;
  const CUDA_MEMCPY3D copy = CopyOf(to, from);
  Must(cuGraphAddMemcpyNode(&node, graph, after.data(), after.size(), &copy, Current()));
  return node;
}

inline CUgraphNode AddHost(CUgraph graph, CUhostFn function, void* data, const Nodes& after = {}) {
  CUgraphNode node = nullptr;
  const CUDA_HOST_NODE_PARAMS host{function, data};
  Must(cuGraphAddHostNode(&node, graph, after.data(), after.size(), &host));
  return node;
}

inline CUDA_MEM_ALLOC_NODE_PARAMS AllocationOf(std::size_t bytes) {
  CUDA_MEM_ALLOC_NODE_PARAMS parameters{};
  parameters.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  parameters.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  parameters.bytesize = bytes;
  return parameters;
}

inline CUdeviceptr AddAllocation(CUgraph graph, std::size_t bytes, CUgraphNode* out = nullptr,
                                 const Nodes& after = {}) {
  CUgraphNode node = nullptr;
  CUDA_MEM_ALLOC_NODE_PARAMS parameters = AllocationOf(bytes);
  Must(cuGraphAddMemAllocNode(&node, graph, after.data(), after.size(), &parameters));
  if (out) *out = node;
  return parameters.dptr;
}

inline CUresult TryAddFree(CUgraph graph, CUdeviceptr address, const Nodes& after = {}) {
  CUgraphNode node = nullptr;
  return cuGraphAddMemFreeNode(&node, graph, after.data(), after.size(), address);
}

inline CUresult TryInstantiate(CUgraph graph, CUgraphExec* out = nullptr,
                               unsigned long long flags = 0) {
  CUgraphExec ignored = nullptr;
  return cuGraphInstantiateWithFlags(out ? out : &ignored, graph, flags);
}

inline CUgraphExec Instantiate(CUgraph graph, unsigned long long flags = 0) {
  CUgraphExec exec = nullptr;
  Must(TryInstantiate(graph, &exec, flags));
  return exec;
}

inline void LaunchAndWait(CUgraphExec exec, CUstream stream) {
  Must(cuGraphLaunch(exec, stream));
  Must(cuStreamSynchronize(stream));
}

inline unsigned ReadWord(CUdeviceptr address) {
  unsigned value = 0;
  const CUstream stream = NewStream();  // behind no other stream
  Must(cuMemcpyDtoHAsync_v2(&value, address, 4, stream));
  Must(cuStreamSynchronize(stream));
  Must(cuStreamDestroy_v2(stream));
  return value;
}

inline CUgraphNodeType TypeOf(CUgraphNode node) {
  CUgraphNodeType type{};
  Must(cuGraphNodeGetType(node, &type));
  return type;
}

inline Nodes NodesOf(CUgraph graph) {
  std::size_t count = 0;
  Must(cuGraphGetNodes(graph, nullptr, &count));
  Nodes nodes(count);
  Must(cuGraphGetNodes(graph, nodes.data(), &count));
  return nodes;
}

inline Nodes DependenciesOf(CUgraphNode node) {
  std::size_t count = 0;
  Must(cuGraphNodeGetDependencies(node, nullptr, &count));
  Nodes nodes(count);
  if (count > 0) Must(cuGraphNodeGetDependencies(node, nodes.data(), &count));
  return nodes;
}

inline std::vector<CUgraphNodeType> TypesOf(CUgraph graph) {
  std::vector<CUgraphNodeType> types;
  for (const CUgraphNode node : NodesOf(graph)) types.push_back(TypeOf(node));
  return types;
}

}  // namespace standin_test
