// What a card answers about graphs.
#include <cuda.h>

#include <string>

#include "card_test.h"
#include "graph_test.h"
#include "made_up_cubin.h"

using namespace standin_test;

TEST_CASE("a card's answers: nodes that lack something") {
  const Device device;
  const std::string image = Sample();
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  Must(cuModuleLoadData(&module, image.data()));
  Must(cuModuleGetFunction(&function, module, "kernel"));
  const CUgraph graph = NewGraph();
  CUgraphNode node = nullptr;
  const CUDA_HOST_NODE_PARAMS nothing{nullptr, nullptr};
  const auto add = [&](CUfunction of, void** arguments) {
    const CUDA_KERNEL_NODE_PARAMS kernel = KernelOf(of, arguments);
    return cuGraphAddKernelNode_v2(&node, graph, nullptr, 0, &kernel);
  };
  CUdeviceptr address = device.Allocate(64);
  short number = 3;
  void* arguments[] = {&address, &number};
  const auto attribute = [&](int which, bool set) {
    CUkernelNodeAttrValue value{};
    const auto id = Numbered<CUkernelNodeAttrID>(which);
    return set ? cuGraphKernelNodeSetAttribute(node, id, &value)
               : cuGraphKernelNodeGetAttribute(node, id, &value);
  };
  CheckAnswers({
      {"a kernel without a function", kHandle, [&] { return add(nullptr, arguments); }},
      {"a kernel without its parameters", kValue, [&] { return add(function, nullptr); }},
      {"an event's record without an event", kValue,
       [&] { return cuGraphAddEventRecordNode(&node, graph, nullptr, 0, nullptr); }},
      {"a copy of nothing", kValue,
       [&] {
         CUDA_MEMCPY3D copy = CopyOf(address, address + 32);
         copy.Depth = 0;
         return cuGraphAddMemcpyNode(&node, graph, nullptr, 0, &copy, device.context());
       }},
      {"a host's node without a function", kFine,
       [&] { return cuGraphAddHostNode(&node, graph, nullptr, 0, &nothing); }},
      {"and to change it so", kValue, [&] { return cuGraphHostNodeSetParams(node, &nothing); }},
      {"a kernel", kFine, [&] { return add(function, arguments); }},
      {"attribute 999", kValue, [&] { return attribute(999, false); }},
      {"set attribute 999", kValue, [&] { return attribute(999, true); }},
      {"set the one to ignore", kValue, [&] { return attribute(0, true); }},
      {"set the priority", kFine, [&] { return attribute(CU_LAUNCH_ATTRIBUTE_PRIORITY, true); }},
  });
  CUDA_KERNEL_NODE_PARAMS told{};
  Must(cuGraphKernelNodeGetParams_v2(node, &told));
  REQUIRE(told.kernelParams != nullptr);
  CHECK(told.kernelParams != arguments);
  CHECK(*static_cast<CUdeviceptr*>(told.kernelParams[0]) == address);
  CHECK(*static_cast<short*>(told.kernelParams[1]) == 3);
}

TEST_CASE("a card's answers: a node of a library's kernel tells its function, too") {
  const Device device;
  const std::string image = Sample();
  CUlibrary library = nullptr;
  CUDA_KERNEL_NODE_PARAMS kernel{};
  CUfunction function = nullptr;
  CUgraphNode node = nullptr;
  CUdeviceptr address = device.Allocate(64);
  short number = 3;
  void* arguments[] = {&address, &number};
  Must(cuLibraryLoadData(&library, image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  kernel = KernelOf(nullptr, arguments);
  Must(cuLibraryGetKernel(&kernel.kern, library, "kernel"));
  Must(cuKernelGetFunction(&function, kernel.kern));
  const CUgraph graph = NewGraph();
  Must(cuGraphAddKernelNode_v2(&node, graph, nullptr, 0, &kernel));
  CUDA_KERNEL_NODE_PARAMS told{};
  Must(cuGraphKernelNodeGetParams_v2(node, &told));
  CHECK(told.kern == kernel.kern);
  CHECK(told.func == function);
}

TEST_CASE("a card's answers: what a graph frees is not used, though it is kept") {
  const Device device;
  const auto asked = [](CUgraphMem_attribute attribute) {
    cuuint64_t bytes = 99;
    Must(cuDeviceGetGraphMemAttribute(0, attribute, &bytes));
    return bytes;
  };
  const CUgraph graph = NewGraph();
  CUgraphNode allocation = nullptr;
  CUgraphNode free = nullptr;
  CUDA_MEM_ALLOC_NODE_PARAMS parameters{};
  parameters.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  parameters.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  parameters.bytesize = 4096;
  Must(cuGraphAddMemAllocNode(&allocation, graph, nullptr, 0, &parameters));
  Must(cuGraphAddMemFreeNode(&free, graph, &allocation, 1, parameters.dptr));
  CUgraphExec exec = nullptr;
  Must(cuGraphInstantiateWithFlags(&exec, graph, 0));
  Must(cuGraphLaunch(exec, nullptr));
  Must(cuCtxSynchronize());
  CHECK(asked(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT) == 0);
  CHECK(asked(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH) == 4096);
  CHECK(asked(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT) >= 4096);
  Must(cuGraphExecDestroy(exec));
  Must(cuGraphDestroy(graph));
  Must(cuDeviceGraphMemTrim(0));
}

#if CUDA_VERSION >= 12030
TEST_CASE("a card's answers: a graph is not destroyed while a capture adds to it") {
  const Device device;
  const CUstream stream = NewStream();
  const CUgraph graph = NewGraph();
  CUgraph ended = nullptr;
  Must(cuStreamBeginCaptureToGraph(stream, graph, nullptr, nullptr, 0,
                                   CU_STREAM_CAPTURE_MODE_RELAXED));
  CHECK(cuGraphDestroy(graph) == CUDA_ERROR_ILLEGAL_STATE);
  CHECK(cuStreamEndCapture(stream, &ended) == CUDA_SUCCESS);
  CHECK(cuGraphDestroy(graph) == CUDA_SUCCESS);
}
#endif
