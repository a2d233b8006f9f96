// cuDNN: versions, and of the backend interface descriptors that keep what is set. A heuristic
// finds one engine. Status 0 is CUDNN_STATUS_SUCCESS, 2000 _BAD_PARAM, 3000 _NOT_SUPPORTED, 5000
// _EXECUTION_FAILED.
//
// What workspace the real engines need, nobody knows but they. An engine that works in the layout
// and the alignment of the tensor cores, and copies each operand that has another one, is mostly
// the one that needs most. STANDIN_CUDNN_WORKSPACE says which share of that a convolution asks for
// here: a number from 0, which it is where nothing is said, to 1.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

#include "library.h"

using namespace standin_library;

namespace {

// cudnnBackendDescriptorType_t and cudnnBackendAttributeName_t, as far as they are told apart here.
constexpr int kDescriptorType = 15;  // CUDNN_TYPE_BACKEND_DESCRIPTOR
constexpr int kEngineHeuristicGraph = 201;
constexpr int kEngineHeuristicResults = 202;
constexpr int kEngineConfigEngine = 300;
constexpr int kExecutionPlanEngineConfig = 401;
constexpr int kExecutionPlanWorkspaceSize = 402;
// Tensors: of CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_, _BWD_DATA_ and _BWD_FILTER_.
constexpr int kConvolutionOperands[] = {703, 704, 705, 709, 710, 711, 715, 716, 717};
constexpr int kOperationGraphOperations = 801;
constexpr int kTensorDataType = 901;
constexpr int kTensorDimensions = 902;
constexpr int kTensorStrides = 903;
constexpr int kEngineGraph = 1300;
// Of an engine, which needs none of either.
constexpr int kEngineWorkspaceSize = 303;
constexpr int kEngineSharedMemory = 304;

struct Value {
  int type;
  std::int64_t count;
  std::vector<char> bytes;
  std::int64_t workspace = 0;  // bytes that what it points to needs
};

struct Descriptor {
  int type;
  std::map<int, Value> values;
  std::int64_t found_workspace = 0;  // of a heuristic's result

  std::int64_t workspace() const {
    std::int64_t bytes = found_workspace;
    for (const auto& [name, value] : values) bytes += value.workspace;
    return bytes;
  }
  std::vector<std::int64_t> numbers(int name) const {
    const auto found = values.find(name);
    if (found == values.end()) return {};
    std::vector<std::int64_t> all(found->second.bytes.size() / sizeof(std::int64_t));
    std::memcpy(all.data(), found->second.bytes.data(), all.size() * sizeof(std::int64_t));
    return all;
  }
};

std::int64_t element_bytes(const Descriptor& tensor) {
  const auto found = tensor.values.find(kTensorDataType);
  int type = 0;
  if (found != tensor.values.end() && found->second.bytes.size() == sizeof type) {
    std::memcpy(&type, found->second.bytes.data(), sizeof type);
  }
  switch (type) {
    case 1:   // CUDNN_DATA_DOUBLE
    case 10:  // _INT64
      return 8;
    case 2:  // _HALF
    case 9:  // _BFLOAT16
      return 2;
    case 0:  // _FLOAT
    case 4:  // _INT32
      return 4;
    default:
      return 1;
  }
}

// Of a copy of the tensor, batch by channels by the rest, with its channels innermost, rounded up
// to 16 bytes; 0 if it is that already.
std::int64_t copy_bytes(const Descriptor& tensor) {
  const std::vector<std::int64_t> sizes = tensor.numbers(kTensorDimensions);
  const std::vector<std::int64_t> strides = tensor.numbers(kTensorStrides);
  if (sizes.size() < 3 || strides.size() != sizes.size()) return 0;
  const std::int64_t element = element_bytes(tensor);
  const std::int64_t aligned = std::max<std::int64_t>(16 / element, 1);
  const std::int64_t channels = (sizes[1] + aligned - 1) / aligned * aligned;
  std::int64_t rest = 1;
  for (std::size_t n = 2; n < sizes.size(); ++n) rest *= sizes[n];
  if (channels == sizes[1] && (strides[1] == 1 || rest == 1)) return 0;
  return sizes[0] * channels * rest * element;
}

double share_of_copies() {
  static const double share = [] {
    const char* const text = std::getenv("STANDIN_CUDNN_WORKSPACE");
    return text == nullptr ? 0 : std::clamp(std::strtod(text, nullptr), 0.0, 1.0);
  }();
  return share;
}

// What an attribute that is set to these descriptors adds to what the whole needs.
std::int64_t workspace_of(int name, const std::vector<const Descriptor*>& parts) {
  const bool is_operand =
      std::find(std::begin(kConvolutionOperands), std::end(kConvolutionOperands), name) !=
      std::end(kConvolutionOperands);
  const bool is_whole = name == kOperationGraphOperations || name == kEngineHeuristicGraph ||
                        name == kEngineGraph || name == kEngineConfigEngine ||
                        name == kExecutionPlanEngineConfig;
  std::int64_t bytes = 0;
  for (const Descriptor* const part : parts) {
    if (part != nullptr && (is_operand || is_whole)) {
      bytes += is_operand ? copy_bytes(*part) : part->workspace();
    }
  }
  return is_operand ? static_cast<std::int64_t>(static_cast<double>(bytes) * share_of_copies())
                    : bytes;
}

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
  if (type == kDescriptorType) {
    const auto* const first = static_cast<const Descriptor* const*>(values);
    value.workspace = workspace_of(name, {first, first + count});
  }
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
    if (values && asked > 0) {
      (*static_cast<Descriptor**>(values))->found_workspace = from->workspace();
    }
    return 0;
  }
  if (name == kExecutionPlanWorkspaceSize && values && asked > 0) {
    if (count) *count = 1;
    const std::int64_t bytes = from->workspace();
    std::memcpy(values, &bytes, sizeof bytes);
    return 0;
  }
  if (name == kEngineWorkspaceSize || name == kEngineSharedMemory) {
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
