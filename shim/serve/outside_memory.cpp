#include "shim/serve/outside_memory.h"

#include <algorithm>
#include <utility>

#include "shim/tell/log.h"

namespace cubfc {
namespace {

// Bits of one element, all channels. Of formats that are not here, what is not less.
std::uint64_t bits_of(CUarray_format format, std::uint64_t channels) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
    case CU_AD_FORMAT_UNORM_INT8X1:
    case CU_AD_FORMAT_UNORM_INT8X2:
    case CU_AD_FORMAT_UNORM_INT8X4:
    case CU_AD_FORMAT_SNORM_INT8X1:
    case CU_AD_FORMAT_SNORM_INT8X2:
    case CU_AD_FORMAT_SNORM_INT8X4:
      return 8 * channels;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
    case CU_AD_FORMAT_UNORM_INT16X1:
    case CU_AD_FORMAT_UNORM_INT16X2:
    case CU_AD_FORMAT_UNORM_INT16X4:
    case CU_AD_FORMAT_SNORM_INT16X1:
    case CU_AD_FORMAT_SNORM_INT16X2:
    case CU_AD_FORMAT_SNORM_INT16X4:
      return 16 * channels;
    case CU_AD_FORMAT_NV12:  // a byte of brightness, and a half of colour
      return 12;
    case CU_AD_FORMAT_BC1_UNORM:  // 8 bytes for 16 elements
    case CU_AD_FORMAT_BC1_UNORM_SRGB:
    case CU_AD_FORMAT_BC4_UNORM:
    case CU_AD_FORMAT_BC4_SNORM:
      return 4;
    case CU_AD_FORMAT_BC2_UNORM:  // 16 bytes for 16 elements
    case CU_AD_FORMAT_BC2_UNORM_SRGB:
    case CU_AD_FORMAT_BC3_UNORM:
    case CU_AD_FORMAT_BC3_UNORM_SRGB:
    case CU_AD_FORMAT_BC5_UNORM:
    case CU_AD_FORMAT_BC5_SNORM:
    case CU_AD_FORMAT_BC6H_UF16:
    case CU_AD_FORMAT_BC6H_SF16:
    case CU_AD_FORMAT_BC7_UNORM:
    case CU_AD_FORMAT_BC7_UNORM_SRGB:
      return 8;
    default:
      return 32 * channels;
  }
}

}  // namespace

std::uint64_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR& shape, unsigned levels) {
  constexpr unsigned kWithoutMemory = CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING;
  if ((shape.Flags & kWithoutMemory) != 0) {
    return 0;  // physical memory is mapped to it
  }
  constexpr unsigned kLayers = CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP;
  std::uint64_t width = shape.Width;
  std::uint64_t height = std::max<std::uint64_t>(shape.Height, 1);
  std::uint64_t depth = std::max<std::uint64_t>(shape.Depth, 1);
  std::uint64_t elements = 0;
  for (unsigned level = 0; level < std::max(levels, 1U) && level < 64; ++level) {
    unsigned __int128 more = width;
    more = more * height * depth;
    if (more > (std::uint64_t{1} << 50)) {
      return std::uint64_t{1} << 55;  // no device has it: the driver is asked all the same
    }
    elements += static_cast<std::uint64_t>(more);
    if (width == 1 && height == 1 && (depth == 1 || (shape.Flags & kLayers) != 0)) {
      break;
    }
    width = std::max<std::uint64_t>(width / 2, 1);
    height = std::max<std::uint64_t>(height / 2, 1);
    depth = (shape.Flags & kLayers) != 0 ? depth : std::max<std::uint64_t>(depth / 2, 1);
  }
  return (elements * bits_of(shape.Format, std::max(shape.NumChannels, 1U)) + 7) / 8;
}

CUresult PhysicalMemory::create(Handle* handle, std::size_t bytes,
                                const CUmemAllocationProp* properties, unsigned long long flags) {
  const auto call = [&] { return driver_.cuMemCreate(handle, bytes, properties, flags); };
  const bool of_device = handle != nullptr && bytes > 0 && properties != nullptr &&
                         properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  Device* const device = of_device ? contexts_.device(properties->location.id) : nullptr;
  if (device == nullptr) {
    return call();  // what is wrong with it the driver says best
  }
  std::optional<Claim> claim;
  const CUresult result = memory_.claim_and_call(
      {*device, Holding::kPhysical, bytes, "cuMemCreate"}, claim, call, [] {});
  if (result != CUDA_SUCCESS) {
    return result;
  }
  try {
    Shared memory = std::make_shared<Claim>(std::move(*claim));
    const std::lock_guard lock(mutex_);
    handles_.insert_or_assign(*handle, Reference{std::move(memory), 1});
  } catch (const std::bad_alloc&) {
    driver_.cuMemRelease(*handle);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  log::trace("cuMemCreate {} bytes -> handle {:#x}", bytes, *handle);
  return CUDA_SUCCESS;
}

// The reference goes first: as soon as the driver has let go of the handle, another thread may be
// given it.
CUresult PhysicalMemory::release(Handle handle) {
  Reference last{nullptr, 0};
  {
    const std::lock_guard lock(mutex_);
    const auto found = handles_.find(handle);
    if (found != handles_.end() && --found->second.count == 0) {
      last = std::move(found->second);
      handles_.erase(found);
    } else if (found != handles_.end()) {
      last.memory = found->second.memory;
    }
  }
  const CUresult result = driver_.cuMemRelease(handle);
  if (result != CUDA_SUCCESS && last.memory != nullptr) {
    const std::lock_guard lock(mutex_);
    ++handles_.try_emplace(handle, Reference{last.memory, 0}).first->second.count;
  }
  return result;
}

PhysicalMemory::Shared PhysicalMemory::memory_of(Handle handle) {
  const std::lock_guard lock(mutex_);
  const auto found = handles_.find(handle);
  return found == handles_.end() ? nullptr : found->second.memory;
}

CUresult PhysicalMemory::map(CUdeviceptr address, std::size_t bytes, std::size_t offset,
                             Handle handle, unsigned long long flags) {
  std::map<CUdeviceptr, Mapping> mapped;
  if (Shared memory = memory_of(handle); memory != nullptr) {
    mapped.emplace(address, Mapping{bytes, std::move(memory)});
  }
  const CUresult result = driver_.cuMemMap(address, bytes, offset, handle, flags);
  if (result == CUDA_SUCCESS && !mapped.empty()) {
    const std::lock_guard lock(mutex_);
    mappings_.erase(address);
    mappings_.merge(mapped);
  }
  return result;
}

CUresult PhysicalMemory::unmap(CUdeviceptr address, std::size_t bytes) {
  std::map<CUdeviceptr, Mapping> unmapped;
  {
    const std::lock_guard lock(mutex_);
    for (auto each = mappings_.lower_bound(address);
         each != mappings_.end() && each->first - address < bytes;) {
      unmapped.insert(mappings_.extract(each++));
    }
  }
  const CUresult result = driver_.cuMemUnmap(address, bytes);
  if (result != CUDA_SUCCESS) {
    const std::lock_guard lock(mutex_);
    mappings_.merge(unmapped);
  }
  return result;
}

void PhysicalMemory::retained(Handle handle, CUdeviceptr address) noexcept try {
  const std::lock_guard lock(mutex_);
  if (const auto known = handles_.find(handle); known != handles_.end()) {
    ++known->second.count;
    return;
  }
  const auto after = mappings_.upper_bound(address);
  if (after == mappings_.begin()) {
    return;
  }
  const auto& [start, mapping] = *std::prev(after);
  if (address - start < mapping.bytes) {
    handles_.insert_or_assign(handle, Reference{mapping.memory, 1});
  }
} catch (const std::bad_alloc&) {  // it is counted as long as it is mapped
}

template <typename Array, typename Create>
CUresult Arrays::create(Array* array, std::uint64_t bytes, const char* function, Create create) {
  Context* const context = array == nullptr || bytes == 0 ? nullptr : contexts_.current();
  if (context == nullptr) {
    return create();
  }
  std::optional<Claim> claim;
  const CUresult result = memory_.claim_and_call(
      {context->device, Holding::kArray, bytes, function}, claim, create, [] {});
  if (result != CUDA_SUCCESS) {
    return result;
  }
  try {
    ledger_.add(*array, {std::move(*claim), context->id});
  } catch (const std::bad_alloc&) {  // it is not counted
  }
  log::trace("{} of about {} bytes", function, bytes);
  return CUDA_SUCCESS;
}

template <typename Array>
CUresult Arrays::destroy(CUresult (*function)(Array), Array array) {
  auto entry = ledger_.remove(array);
  const CUresult result = function(array);
  if (result != CUDA_SUCCESS && entry) {
    ledger_.put_back(array, std::move(*entry));
  }
  return result;
}

CUresult Arrays::create(CUarray* array, const CUDA_ARRAY_DESCRIPTOR* shape) {
  const std::uint64_t bytes =
      shape == nullptr
          ? 0
          : array_bytes({shape->Width, shape->Height, 0, shape->Format, shape->NumChannels, 0}, 1);
  return create(array, bytes, "cuArrayCreate",
                [&] { return driver_.cuArrayCreate_v2(array, shape); });
}

CUresult Arrays::create_3d(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR* shape) {
  return create(array, shape == nullptr ? 0 : array_bytes(*shape, 1), "cuArray3DCreate",
                [&] { return driver_.cuArray3DCreate_v2(array, shape); });
}

CUresult Arrays::create_mipmapped(CUmipmappedArray* array, const CUDA_ARRAY3D_DESCRIPTOR* shape,
                                  unsigned levels) {
  return create(array, shape == nullptr ? 0 : array_bytes(*shape, levels), "cuMipmappedArrayCreate",
                [&] { return driver_.cuMipmappedArrayCreate(array, shape, levels); });
}

CUresult Arrays::destroy(CUarray array) {
  return destroy(driver_.cuArrayDestroy, array);
}

CUresult Arrays::destroy_mipmapped(CUmipmappedArray array) {
  return destroy(driver_.cuMipmappedArrayDestroy, array);
}

}  // namespace cubfc
