// The wrappers of functions that share memory with other processes.
#include "shim/hook/calls.h"
#include "shim/share/ipc.h"

namespace cubfc {

using Functions = DriverFunctions;

namespace wrapper {
extern "C" {

CUresult cubfc_cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr address) {
  return answer([&](Process& p) { return p.ipc().handle_of(handle, address); },
                &Functions::cuIpcGetMemHandle, handle, address);
}

CUresult cubfc_cuIpcOpenMemHandle(CUdeviceptr* address, CUipcMemHandle handle, unsigned flags) {
  return answer(
      [&](Process& p) {
        return p.ipc().open(address, handle, flags, p.driver().cuIpcOpenMemHandle);
      },
      &Functions::cuIpcOpenMemHandle, address, handle, flags);
}

CUresult cubfc_cuIpcOpenMemHandle_v2(CUdeviceptr* address, CUipcMemHandle handle, unsigned flags) {
  return answer(
      [&](Process& p) {
        return p.ipc().open(address, handle, flags, p.driver().cuIpcOpenMemHandle_v2);
      },
      &Functions::cuIpcOpenMemHandle_v2, address, handle, flags);
}

CUresult cubfc_cuIpcCloseMemHandle(CUdeviceptr address) {
  return answer([&](Process& p) { return p.ipc().close(address); }, &Functions::cuIpcCloseMemHandle,
                address);
}

}  // extern "C"
}  // namespace wrapper
}  // namespace cubfc
