// cuCtxSetLimit, cuCtxGetLimit.
#include "contexts.h"
#include "entry_point.h"
#include "settings.h"

namespace standin {
namespace {

constexpr std::size_t kAny = SIZE_MAX;
constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = kKiB * kKiB;

enum class May { kBeSet, kBeAsked, kNeither };

// By the number of the limit, some of which older headers do not name. What is set is rounded up to
// a multiple and to the least, and refused above the most.
struct Limit {
  int number;
  std::size_t initial, least, most, multiple;
  May may;
};

constexpr Limit kLimits[] = {
    {CU_LIMIT_STACK_SIZE, kKiB, 0, 512 * kKiB, 16, May::kBeSet},
    {CU_LIMIT_PRINTF_FIFO_SIZE, kMiB, 384 * kKiB, kAny, 1, May::kBeSet},
    {CU_LIMIT_MALLOC_HEAP_SIZE, 8 * kMiB, 4 * kMiB, kAny, 1, May::kBeSet},
    {CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH, 2, 0, 24, 1, May::kBeSet},
    {CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, 2048, 32, kAny, 1, May::kBeSet},
    {CU_LIMIT_MAX_L2_FETCH_GRANULARITY, 64, 0, 128, 1, May::kBeSet},
    {CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 0, 0, kAny, 1, May::kBeSet},
    {7, 48 * kKiB, 0, kAny, 1, May::kBeAsked},  // CU_LIMIT_SHMEM_SIZE
    {8, 0, 0, kAny, 1, May::kBeAsked},          // CU_LIMIT_CIG_ENABLED
    {9, 0, 0, kAny, 1, May::kNeither},          // CU_LIMIT_CIG_SHMEM_FALLBACK_ENABLED
};

// Wants state().mutex held.
CUresult Find(CUlimit number, Context*& context, const Limit*& out) {
  if (const CUresult error = CurrentContext(context)) return error;
  for (const Limit& limit : kLimits) {
    if (limit.number != static_cast<int>(number)) continue;
    out = &limit;
    return limit.may == May::kNeither ? CUDA_ERROR_UNSUPPORTED_LIMIT : CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

}  // namespace
}  // namespace standin

using namespace standin;

ENTRY(cuCtxSetLimit, (CUlimit number, size_t value), (number, value)) {
  const Lock lock(state().mutex);
  Context* context = nullptr;
  const Limit* limit = nullptr;
  if (const CUresult error = Find(number, context, limit)) return error;
  if (limit->may == May::kBeAsked) return CUDA_ERROR_NOT_PERMITTED;
  // cuda.h: of devices below 9.0 only.
  if (limit->number == CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH && settings().capability >= 90) {
    return CUDA_ERROR_UNSUPPORTED_LIMIT;
  }
  if (value > limit->most) return CUDA_ERROR_INVALID_VALUE;
  const std::size_t rounded = (value + limit->multiple - 1) / limit->multiple * limit->multiple;
  context->limits[number] = std::max(rounded, limit->least);
  return CUDA_SUCCESS;
}

ENTRY(cuCtxGetLimit, (size_t * out, CUlimit number), (out, number)) {
  const Lock lock(state().mutex);
  Context* context = nullptr;
  const Limit* limit = nullptr;
  if (const CUresult error = Find(number, context, limit)) return error;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = context->limits.try_emplace(number, limit->initial).first->second;
  return CUDA_SUCCESS;
}
