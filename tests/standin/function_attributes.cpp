// cuFunc*Attribute, cuKernel*Attribute: what functions need, and what may be set of them, on each
// device by itself.
#include "device_attributes.h"
#include "entry_point.h"
#include "modules.h"
#include "settings.h"

namespace standin {
namespace {

constexpr int kNoPreference = -1;  // CU_SHAREDMEM_CARVEOUT_DEFAULT

// From 12 on older headers do not name them.
enum Settable {
  kDynamicShared = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
  kCarveout = CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
  kMustBeCluster = 10,  // told only
  kClusterWidth = 11,
  kClusterHeight = 12,
  kClusterDepth = 13,
  kNonPortableCluster = 14,
  kClusterPolicy = 15,
};

int AttributeOfDevice(int device, CUdevice_attribute attribute) {
  return AttributeOf(*state().devices[static_cast<std::size_t>(device)], attribute);
}

int SharedOf(const Function& function) {
  return static_cast<int>(function.needs.shared_bytes);
}

// The device that a call concerns which names none: that of the module's context, or, of a
// library's function, the current one.
int DeviceOf(const Function& function) {
  const Module* const module = FindModule(function.module);
  if (module && module->device >= 0) return module->device;
  Context* context = nullptr;
  return CurrentContext(context) == CUDA_SUCCESS ? context->device : 0;
}

// What is told until something else is set.
int Initial(const Function& function, int attribute, int device) {
  if (attribute == kCarveout) return kNoPreference;
  if (attribute != kDynamicShared) return 0;
  const int most = AttributeOfDevice(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  return std::max(most - SharedOf(function), 0);
}

int ValueOf(const Function& function, CUfunction_attribute attribute, int device) {
  const auto found = function.set.find({device, attribute});
  return found == function.set.end() ? Initial(function, attribute, device) : found->second;
}

CUresult Tell(int* out, CUfunction_attribute attribute, const Function& function, int device) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  const KernelNeeds& needs = function.needs;
  switch (static_cast<int>(attribute)) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *out = static_cast<int>(needs.most_threads);
      break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *out = static_cast<int>(needs.registers);
      break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      *out = SharedOf(function);
      break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      *out = static_cast<int>(needs.local_bytes);
      break;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
      *out = static_cast<int>(needs.constant_bytes);
      break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
      *out = function.architecture.ptx != 0 ? function.architecture.ptx : settings().capability;
      break;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *out =
          function.architecture.binary != 0 ? function.architecture.binary : settings().capability;
      break;
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
      *out = 0;
      break;
    case kDynamicShared:
    case kCarveout:
    case kMustBeCluster:
    case kClusterWidth:
    case kClusterHeight:
    case kClusterDepth:
    case kNonPortableCluster:
    case kClusterPolicy:
      *out = ValueOf(function, attribute, device);
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

// The values that an attribute may be set to; none of what can only be asked for.
struct Range {
  int attribute;
  int least, most;
};

constexpr Range kRanges[] = {
    {kDynamicShared, 0, INT_MAX},     // less what the kernel has of its own
    {kCarveout, kNoPreference, 100},  // percent
    {kClusterWidth, 0, INT_MAX},
    {kClusterHeight, 0, INT_MAX},
    {kClusterDepth, 0, INT_MAX},
    {kNonPortableCluster, INT_MIN, INT_MAX},  // anything is yes but 0
    {kClusterPolicy, 0, 2},                   // CUclusterSchedulingPolicy
};

CUresult Change(Function& function, CUfunction_attribute attribute, int value, int device) {
  const auto* const range = std::find_if(
      std::begin(kRanges), std::end(kRanges),
      [&](const Range& each) { return each.attribute == static_cast<int>(attribute); });
  if (range == std::end(kRanges) || value < range->least || value > range->most) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const int most = AttributeOfDevice(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  if (range->attribute == kDynamicShared && value > most - SharedOf(function)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (range->attribute == kNonPortableCluster) value = value != 0 ? 1 : 0;
  function.set[{device, attribute}] = value;
  return CUDA_SUCCESS;
}

// By a CUfunction: a CUkernel is none here. Wants state().mutex held.
CUresult FindByFunction(CUfunction handle, Function*& out) {
  if (const CUresult error = FindFunction(handle, out)) return error;
  return handle == reinterpret_cast<CUfunction>(out) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

// Calls `work` with the kernel, of which the program names the device.
template <typename Work>
CUresult OnDevice(CUkernel kernel, CUdevice ordinal, Work work) {
  const Lock lock(state().mutex);
  Function* function = nullptr;
  Device* device = nullptr;
  if (const CUresult error = FindFunction(kernel, function)) return error;
  if (const CUresult error = FindDevice(ordinal, device)) return error;
  return work(*function);
}

}  // namespace

std::size_t MostDynamicShared(const Function& function) {
  return static_cast<std::size_t>(
      ValueOf(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, DeviceOf(function)));
}

}  // namespace standin

using namespace standin;

ENTRY(cuFuncGetAttribute, (int* out, CUfunction_attribute attribute, CUfunction handle),
      (out, attribute, handle)) {
  const Lock lock(state().mutex);
  Function* function = nullptr;
  if (!handle) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult error = FindByFunction(handle, function)) return error;
  return Tell(out, attribute, *function, DeviceOf(*function));
}

ENTRY(cuFuncSetAttribute, (CUfunction handle, CUfunction_attribute attribute, int value),
      (handle, attribute, value)) {
  const Lock lock(state().mutex);
  Function* function = nullptr;
  if (const CUresult error = FindByFunction(handle, function)) return error;
  return Change(*function, attribute, value, DeviceOf(*function));
}

ENTRY(cuKernelGetAttribute,
      (int* out, CUfunction_attribute attribute, CUkernel kernel, CUdevice device),
      (out, attribute, kernel, device)) {
  return OnDevice(kernel, device,
                  [&](const Function& function) { return Tell(out, attribute, function, device); });
}

ENTRY(cuKernelSetAttribute,
      (CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device),
      (attribute, value, kernel, device)) {
  return OnDevice(kernel, device,
                  [&](Function& function) { return Change(function, attribute, value, device); });
}

ENTRY(cuKernelSetCacheConfig, (CUkernel kernel, CUfunc_cache config, CUdevice device),
      (kernel, config, device)) {
  return OnDevice(kernel, device, [&](const Function&) {
    return config > CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  });
}
