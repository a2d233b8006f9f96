// cuMemAdvise, cuMemPrefetchAsync, cuMemRangeGetAttribute: what was advised of managed memory is
// remembered and told. No byte moves, because the host's memory is all that there is.
#include <algorithm>
#include <cstring>
#include <optional>
#include <span>

#include "behaviour.h"
#include "entry_point.h"
#include "settings.h"
#include "state.h"
#include "work.h"

namespace standin {
namespace {

constexpr std::size_t kPage = 64 << 10;

enum class Where { kDevice = 1, kHost = 2, kHostNode = 3 };  // the values of CUmemLocationType

struct Location {
  Where where;
  int id;
  bool operator==(const Location&) const = default;
  int ordinal() const { return where == Where::kDevice ? id : CU_DEVICE_CPU; }
};

struct Page {
  bool read_mostly = false;
  std::optional<Location> preferred;
  std::optional<Location> prefetched;
  std::set<int> accessed_by;
};

using Pages = std::vector<Page*>;

// Of a range, if it lies in managed memory. Those of memory that is gone are never found again.
// Wants state().mutex held.
CUresult Find(CUdeviceptr address, std::size_t bytes, Pages& out) {
  static auto* const pages = new std::map<std::pair<Id, std::size_t>, Page>;
  const Allocation* const found = FindAllocation(address);
  if (bytes == 0 || !found || !IsManaged(found->kind) ||
      bytes > found->base + found->bytes - address) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::size_t offset = address - found->base;
  for (std::size_t page = offset / kPage; page <= (offset + bytes - 1) / kPage; ++page) {
    out.push_back(&(*pages)[{found->buffer_id, page}]);
  }
  return CUDA_SUCCESS;
}

CUresult CheckLocation(const Location& location) {
  Device* device = nullptr;
  return location.where == Where::kDevice ? FindDevice(location.id, device) : CUDA_SUCCESS;
}

CUresult Advise(CUdeviceptr address, std::size_t bytes, CUmem_advise advice,
                const std::optional<Location>& location) {
  const Lock lock(state().mutex);
  Pages pages;
  if (const CUresult error = Find(address, bytes, pages)) return error;
  if (advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // cuda.h: where it is ignored, it need not be one.
  const bool located = advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION ||
                       advice == CU_MEM_ADVISE_SET_ACCESSED_BY ||
                       advice == CU_MEM_ADVISE_UNSET_ACCESSED_BY;
  if (located) {
    if (!location || CheckLocation(*location) != CUDA_SUCCESS) return CUDA_ERROR_INVALID_VALUE;
    if (location->where == Where::kDevice && !settings().shares_managed) {
      return CUDA_ERROR_INVALID_DEVICE;
    }
  }
  for (Page* const page : pages) {
    switch (advice) {
      case CU_MEM_ADVISE_SET_READ_MOSTLY:
      case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
        page->read_mostly = advice == CU_MEM_ADVISE_SET_READ_MOSTLY;
        break;
      case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
        page->preferred = location;
        break;
      case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
        page->preferred.reset();
        break;
      case CU_MEM_ADVISE_SET_ACCESSED_BY:
        page->accessed_by.insert(location->ordinal());
        break;
      default:
        page->accessed_by.erase(location->ordinal());
    }
  }
  return CUDA_SUCCESS;
}

CUresult Prefetch(CUdeviceptr address, std::size_t bytes, const std::optional<Location>& location,
                  CUstream handle) {
  const Lock lock(state().mutex);
  StreamPtr stream;
  Pages pages;
  if (const CUresult error = FindStream(handle, stream)) return error;
  if (const CUresult error = Find(address, bytes, pages)) return error;
  if (!location) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult error = CheckLocation(*location)) return error;
  for (Page* const page : pages) page->prefetched = location;
  return Submit(*stream, nullptr);
}

// What all pages have in common.
std::optional<Location> Common(const Pages& pages, std::optional<Location> Page::*member) {
  const std::optional<Location> first = pages.front()->*member;
  const bool same = std::all_of(pages.begin(), pages.end(),
                                [&](const Page* page) { return page->*member == first; });
  return same ? first : std::nullopt;
}

void AccessedBy(const Pages& pages, std::span<int> out) {
  std::set<int> common = pages.front()->accessed_by;
  for (const Page* const page : pages) {
    std::erase_if(common, [&](int device) { return !page->accessed_by.contains(device); });
  }
  std::vector<int> devices(common.begin(), common.end());
  if (common.contains(CU_DEVICE_CPU))
    std::rotate(devices.begin(), devices.begin() + 1, devices.end());
  devices.resize(out.size(), CU_DEVICE_INVALID);
  std::copy(devices.begin(), devices.end(), out.begin());
}

int Ordinal(const std::optional<Location>& location) {
  return location ? location->ordinal() : CU_DEVICE_INVALID;
}

// Of an attribute that is one number.
std::optional<int> Number(const Pages& pages, CUmem_range_attribute attribute) {
  switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
      return std::all_of(pages.begin(), pages.end(),
                         [](const Page* page) { return page->read_mostly; });
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
      return Ordinal(Common(pages, &Page::preferred));
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
      return Ordinal(Common(pages, &Page::prefetched));
    default:
      break;
  }
#if CUDA_VERSION >= 12020
  const bool preferred = attribute == CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE ||
                         attribute == CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID;
  const std::optional<Location> location =
      Common(pages, preferred ? &Page::preferred : &Page::prefetched);
  switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
      return location ? static_cast<int>(location->where) : 0;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
      return location ? location->id : CU_DEVICE_INVALID;
    default:
      break;
  }
#endif
  return std::nullopt;
}

CUresult Attribute(void* out, std::size_t bytes, CUmem_range_attribute attribute,
                   const Pages& pages) {
  if (!out || bytes == 0 || bytes % sizeof(int) != 0) return CUDA_ERROR_INVALID_VALUE;
  auto* const numbers = static_cast<int*>(out);
  if (attribute == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY) {
    AccessedBy(pages, {numbers, bytes / sizeof(int)});
    return CUDA_SUCCESS;
  }
  const std::optional<int> number = Number(pages, attribute);
  if (!number || bytes != sizeof(int)) return CUDA_ERROR_INVALID_VALUE;
  *numbers = *number;
  return CUDA_SUCCESS;
}

CUresult Attributes(std::span<void*> out, const std::size_t* bytes,
                    const CUmem_range_attribute* attributes, CUdeviceptr address,
                    std::size_t count) {
  const Lock lock(state().mutex);
  Pages pages;
  if (const CUresult error = Find(address, count, pages)) return error;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (const CUresult error = Attribute(out[i], bytes[i], attributes[i], pages)) return error;
  }
  return CUDA_SUCCESS;
}

Location LocationOf(CUdevice device) {
  return device == CU_DEVICE_CPU ? Location{Where::kHost, 0} : Location{Where::kDevice, device};
}

#if CUDA_VERSION >= 12020
std::optional<Location> LocationOf(const CUmemLocation& location) {
  switch (location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      return Location{Where::kDevice, location.id};
    case CU_MEM_LOCATION_TYPE_HOST:
      return Location{Where::kHost, 0};
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      return Location{Where::kHostNode, location.id};
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
      return Location{Where::kHostNode, 0};
    default:
      return std::nullopt;
  }
}
#endif

#if CUDA_VERSION >= 13000
// The legacy stream takes none of a batch.
CUresult FindStreamOfBatch(CUstream handle, StreamPtr& out) {
  if (!handle || handle == CU_STREAM_LEGACY) return CUDA_ERROR_INVALID_VALUE;
  return FindStream(handle, out);
}

struct Batch {
  std::span<CUdeviceptr> addresses;
  std::size_t* sizes;
};

CUresult FindAll(const Batch& batch, std::vector<Pages>& out) {
  if (batch.addresses.empty() || !batch.addresses.data() || !batch.sizes) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (std::size_t i = 0; i < batch.addresses.size(); ++i) {
    if (const CUresult error = Find(batch.addresses[i], batch.sizes[i], out.emplace_back())) {
      return error;
    }
  }
  return CUDA_SUCCESS;
}

// Which location counts for which range: from `indexes[k]` on it is the k-th.
struct Locations {
  std::span<CUmemLocation> each;
  const std::size_t* indexes;
};

CUresult Spread(const Locations& given, std::size_t count, std::vector<Location>& out) {
  if (given.each.empty() || !given.each.data() || !given.indexes || given.each.size() > count ||
      given.indexes[0] != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (std::size_t k = 0; k < given.each.size(); ++k) {
    const std::size_t end = k + 1 < given.each.size() ? given.indexes[k + 1] : count;
    const std::optional<Location> location = LocationOf(given.each[k]);
    if (end <= given.indexes[k] || end > count || !location) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult error = CheckLocation(*location)) return error;
    out.resize(end, *location);
  }
  return CUDA_SUCCESS;
}

// What was there is no use any more: other bytes stand there.
void Scramble(const Batch& batch) {
  constexpr unsigned char kAnything = 0xdb;
  for (std::size_t i = 0; i < batch.addresses.size(); ++i) {
    std::memset(reinterpret_cast<void*>(batch.addresses[i]), kAnything, batch.sizes[i]);
  }
}

// cuda.h, cuMemDiscardAndPrefetchBatchAsync: all in the stream's order. Without locations nothing
// is prefetched. Nothing happens where anything in the batch is wrong.
CUresult RunBatch(const Batch& batch, bool discard, const Locations* locations, CUstream handle) {
  const Lock lock(state().mutex);
  StreamPtr stream;
  std::vector<Pages> ranges;
  std::vector<Location> to;
  if (const CUresult error = FindStreamOfBatch(handle, stream)) return error;
  if (const CUresult error = FindAll(batch, ranges)) return error;
  if (locations) {
    if (const CUresult error = Spread(*locations, ranges.size(), to)) return error;
  }
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    for (Page* const page : ranges[i]) {
      page->prefetched = locations ? std::optional(to[i]) : std::nullopt;
    }
  }
  if (!discard) return Submit(*stream, nullptr);
  std::vector<CUdeviceptr> addresses(batch.addresses.begin(), batch.addresses.end());
  std::vector<std::size_t> sizes(batch.sizes, batch.sizes + addresses.size());
  return Submit(*stream, [addresses, sizes]() mutable { Scramble({addresses, sizes.data()}); });
}
#endif

}  // namespace
}  // namespace standin

using namespace standin;

ENTRY(cuMemAdvise, (CUdeviceptr address, size_t bytes, CUmem_advise advice, CUdevice device),
      (address, bytes, advice, device)) {
  return Advise(address, bytes, advice, LocationOf(device));
}

STREAM_ENTRY(cuMemPrefetchAsync, _ptsz,
             (CUdeviceptr address, size_t bytes, CUdevice device, CUstream stream),
             (address, bytes, device, stream)) {
  return Prefetch(address, bytes, LocationOf(device), stream);
}

#if CUDA_VERSION >= 12020
ENTRY(cuMemAdvise_v2,
      (CUdeviceptr address, size_t bytes, CUmem_advise advice, CUmemLocation location),
      (address, bytes, advice, location)) {
  return Advise(address, bytes, advice, LocationOf(location));
}

STREAM_ENTRY(cuMemPrefetchAsync_v2, _ptsz,
             (CUdeviceptr address, size_t bytes, CUmemLocation location, unsigned flags,
              CUstream stream),
             (address, bytes, location, flags, stream)) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return Prefetch(address, bytes, LocationOf(location), stream);
}
#endif

#if CUDA_VERSION >= 13000
STREAM_ENTRY(cuMemPrefetchBatchAsync, _ptsz,
             (CUdeviceptr * addresses, size_t* sizes, size_t count, CUmemLocation* locations,
              size_t* indexes, size_t location_count, unsigned long long flags, CUstream stream),
             (addresses, sizes, count, locations, indexes, location_count, flags, stream)) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const Locations to{{locations, location_count}, indexes};
  return RunBatch({{addresses, count}, sizes}, false, &to, stream);
}

STREAM_ENTRY(cuMemDiscardBatchAsync, _ptsz,
             (CUdeviceptr * addresses, size_t* sizes, size_t count, unsigned long long flags,
              CUstream stream),
             (addresses, sizes, count, flags, stream)) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return RunBatch({{addresses, count}, sizes}, true, nullptr, stream);
}

STREAM_ENTRY(cuMemDiscardAndPrefetchBatchAsync, _ptsz,
             (CUdeviceptr * addresses, size_t* sizes, size_t count, CUmemLocation* locations,
              size_t* indexes, size_t location_count, unsigned long long flags, CUstream stream),
             (addresses, sizes, count, locations, indexes, location_count, flags, stream)) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const Locations to{{locations, location_count}, indexes};
  return RunBatch({{addresses, count}, sizes}, true, &to, stream);
}
#endif

ENTRY(cuMemRangeGetAttribute,
      (void* out, size_t out_bytes, CUmem_range_attribute attribute, CUdeviceptr address,
       size_t bytes),
      (out, out_bytes, attribute, address, bytes)) {
  return Attributes({&out, 1}, &out_bytes, &attribute, address, bytes);
}

ENTRY(cuMemRangeGetAttributes,
      (void** out, size_t* out_bytes, CUmem_range_attribute* attributes, size_t count,
       CUdeviceptr address, size_t bytes),
      (out, out_bytes, attributes, count, address, bytes)) {
  if (!out || !out_bytes || !attributes || count == 0) return CUDA_ERROR_INVALID_VALUE;
  return Attributes({out, count}, out_bytes, attributes, address, bytes);
}
