// What is reported of real drivers about memory that processes share by IPC handles. The other
// process is peer.cpp.
#include <cuda.h>

#include <cstring>
#include <string>

#include "peer_process.h"
#include "reported_test.h"

using namespace standin_test;

TEST_CASE("reported: an address within a block gives the handle of the block") {
  const Device device;
  device.Allocate(512);
  const CUdeviceptr memory = device.Allocate(4096);
  CUipcMemHandle of_base{};
  CUipcMemHandle of_interior{};
  Must(cuIpcGetMemHandle(&of_base, memory));
  CHECK(cuIpcGetMemHandle(&of_interior, memory + 512) == CUDA_SUCCESS);
  CHECK(std::memcmp(&of_base, &of_interior, sizeof(of_base)) == 0);
}

TEST_CASE("reported: freed memory and memory of a pool cannot be shared") {
  const Device device;
  CUipcMemHandle handle{};
  const CUdeviceptr memory = device.Allocate(4096);
  CHECK(cuIpcGetMemHandle(&handle, AllocateOfPool(4096)) == CUDA_ERROR_INVALID_VALUE);
  Must(cuMemFree_v2(memory));
  CHECK(cuIpcGetMemHandle(&handle, memory) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("reported: a process opens no handle of its own, and closes no memory of its own") {
  const Device device;
  const CUdeviceptr memory = device.Allocate(4096);
  CUipcMemHandle handle{};
  CUdeviceptr mapped = 0;
  Must(cuIpcGetMemHandle(&handle, memory));
  CHECK(cuIpcOpenMemHandle_v2(&mapped, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) ==
        CUDA_ERROR_INVALID_CONTEXT);
  CHECK(cuIpcCloseMemHandle(memory) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("reported: a handle that is opened twice gives one address, which is closed twice") {
  const Device device;
  const CUdeviceptr memory = device.Allocate(4096);
  Must(cuMemsetD32_v2(memory, 1234, 1024));
  Must(cuCtxSynchronize());
  CUipcMemHandle handle{};
  Must(cuIpcGetMemHandle(&handle, memory));
  // Two openings of one address; the word there before and after the first of two closings; a
  // third.
  CHECK(RunPeer("open-twice " + Hexadecimal(handle)) == "0 0 same, 1234 0 1234, 0 1\n");
}

TEST_CASE("reported: a handle is opened in one context of a device only") {
  const Device device;
  CUipcMemHandle handle{};
  Must(cuIpcGetMemHandle(&handle, device.Allocate(4096)));
  CHECK(RunPeer("open-in-two-contexts " + Hexadecimal(handle)) == "0 400\n");
}
