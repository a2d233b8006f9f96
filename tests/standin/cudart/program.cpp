// A runtime API program such as nvcc makes them, its kernel registered by hand: what it prints and
// returns is checked by ctest. Needs no nvcc.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "registered_by_nvcc.h"

namespace {

void FillOnHost() {}  // only its address is used
int variable_on_host[4];

void Register() {
  static char image[] = "image";
  static char name[] = "fill";
  void** const handle = __cudaRegisterFatBinary(image);
  __cudaRegisterFunction(handle, reinterpret_cast<const char*>(&FillOnHost), name, name, -1,
                         nullptr, nullptr, nullptr, nullptr, nullptr);
  static char variable[] = "variable";
  __cudaRegisterVar(handle, reinterpret_cast<char*>(variable_on_host), variable, variable, 0,
                    sizeof(variable_on_host), 0, 0);
  __cudaRegisterFatBinaryEnd(handle);
}

#define EXPECT(condition)                                       \
  if (!(condition)) {                                           \
    std::printf("line %d: not so: %s\n", __LINE__, #condition); \
    return 1;                                                   \
  }

int Memory() {
  void* nothing = &nothing;
  EXPECT(cudaMalloc(&nothing, 0) == cudaSuccess);
  EXPECT(nothing == nullptr);
  EXPECT(cudaFree(nullptr) == cudaSuccess);
  EXPECT(cudaMalloc(&nothing, std::size_t{1} << 50) == cudaErrorMemoryAllocation);
  EXPECT(cudaPeekAtLastError() == cudaErrorMemoryAllocation);
  EXPECT(cudaGetLastError() == cudaErrorMemoryAllocation);
  EXPECT(cudaGetLastError() == cudaSuccess);
  void* memory = nullptr;
  EXPECT(cudaMalloc(&memory, 4096) == cudaSuccess);
  cudaPointerAttributes attributes{};
  EXPECT(cudaPointerGetAttributes(&attributes, memory) == cudaSuccess);
  EXPECT(attributes.type == cudaMemoryTypeDevice);
  EXPECT(cudaFree(memory) == cudaSuccess);
  EXPECT(cudaFree(memory) == cudaErrorInvalidValue);
  return 0;
}

int Kernel() {
  constexpr std::size_t kCount = 1000;
  cudaStream_t stream = nullptr;
  void* memory = nullptr;
  EXPECT(cudaStreamCreate(&stream) == cudaSuccess);
  EXPECT(cudaMalloc(&memory, kCount * sizeof(unsigned)) == cudaSuccess);
  unsigned value = 42;
  std::size_t count = kCount;
  void* arguments[] = {&memory, &value, &count};
  const void* const function = reinterpret_cast<const void*>(&FillOnHost);
  EXPECT(cudaLaunchKernel(function, dim3{4, 1, 1}, dim3{256, 1, 1}, arguments, 0, stream) ==
         cudaSuccess);
  std::vector<unsigned> read(kCount);
  EXPECT(cudaMemcpyAsync(read.data(), memory, kCount * sizeof(unsigned), cudaMemcpyDeviceToHost,
                         stream) == cudaSuccess);
  EXPECT(cudaStreamSynchronize(stream) == cudaSuccess);
  for (const unsigned found : read) {
    EXPECT(found == 42);
  }
  EXPECT(cudaLaunchKernel(&value, dim3{1, 1, 1}, dim3{1, 1, 1}, nullptr, 0, stream) ==
         cudaErrorInvalidDeviceFunction);
  return 0;
}

int Variables() {
  const int values[4] = {1, 2, 3, 4};
  int read[4] = {};
  void* address = nullptr;
  void* again = nullptr;
  std::size_t bytes = 0;
  EXPECT(cudaGetSymbolAddress(&address, variable_on_host) == cudaSuccess);
  EXPECT(cudaGetSymbolSize(&bytes, variable_on_host) == cudaSuccess);
  EXPECT(bytes == sizeof(values));
  EXPECT(cudaMemcpyToSymbol(variable_on_host, values, sizeof(values), 0, cudaMemcpyHostToDevice) ==
         cudaSuccess);
  EXPECT(cudaMemcpyToSymbol(variable_on_host, values, 4, 8, cudaMemcpyHostToDevice) == cudaSuccess);
  EXPECT(cudaMemcpy(read, address, sizeof(read), cudaMemcpyDeviceToHost) == cudaSuccess);
  EXPECT(read[0] == 1 && read[1] == 2 && read[2] == 1 && read[3] == 4);
  EXPECT(cudaGetSymbolAddress(&again, variable_on_host) == cudaSuccess);
  EXPECT(again == address);
  EXPECT(cudaMemcpyToSymbol(variable_on_host, values, sizeof(values), 4, cudaMemcpyHostToDevice) ==
         cudaErrorInvalidValue);
  EXPECT(cudaGetSymbolAddress(&address, &bytes) == cudaErrorInvalidSymbol);
  return 0;
}

int Capture() {
  cudaStream_t stream = nullptr;
  void* memory = nullptr;
  EXPECT(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  EXPECT(cudaMalloc(&memory, 4096) == cudaSuccess);
  EXPECT(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
  EXPECT(cudaMemsetAsync(memory, 1, 4096, stream) == cudaSuccess);
  cudaStreamCaptureStatus status{};
  cudaGraph_t graph = nullptr;
  const cudaGraphNode_t* dependencies = nullptr;
  std::size_t count = 0;
  unsigned long long id = 0;
#if CUDART_VERSION >= 13000
  EXPECT(cudaStreamGetCaptureInfo(stream, &status, &id, &graph, &dependencies, nullptr, &count) ==
         cudaSuccess);
#else
  EXPECT(cudaStreamGetCaptureInfo_v2(stream, &status, &id, &graph, &dependencies, &count) ==
         cudaSuccess);
#endif
  EXPECT(status == cudaStreamCaptureStatusActive && graph && count == 1);
  // A body that never runs: the condition is 0.
  cudaGraphConditionalHandle condition = 0;
  EXPECT(cudaGraphConditionalHandleCreate(&condition, graph, 0, cudaGraphCondAssignDefault) ==
         cudaSuccess);
  cudaGraphNodeParams parameters{};
  parameters.type = cudaGraphNodeTypeConditional;
  parameters.conditional.handle = condition;
  parameters.conditional.type = cudaGraphCondTypeIf;
  parameters.conditional.size = 1;
  cudaGraphNode_t node = nullptr;
#if CUDART_VERSION >= 13000
  EXPECT(cudaGraphAddNode(&node, graph, dependencies, nullptr, count, &parameters) == cudaSuccess);
  EXPECT(cudaStreamUpdateCaptureDependencies(stream, &node, nullptr, 1,
                                             cudaStreamSetCaptureDependencies) == cudaSuccess);
#else
  EXPECT(cudaGraphAddNode(&node, graph, dependencies, count, &parameters) == cudaSuccess);
  EXPECT(cudaStreamUpdateCaptureDependencies(stream, &node, 1, cudaStreamSetCaptureDependencies) ==
         cudaSuccess);
#endif
  EXPECT(parameters.conditional.phGraph_out && parameters.conditional.phGraph_out[0]);
  cudaGraphExec_t exec = nullptr;
  EXPECT(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  EXPECT(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
  EXPECT(cudaGraphLaunch(exec, stream) == cudaSuccess);
  EXPECT(cudaStreamSynchronize(stream) == cudaSuccess);
  unsigned char read = 0;
  EXPECT(cudaMemcpy(&read, memory, 1, cudaMemcpyDeviceToHost) == cudaSuccess);
  EXPECT(read == 1);
  parameters = {};  // of a kernel that nobody registered
  parameters.type = cudaGraphNodeTypeKernel;
  parameters.kernel.func = &parameters;
#if CUDART_VERSION >= 13000
  EXPECT(cudaGraphAddNode(&node, graph, nullptr, nullptr, 0, &parameters) ==
         cudaErrorInvalidDeviceFunction);
#else
  EXPECT(cudaGraphAddNode(&node, graph, nullptr, 0, &parameters) == cudaErrorInvalidDeviceFunction);
#endif
  EXPECT(cudaGraphExecDestroy(exec) == cudaSuccess && cudaGraphDestroy(graph) == cudaSuccess);
  EXPECT(cudaGetLastError() == cudaErrorInvalidDeviceFunction);
  return 0;
}

// What the environment says, if it is told: the two parts of the capability, multiprocessors,
// threads of each.
int Properties(int count, char** expected) {
  cudaDeviceProp properties{};
  EXPECT(cudaGetDeviceProperties(&properties, 0) == cudaSuccess);
  const int found[] = {properties.major, properties.minor, properties.multiProcessorCount,
                       properties.maxThreadsPerMultiProcessor};
  for (int i = 0; i < 4 && i < count; ++i) {
    EXPECT(found[i] == std::atoi(expected[i]));
  }
  EXPECT(properties.maxThreadsDim[2] == 64 &&
         properties.sharedMemPerBlockOptin > properties.sharedMemPerBlock);
  return 0;
}

int Reset() {
  void* memory = nullptr;
  std::size_t before = 0;
  std::size_t after = 0;
  EXPECT(cudaMemGetInfo(&before, nullptr) == cudaSuccess);
  EXPECT(cudaMalloc(&memory, 4096) == cudaSuccess);
  EXPECT(cudaDeviceReset() == cudaSuccess);
  EXPECT(cudaMemGetInfo(&after, nullptr) == cudaSuccess);
  EXPECT(after >= before);
  EXPECT(cudaFree(memory) == cudaErrorInvalidValue);
  EXPECT(cudaMalloc(&memory, 4096) == cudaSuccess);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Register();
  if (Memory() || Kernel() || Variables() || Capture() || Properties(argc - 1, argv + 1) || Reset())
    return 1;
  std::puts("all as expected");
  return 0;
}
