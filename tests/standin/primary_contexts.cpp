// cuDevicePrimaryCtx*: the context of a device that all runtimes of a process share.
#include <utility>
#include <vector>

#include "behaviour.h"
#include "contexts.h"
#include "entry_point.h"
#include "pools.h"

namespace standin {
namespace {

// The value of the handle is the same after a reset, as users of the real driver report.
CUcontext HandleOf(Device& device) {
  if (BehaviourFlag("cuDevicePrimaryCtxReset.handle_reused")) {
    return reinterpret_cast<CUcontext>(&device);
  }
  return reinterpret_cast<CUcontext>(new char);  // never freed, so never the same
}

void End(Lock& lock, Device& device) {
  if (!device.primary) return;
  std::vector<std::shared_ptr<Context>> green;
  for (const auto& [handle, context] : state().contexts) {
    if (context->primary_of_green == device.primary.get()) green.push_back(context);
  }
  for (const auto& context : green) DestroyContext(lock, context);
  // While its work ends without the lock, another thread may make the device's next primary
  // context.
  DestroyContext(lock, std::exchange(device.primary, nullptr));
}

CUresult Retain(CUcontext* out, CUdevice ordinal) {
  const Lock lock(state().mutex);
  Context* primary = nullptr;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult error = RetainPrimary(ordinal, primary)) return error;
  *out = primary->handle;
  return CUDA_SUCCESS;
}

CUresult GiveBack(CUdevice ordinal) {
  Lock lock(state().mutex);
  return ReleasePrimary(lock, ordinal);
}

// cuda.h: resetting the primary context does not release it.
CUresult Reset(CUdevice ordinal) {
  Lock lock(state().mutex);
  Device* device = nullptr;
  if (const CUresult error = FindDevice(ordinal, device)) return error;
  if (!device->primary) return Behaviour("cuDevicePrimaryCtxReset.inactive");
  End(lock, *device);
  if (BehaviourFlag("cuDevicePrimaryCtxReset.ends_pools")) EndPoolsOf(ordinal);
  device->primary_flags = 0;
  return CUDA_SUCCESS;
}

CUresult SetFlags(CUdevice ordinal, unsigned flags) {
  const Lock lock(state().mutex);
  Device* device = nullptr;
  if (const CUresult error = FindDevice(ordinal, device)) return error;
  if (!AreContextFlags(flags) || (flags & CU_CTX_MAP_HOST) != 0) return CUDA_ERROR_INVALID_VALUE;
  device->primary_flags = flags;
  if (device->primary) device->primary->flags = flags;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult RetainPrimary(CUdevice ordinal, Context*& out) {
  Device* device = nullptr;
  if (const CUresult error = FindDevice(ordinal, device)) return error;
  if (!device->primary) {
    device->primary = NewContext(ordinal, device->primary_flags, HandleOf(*device));
    if (!device->primary) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  ++device->primary_references;
  out = device->primary.get();
  return CUDA_SUCCESS;
}

CUresult ReleasePrimary(Lock& lock, CUdevice ordinal) {
  Device* device = nullptr;
  if (const CUresult error = FindDevice(ordinal, device)) return error;
  if (device->primary_references == 0) return Behaviour("cuDevicePrimaryCtxRelease.not_retained");
  if (--device->primary_references == 0) End(lock, *device);
  return CUDA_SUCCESS;
}

}  // namespace standin

using namespace standin;

ENTRY(cuDevicePrimaryCtxRetain, (CUcontext * out, CUdevice device), (out, device)) {
  return Retain(out, device);
}
ENTRY(cuDevicePrimaryCtxRelease, (CUdevice device), (device)) {
  return GiveBack(device);
}
ENTRY(cuDevicePrimaryCtxRelease_v2, (CUdevice device), (device)) {
  return GiveBack(device);
}
ENTRY(cuDevicePrimaryCtxReset, (CUdevice device), (device)) {
  return Reset(device);
}
ENTRY(cuDevicePrimaryCtxReset_v2, (CUdevice device), (device)) {
  return Reset(device);
}
ENTRY(cuDevicePrimaryCtxSetFlags, (CUdevice device, unsigned flags), (device, flags)) {
  return SetFlags(device, flags);
}
ENTRY(cuDevicePrimaryCtxSetFlags_v2, (CUdevice device, unsigned flags), (device, flags)) {
  return SetFlags(device, flags);
}

ENTRY(cuDevicePrimaryCtxGetState, (CUdevice ordinal, unsigned* flags, int* active),
      (ordinal, flags, active)) {
  const Lock lock(state().mutex);
  Device* device = nullptr;
  if (const CUresult error = FindDevice(ordinal, device)) return error;
  if (!flags || !active) return CUDA_ERROR_INVALID_VALUE;
  *flags = device->primary_flags;
  *active = device->primary ? 1 : 0;
  return CUDA_SUCCESS;
}
