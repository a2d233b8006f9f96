// cuDNN: versions, and of the backend interface descriptors that keep what is set. A heuristic
// finds one engine, which needs no workspace: the real ones' need is not known. Status 0 is
// CUDNN_STATUS_SUCCESS, 2000 _BAD_PARAM, 3000 _NOT_SUPPORTED, 5000 _EXECUTION_FAILED.
#include <cstring>
#include <map>
#include <vector>

#include "library.h"

using namespace standin_library;

namespace {

// cudnnBackendDescriptorType_t and cudnnBackendAttributeName_t, as far as they are told apart here.
constexpr int kDescriptorType = 15;  // CUDNN_TYPE_BACKEND_DESCRIPTOR
constexpr int kEngineHeuristicResults = 202;
// What an engine, or the plan that is made of it, needs: of each of these, none.
constexpr int kEngineWorkspaceSize = 303;
constexpr int kEngineSharedMemory = 304;
constexpr int kExecutionPlanWorkspaceSize = 402;

struct Value {
  int type;
  std::int64_t count;
  std::vector<char> bytes;
};

struct Descriptor {
  int type;
  std::map<int, Value> values;
};

struct Handle {
  void* stream;
};

Version own_version() {
  static const Version have = version("STANDIN_CUDNN_VERSION", {9, 99, 0});
  return have;
}

std::size_t size_of(int type) {
  switch (type) {
    case 0:   // CUDNN_TYPE_HANDLE
    case 3:   // _INT64
    case 5:   // _DOUBLE
    case 6:   // _VOID_PTR
    case 15:  // _BACKEND_DESCRIPTOR
      return 8;
    case 2:   // _BOOLEAN
    case 24:  // _CHAR
      return 1;
    case 26:  // _FRACTION
      return 16;
    default:  // enumerations, _FLOAT, _INT32
      return 4;
  }
}

}  // namespace

STANDIN_EXPORT std::size_t cudnnGetVersion() {
  const Version have = own_version();
  return static_cast<std::size_t>(have.major * 10000 + have.minor * 100 + have.patch);
}
STANDIN_EXPORT std::size_t cudnnGetCudartVersion() {
  return own_version().major >= 9 ? 12000 : 11000;  // nobody compares it with more than a bound
}
STANDIN_EXPORT int cudnnGetProperty(int which, int* out) {
  if (!out || which < 0 || which > 2) return 2000;
  const Version have = own_version();
  const int parts[] = {have.major, have.minor, have.patch};
  *out = parts[which];
  return 0;
}
STANDIN_EXPORT const char* cudnnGetErrorString(int status) {
  return status == 0 ? "CUDNN_STATUS_SUCCESS" : "the stand-in does not serve it";
}
STANDIN_EXPORT void cudnnGetLastErrorString(char* out, std::size_t bytes) {
  if (out && bytes > 0) *out = 0;
}

STANDIN_EXPORT int cudnnCreate(void** out) {
  if (!out) return 2000;
  *out = new Handle{nullptr};
  return 0;
}
STANDIN_EXPORT int cudnnDestroy(void* handle) {
  delete static_cast<Handle*>(handle);
  return 0;
}
STANDIN_EXPORT int cudnnSetStream(void* handle, void* stream) {
  if (!handle) return 2000;
  static_cast<Handle*>(handle)->stream = stream;
  return 0;
}
STANDIN_EXPORT int cudnnGetStream(void* handle, void** out) {
  if (!handle || !out) return 2000;
  *out = static_cast<Handle*>(handle)->stream;
  return 0;
}

STANDIN_EXPORT int cudnnBackendCreateDescriptor(int type, void** out) {
  if (!out) return 2000;
  *out = new Descriptor{type, {}};
  return 0;
}
STANDIN_EXPORT int cudnnBackendDestroyDescriptor(void* descriptor) {
  delete static_cast<Descriptor*>(descriptor);
  return 0;
}
STANDIN_EXPORT int cudnnBackendFinalize(void* descriptor) {
  return descriptor ? 0 : 2000;
}

STANDIN_EXPORT int cudnnBackendSetAttribute(void* descriptor, int name, int type,
                                            std::int64_t count, const void* values) {
  if (!descriptor || count < 0 || (count > 0 && !values)) return 2000;
  Value value{type, count, std::vector<char>(size_of(type) * static_cast<std::size_t>(count))};
  if (!value.bytes.empty()) std::memcpy(value.bytes.data(), values, value.bytes.size());
  static_cast<Descriptor*>(descriptor)->values[name] = value;
  return 0;
}

STANDIN_EXPORT int cudnnBackendGetAttribute(void* descriptor, int name, int type,
                                            std::int64_t asked, std::int64_t* count, void* values) {
  if (!descriptor) return 2000;
  auto* const from = static_cast<Descriptor*>(descriptor);
  if (name == kEngineHeuristicResults) {
    // The caller brings finalized-to-be descriptors of engine configurations; the first one is the
    // answer.
    if (count) *count = 1;
    return 0;
  }
  if (name == kEngineWorkspaceSize || name == kEngineSharedMemory ||
      name == kExecutionPlanWorkspaceSize) {
    if (count) *count = 1;
    if (values && asked > 0) std::memset(values, 0, size_of(type));
    return 0;
  }
  const auto found = from->values.find(name);
  if (found == from->values.end()) {
    if (count) *count = 0;  // no notes, no knobs
    return 0;
  }
  if (count) *count = found->second.count;
  if (values && type != kDescriptorType) {
    const std::int64_t copied = asked < found->second.count ? asked : found->second.count;
    std::memcpy(values, found->second.bytes.data(),
                size_of(found->second.type) * static_cast<std::size_t>(copied));
  }
  return 0;
}

STANDIN_EXPORT int cudnnBackendExecute(void* handle, void* plan, void* variants) {
  (void)plan, (void)variants;
  if (!handle) return 2000;
  return launch(static_cast<Handle*>(handle)->stream) == 0 ? 0 : 5000;
}

// Batch normalization outside the backend interface: no workspace, no reserve.
STANDIN_EXPORT int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
    void* handle, int mode, int operations, void* x, void* z, void* y, void* scale,
    void* activation, std::size_t* out) {
  (void)handle, (void)mode, (void)operations, (void)x, (void)z, (void)y, (void)scale,
      (void)activation;
  return out ? (*out = 0, 0) : 2000;
}
STANDIN_EXPORT int cudnnGetBatchNormalizationBackwardExWorkspaceSize(
    void* handle, int mode, int operations, void* x, void* y, void* dy, void* dz, void* dx,
    void* scale, void* activation, std::size_t* out) {
  (void)handle, (void)mode, (void)operations, (void)x, (void)y, (void)dy, (void)dz, (void)dx,
      (void)scale;
  (void)activation;
  return out ? (*out = 0, 0) : 2000;
}
STANDIN_EXPORT int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(void* handle, int mode,
                                                                        int operations,
                                                                        void* activation, void* x,
                                                                        std::size_t* out) {
  (void)handle, (void)mode, (void)operations, (void)activation, (void)x;
  return out ? (*out = 0, 0) : 2000;
}

namespace {

constexpr const char* kLibrary = "cuDNN";
constexpr int kNotSupported = 3000;

int Compute(void* handle, std::span<const void* const> arguments) {
  if (!handle) return 2000;
  return launch(static_cast<Handle*>(handle)->stream, arguments) == 0 ? 0 : 5000;
}

}  // namespace

#include "functions/cudnn.inc"
