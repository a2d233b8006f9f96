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
  CUsharedconfig banks = CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE;
};

// Of the current context. Wants state().mutex held.
CUresult Find(Preferences*& out) {
  static auto* const of_contexts = new std::map<Id, Preferences>;
  Context* context = nullptr;
  if (const CUresult error = CurrentContext(context)) return error;
  out = &(*of_contexts)[context->id];
  return CUDA_SUCCESS;
}

template <typename Value>
CUresult Get(Value Preferences::*member, Value* out) {
  const Lock lock(state().mutex);
  Preferences* preferences = nullptr;
  if (const CUresult error = Find(preferences)) return error;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = preferences->*member;
  return CUDA_SUCCESS;
}

template <typename Value>
CUresult Set(Value Preferences::*member, Value value, Value last) {
  const Lock lock(state().mutex);
  Preferences* preferences = nullptr;
  if (const CUresult error = Find(preferences)) return error;
  if (value > last) return CUDA_ERROR_INVALID_VALUE;
  preferences->*member = value;
  return CUDA_SUCCESS;
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
  return Get(&Preferences::cache, out);
}

ENTRY(cuCtxSetCacheConfig, (CUfunc_cache value), (value)) {
  return Set(&Preferences::cache, value, CU_FUNC_CACHE_PREFER_EQUAL);
}

ENTRY(cuCtxGetSharedMemConfig, (CUsharedconfig * out), (out)) {
  return Get(&Preferences::banks, out);
}

ENTRY(cuCtxSetSharedMemConfig, (CUsharedconfig value), (value)) {
  return Set(&Preferences::banks, value, CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE);
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
  (void)target, (void)scope;
  const Lock lock(state().mutex);
  Context* context = nullptr;
  return CurrentContext(context);
}
