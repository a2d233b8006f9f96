// cuGreenCtx*: contexts with a part of a device's multiprocessors, which share the memory of its
// primary context.
#include "green_contexts.h"
#include "behaviour.h"
#include "contexts.h"
#include "entry_point.h"
#include "occupancy.h"
#include "work.h"

#if CUDA_VERSION >= 12040

namespace standin {
namespace {

// Guarded by state().mutex.
Registry<CUgreenCtx, Context>& green_contexts() {
  static auto* const instance = new Registry<CUgreenCtx, Context>;
  return *instance;
}

}  // namespace

CUresult FindGreen(CUgreenCtx handle, std::shared_ptr<Context>& out) {
  const auto found = green_contexts().find(handle);
  if (found == green_contexts().end()) return CUDA_ERROR_INVALID_CONTEXT;
  out = found->second;
  return CUDA_SUCCESS;
}

namespace {

CUresult Create(CUgreenCtx* out, CUdevResourceDesc resources, CUdevice device, unsigned flags) {
  Lock lock(state().mutex);
  Context* primary = nullptr;
  if (!out || !resources || flags != CU_GREEN_CTX_DEFAULT_STREAM) return CUDA_ERROR_INVALID_VALUE;
  // cuda.h, cuGreenCtxCreate: retains the primary context.
  if (const CUresult error = RetainPrimary(device, primary)) return error;
  const std::shared_ptr<Context> context = NewContext(device, 0, nullptr);
  if (!context) {
    ReleasePrimary(lock, device);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  context->multiprocessors = MultiprocessorsOf(resources);
  context->primary_of_green = primary;
  *out = AddTo(green_contexts(), context);
  return CUDA_SUCCESS;
}

CUresult HandleOf(CUgreenCtx handle, CUcontext& out) {
  const Lock lock(state().mutex);
  std::shared_ptr<Context> context;
  if (const CUresult error = FindGreen(handle, context)) return error;
  out = context->handle;
  return CUDA_SUCCESS;
}

CUresult Destroy(CUgreenCtx handle) {
  Lock lock(state().mutex);
  std::shared_ptr<Context> context;
  if (const CUresult error = FindGreen(handle, context)) return error;
  green_contexts().erase(handle);
  if (!state().contexts.contains(context->handle)) return CUDA_SUCCESS;  // went with the primary
  DestroyContext(lock, context);
  return ReleasePrimary(lock, context->device);
}

}  // namespace
}  // namespace standin

using namespace standin;

ENTRY(cuGreenCtxCreate,
      (CUgreenCtx * out, CUdevResourceDesc resources, CUdevice device, unsigned flags),
      (out, resources, device, flags)) {
  return Create(out, resources, device, flags);
}

ENTRY(cuGreenCtxDestroy, (CUgreenCtx handle), (handle)) {
  return Destroy(handle);
}

ENTRY(cuCtxFromGreenCtx, (CUcontext * out, CUgreenCtx handle), (out, handle)) {
  const Lock lock(state().mutex);
  std::shared_ptr<Context> context;
  if (const CUresult error = FindGreen(handle, context)) return error;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = context->handle;
  return CUDA_SUCCESS;
}

ENTRY(cuGreenCtxRecordEvent, (CUgreenCtx handle, CUevent event), (handle, event)) {
  CUcontext context = nullptr;
  if (const CUresult error = HandleOf(handle, context)) return error;
  return cuCtxRecordEvent(context, event);
}
ENTRY(cuGreenCtxWaitEvent, (CUgreenCtx handle, CUevent event), (handle, event)) {
  CUcontext context = nullptr;
  if (const CUresult error = HandleOf(handle, context)) return error;
  return cuCtxWaitEvent(context, event);
}

ENTRY(cuGreenCtxGetId, (CUgreenCtx handle, unsigned long long* out), (handle, out)) {
  const Lock lock(state().mutex);
  std::shared_ptr<Context> context;
  if (const CUresult error = FindGreen(handle, context)) return error;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = context->id;
  return CUDA_SUCCESS;
}

#if CUDA_VERSION >= 12050
ENTRY(cuGreenCtxStreamCreate, (CUstream * out, CUgreenCtx handle, unsigned flags, int priority),
      (out, handle, flags, priority)) {
  const Lock lock(state().mutex);
  std::shared_ptr<Context> context;
  if (const CUresult error = FindGreen(handle, context)) return error;
  if (!out || flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  *out = AddTo(state().streams, NewStream(*context, flags, priority));
  return CUDA_SUCCESS;
}
#endif

#endif
