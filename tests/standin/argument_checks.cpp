// Functions that look at their arguments before they say that there is nothing for them here:
// memory and semaphores of other libraries, graphics, launches on several devices, tensor maps.
#include <algorithm>

#include "entry_point.h"
#include "modules.h"
#include "state.h"

namespace standin {
namespace {

// Types of handles that Linux has; others are Windows', or no types.
constexpr int kMemoryTypes[] = {CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
                                CU_EXTERNAL_MEMORY_HANDLE_TYPE_NVSCIBUF,
                                9};  // CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD
constexpr int kSemaphoreTypes[] = {CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD,
                                   CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_NVSCISYNC,
                                   9};  // CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD

template <typename Description>
CUresult Import(const void* out, const Description* description, const int (&types)[3]) {
  if (!out || !description) return CUDA_ERROR_INVALID_VALUE;
  const auto* const end = std::end(types);
  const bool known = std::find(std::begin(types), end, static_cast<int>(description->type)) != end;
  return known ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
}

// Nothing registers a resource.
CUresult UseGraphics(unsigned count, const CUgraphicsResource* resources) {
  return count == 0 || !resources ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
}

}  // namespace
}  // namespace standin

using namespace standin;

ENTRY(cuImportExternalMemory,
      (CUexternalMemory * out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC* description),
      (out, description)) {
  return Import(out, description, kMemoryTypes);
}

ENTRY(cuImportExternalSemaphore,
      (CUexternalSemaphore * out, const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC* description),
      (out, description)) {
  return Import(out, description, kSemaphoreTypes);
}

ENTRY(cuGraphicsMapResources, (unsigned count, CUgraphicsResource* resources, CUstream stream),
      (count, resources, stream)) {
  (void)stream;
  return UseGraphics(count, resources);
}

ENTRY(cuGraphicsUnmapResources, (unsigned count, CUgraphicsResource* resources, CUstream stream),
      (count, resources, stream)) {
  (void)stream;
  return UseGraphics(count, resources);
}

ENTRY(cuLaunchCooperativeKernelMultiDevice,
      (CUDA_LAUNCH_PARAMS * launches, unsigned count, unsigned flags), (launches, count, flags)) {
  (void)flags;
  if (!launches || count == 0) return CUDA_ERROR_INVALID_VALUE;
  const Lock lock(state().mutex);
  for (unsigned i = 0; i < count; ++i) {
    const Function* function = nullptr;
    if (const CUresult error = FindFunction(launches[i].function, function)) return error;
  }
  return CUDA_ERROR_NOT_SUPPORTED;
}

#if CUDA_VERSION >= 12080
ENTRY(cuTensorMapEncodeIm2colWide,
      (CUtensorMap * out, CUtensorMapDataType type, cuuint32_t rank, void* address,
       const cuuint64_t* sizes, const cuuint64_t* strides, int lower, int upper,
       cuuint32_t channels, cuuint32_t pixels, const cuuint32_t* element_strides,
       CUtensorMapInterleave interleave, CUtensorMapIm2ColWideMode mode, CUtensorMapSwizzle swizzle,
       CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill),
      (out, type, rank, address, sizes, strides, lower, upper, channels, pixels, element_strides,
       interleave, mode, swizzle, promotion, fill)) {
  (void)type, (void)rank, (void)lower, (void)upper, (void)channels, (void)pixels;
  (void)interleave, (void)mode, (void)swizzle, (void)promotion, (void)fill;
  const bool given = out && address && sizes && strides && element_strides;
  return given ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
}
#endif
