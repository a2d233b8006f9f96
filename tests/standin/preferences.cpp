// What a program prefers and may ask for again, and which changes nothing here: caches, banks of
// shared memory, profiles.
#include "behaviour.h"
#include "entry_point.h"
#include "modules.h"
#include "state.h"

namespace standin {
namespace {

struct Preferences {
  CUfunc_cache cache = CU_FUNC_CACHE_PREFER_NONE;
};

// Of the current context. Wants state().mutex held.
CUresult Find(Preferences*& out) {
  static auto* const of_contexts = new std::map<Id, Preferences>;
  Context* context = nullptr;
  if (const CUresult error = CurrentContext(context)) return error;
  out = &(*of_contexts)[context->id];
  return CUDA_SUCCESS;
}

// Calls `work` with them.
template <typename Work>
CUresult WithPreferences(Work work) {
  const Lock lock(state().mutex);
  Preferences* preferences = nullptr;
  if (const CUresult error = Find(preferences)) return error;
  return work(*preferences);
}

CUresult HasContext() {
  const Lock lock(state().mutex);
  Context* context = nullptr;
  return CurrentContext(context);
}

}  // namespace
}  // namespace standin

using namespace standin;

ENTRY(cuCtxGetCacheConfig, (CUfunc_cache * out), (out)) {
  return WithPreferences([&](const Preferences& preferences) {
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = preferences.cache;
    return CUDA_SUCCESS;
  });
}

ENTRY(cuCtxSetCacheConfig, (CUfunc_cache value), (value)) {
  return WithPreferences([&](Preferences& preferences) {
    if (value > CU_FUNC_CACHE_PREFER_EQUAL) return CUDA_ERROR_INVALID_VALUE;
    preferences.cache = value;
    return CUDA_SUCCESS;
  });
}

// Banks of four bytes, whatever is set.
ENTRY(cuCtxGetSharedMemConfig, (CUsharedconfig * out), (out)) {
  return WithPreferences([&](const Preferences&) {
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
    return CUDA_SUCCESS;
  });
}

ENTRY(cuCtxSetSharedMemConfig, (CUsharedconfig value), (value)) {
  return WithPreferences([&](const Preferences&) {
    return value > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE ? CUDA_ERROR_INVALID_VALUE
                                                             : CUDA_SUCCESS;
  });
}

ENTRY(cuFuncSetSharedMemConfig, (CUfunction handle, CUsharedconfig value), (handle, value)) {
  const Lock lock(state().mutex);
  const Function* function = nullptr;
  if (const CUresult error = FindFunction(handle, function)) return error;
  return value > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE ? CUDA_ERROR_INVALID_VALUE
                                                           : CUDA_SUCCESS;
}

ENTRY(cuProfilerStart, (), ()) {
  return HasContext();
}

ENTRY(cuProfilerStop, (), ()) {
  return HasContext();
}

// Nothing is cached here, and no other processor writes.
ENTRY(cuCtxResetPersistingL2Cache, (), ()) {
  const Lock lock(state().mutex);
  Context* context = nullptr;
  return CurrentContext(context);
}
ENTRY(cuFlushGPUDirectRDMAWrites,
      (CUflushGPUDirectRDMAWritesTarget target, CUflushGPUDirectRDMAWritesScope scope),
      (target, scope)) {
  const Lock lock(state().mutex);
  Context* context = nullptr;
  if (const CUresult error = CurrentContext(context)) return error;
  const bool known = target == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX &&
                     (scope == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER ||
                      scope == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES);
  // CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS is 0.
  return known ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
}
