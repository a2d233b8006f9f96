// cuDevResource*, cuDevSmResourceSplit*: a device's multiprocessors in parts, by the rules of
// compute capability 9.0.
#include <algorithm>

#include "behaviour.h"
#include "entry_point.h"
#include "green_contexts.h"
#include "occupancy.h"

#if CUDA_VERSION >= 12040

namespace standin {
namespace {

// The values of CUdevSmResourceSplit_flags, which CUDA 12.4 does not name.
constexpr unsigned kIgnoreCoscheduling = 1;
constexpr unsigned kFlags = kIgnoreCoscheduling | 2;

constexpr unsigned kPart = 8;  // cuda.h: the least that a part has, and what it is a multiple of

struct Description {
  unsigned multiprocessors;
};

Registry<CUdevResourceDesc, Description>& descriptions() {
  static auto* const instance = new Registry<CUdevResourceDesc, Description>;
  return *instance;
}

CUdevResource Multiprocessors(unsigned count) {
  CUdevResource out{};
  out.type = CU_DEV_RESOURCE_TYPE_SM;
  out.sm.smCount = count;
#if CUDA_VERSION >= 13000
  out.sm.minSmPartitionSize = kPart;
  out.sm.smCoscheduledAlignment = kPart;
#endif
  return out;
}

CUresult Answer(CUdevResource* out, CUdevResourceType type, unsigned count) {
  if (!out || type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  *out = Multiprocessors(count);
  return CUDA_SUCCESS;
}

unsigned MultiprocessorsOf(const Context& context) {
  return context.multiprocessors == 0 ? kMultiprocessors : context.multiprocessors;
}

// cuda.h: *groups is how many parts are wanted, and then how many there are; without `result`, how
// many there would be.
CUresult Split(CUdevResource* result, unsigned* groups, const CUdevResource* input,
               CUdevResource* remaining, unsigned flags, unsigned least) {
  if (!groups || !input || input->type != CU_DEV_RESOURCE_TYPE_SM || (flags & ~kFlags) != 0 ||
      input->sm.smCount == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const bool fine = (flags & kIgnoreCoscheduling) != 0;
  const unsigned step = fine ? 2 : kPart;
  const unsigned each = (std::max(least, 1U) + step - 1) / step * step;
  const unsigned fit = input->sm.smCount / each;
  if (fit == 0) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  *groups = result ? std::min(*groups, fit) : fit;
  for (unsigned i = 0; result && i < *groups; ++i) result[i] = Multiprocessors(each);
  if (result && remaining) {
    const unsigned left = input->sm.smCount - *groups * each;
    *remaining = Multiprocessors(left);
    if (left == 0) remaining->type = CU_DEV_RESOURCE_TYPE_INVALID;
  }
  return CUDA_SUCCESS;
}

CUresult Describe(CUdevResourceDesc* out, const CUdevResource* resources, unsigned count) {
  if (!out || !resources || count == 0) return CUDA_ERROR_INVALID_VALUE;
  unsigned sum = 0;
  for (unsigned i = 0; i < count; ++i) {
    if (resources[i].type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    sum += resources[i].sm.smCount;
  }
  const Lock lock(state().mutex);
  *out = AddTo(descriptions(), std::make_shared<Description>(Description{sum}));
  return CUDA_SUCCESS;
}

}  // namespace

unsigned MultiprocessorsOf(CUdevResourceDesc resources) {
  const auto found = descriptions().find(resources);
  return found == descriptions().end() ? kMultiprocessors : found->second->multiprocessors;
}

}  // namespace standin

using namespace standin;

ENTRY(cuDeviceGetDevResource, (CUdevice device, CUdevResource* out, CUdevResourceType type),
      (device, out, type)) {
  const Lock lock(state().mutex);
  Device* found = nullptr;
  if (const CUresult error = FindDevice(device, found)) return error;
  return Answer(out, type, kMultiprocessors);
}

ENTRY(cuCtxGetDevResource, (CUcontext handle, CUdevResource* out, CUdevResourceType type),
      (handle, out, type)) {
  const Lock lock(state().mutex);
  Context* context = nullptr;
  if (const CUresult error = ContextOrCurrent(handle, context)) return error;
  return Answer(out, type, MultiprocessorsOf(*context));
}

ENTRY(cuGreenCtxGetDevResource, (CUgreenCtx handle, CUdevResource* out, CUdevResourceType type),
      (handle, out, type)) {
  const Lock lock(state().mutex);
  std::shared_ptr<Context> context;
  if (const CUresult error = FindGreen(handle, context)) return error;
  return Answer(out, type, MultiprocessorsOf(*context));
}

ENTRY(cuDevSmResourceSplitByCount,
      (CUdevResource * result, unsigned* groups, const CUdevResource* input,
       CUdevResource* remaining, unsigned flags, unsigned least),
      (result, groups, input, remaining, flags, least)) {
  return Split(result, groups, input, remaining, flags, least);
}

ENTRY(cuDevResourceGenerateDesc,
      (CUdevResourceDesc * out, CUdevResource* resources, unsigned count),
      (out, resources, count)) {
  return Describe(out, resources, count);
}

#endif
