// cuGetProcAddress: which form of a function a name means, by version and by default stream.
#include <algorithm>
#include <string_view>

#include "behaviour.h"
#include "entry_point.h"
#include "settings.h"

namespace standin {
namespace {

struct Version {
  std::string_view symbol;
  std::string_view base;
  int version;
  bool per_thread;
};

constexpr Version kVersions[] = {
#define STANDIN_VERSION(symbol, base, version, per_thread) {symbol, base, version, per_thread},
#include "proc_versions.inc"
#undef STANDIN_VERSION
};

struct Answer {
  void* address = nullptr;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
};

// The newest form of `base` that `version` has; of two of one version, the one for the default
// stream that was asked for. A function without a twin serves both default streams.
Answer Look(std::string_view base, int version, bool per_thread) {
  Answer answer;
  const Version* best = nullptr;
  for (const Version& row : kVersions) {
    if (row.base != base || (row.per_thread && !per_thread)) continue;
    const EntryPoint* const entry = EntryPoint::Find(row.symbol);
    if (!entry || row.version > settings().driver_version) continue;
    if (row.version > version) {
      if (!best) answer.status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
      continue;
    }
    const bool better = !best || (row.per_thread && !best->per_thread) ||
                        (row.per_thread == best->per_thread && row.version > best->version);
    if (!better) continue;
    best = &row;
    answer = {entry->address(), CU_GET_PROC_ADDRESS_SUCCESS};
  }
  return answer;
}

// cuda.h: flags choose the legacy (default) or the per-thread default stream.
CUresult Check(const char* name, void** out, cuuint64_t flags) {
  constexpr cuuint64_t kLegacy = CU_GET_PROC_ADDRESS_LEGACY_STREAM;
  constexpr cuuint64_t kPerThread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  const bool known = flags == 0 || flags == kLegacy || flags == kPerThread;
  return name && out && known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

Answer Resolve(const char* name, int version, cuuint64_t flags) {
  return Look(name, version, flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
}

}  // namespace
}  // namespace standin

using namespace standin;

EARLY_ENTRY(cuGetProcAddress, (const char* name, void** out, int version, cuuint64_t flags),
            (name, out, version, flags)) {
  if (const CUresult error = Check(name, out, flags)) return error;
  const Answer answer = Resolve(name, version, flags);
  if (!answer.address) return Behaviour("cuGetProcAddress.unknown");
  *out = answer.address;
  return CUDA_SUCCESS;
}

EARLY_ENTRY(cuGetProcAddress_v2,
            (const char* name, void** out, int version, cuuint64_t flags,
             CUdriverProcAddressQueryResult* status),
            (name, out, version, flags, status)) {
  if (const CUresult error = Check(name, out, flags)) return error;
  const Answer answer = Resolve(name, version, flags);
  *out = answer.address;
  if (status) *status = answer.status;
  return answer.address ? CUDA_SUCCESS : Behaviour("cuGetProcAddress_v2.unknown");
}
