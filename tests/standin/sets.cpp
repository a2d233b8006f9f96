// cuMemset*: asynchronous to the host where the memory is the device's. Of pinned and of managed
// memory, which the host can read, the synchronous forms wait (CUDA driver API, API synchronization
// behavior).
#include "behaviour.h"
#include "capture.h"
#include "contents.h"
#include "copies.h"
#include "entry_point.h"
#include "work.h"

namespace standin {
namespace {

enum class Synchronous { kNo, kYes };

template <typename Value>
CUresult Set(CUdeviceptr to, std::size_t pitch, Value value, std::size_t width, std::size_t height,
             CUstream handle, Synchronous synchronous) {
  Lock lock(state().mutex);
  StreamPtr stream;
  if (const CUresult error = FindStream(handle, stream)) return error;
  if (synchronous == Synchronous::kYes) {
    if (const CUresult error = CheckSynchronousUse(*stream)) return error;
  }
  if (width == 0 || height == 0) return CUDA_SUCCESS;
  const std::size_t row = width * sizeof(Value);
  if (height > 1 && (pitch < row || pitch % sizeof(Value) != 0)) return CUDA_ERROR_INVALID_VALUE;
  const std::size_t extent = (height - 1) * pitch + row;
  if (to % sizeof(Value) != 0 || !IsDeviceRange(to, extent)) {
    return Behaviour("cuMemset.not_device_memory");
  }
  if (stream->capture) {
    const CUDA_MEMSET_NODE_PARAMS set{.dst = to,
                                      .pitch = pitch,
                                      .value = value,
                                      .elementSize = sizeof(Value),
                                      .width = width,
                                      .height = height};
    return AddNode(*stream, SetNode{set, stream->context->handle});
  }
  FencePtr fence;
  const CUresult result = Submit(
      *stream, [=] { SetRows(to, pitch, value, width, height); }, &fence);
  const bool waits = synchronous == Synchronous::kYes && IsReadByHost(to) &&
                     BehaviourFlag("cuMemset.waits_for_host_memory");
  if (waits && fence) WaitFor(lock, {fence});
  return result;
}

}  // namespace
}  // namespace standin

using namespace standin;

#define DEFINE_SET(name, Value)                                                                  \
  STREAM_ENTRY(name##_v2, _ptds, (CUdeviceptr to, Value value, size_t count),                    \
               (to, value, count)) {                                                             \
    return Set<Value>(to, 0, value, count, 1, nullptr, Synchronous::kYes);                       \
  }                                                                                              \
  STREAM_ENTRY(name##Async, _ptsz, (CUdeviceptr to, Value value, size_t count, CUstream stream), \
               (to, value, count, stream)) {                                                     \
    return Set<Value>(to, 0, value, count, 1, stream, Synchronous::kNo);                         \
  }

#define DEFINE_SET_2D(name, Value)                                                               \
  STREAM_ENTRY(name##_v2, _ptds,                                                                 \
               (CUdeviceptr to, size_t pitch, Value value, size_t width, size_t height),         \
               (to, pitch, value, width, height)) {                                              \
    return Set<Value>(to, pitch, value, width, height, nullptr, Synchronous::kYes);              \
  }                                                                                              \
  STREAM_ENTRY(                                                                                  \
      name##Async, _ptsz,                                                                        \
      (CUdeviceptr to, size_t pitch, Value value, size_t width, size_t height, CUstream stream), \
      (to, pitch, value, width, height, stream)) {                                               \
    return Set<Value>(to, pitch, value, width, height, stream, Synchronous::kNo);                \
  }

DEFINE_SET(cuMemsetD8, unsigned char)
DEFINE_SET(cuMemsetD16, unsigned short)
DEFINE_SET(cuMemsetD32, unsigned int)
DEFINE_SET_2D(cuMemsetD2D8, unsigned char)
DEFINE_SET_2D(cuMemsetD2D16, unsigned short)
DEFINE_SET_2D(cuMemsetD2D32, unsigned int)
