// What the calls for mapped memory, pools and handles of other processes say to each of a row of
// arguments. An answer of a case is one object of names and results; what none of them is, is
// written as a number of its own.
#include <cstdint>
#include <string>
#include <vector>

#include "cases.h"
#include "json.h"
#include "mapping.h"

namespace probe {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kLargePage = 65536;
constexpr std::size_t kGibibyte = std::size_t{1} << 30U;

/// A handle of `bytes`, released with the object; 0 when there is none.
class Physical {
 public:
  Physical(Session& s, std::size_t bytes) : s_(s) {
    const CUmemAllocationProp properties = device_memory(s);
    if (s.cu.cuMemCreate(&handle_, bytes, &properties, 0) != CUDA_SUCCESS) {
      handle_ = 0;
    }
  }
  Physical(const Physical&) = delete;
  Physical& operator=(const Physical&) = delete;
  ~Physical() {
    if (handle_ != 0) {
      s_.cu.cuMemRelease(handle_);
    }
  }

  [[nodiscard]] CUmemGenericAllocationHandle get() const { return handle_; }

 private:
  Session& s_;
  CUmemGenericAllocationHandle handle_ = 0;
};

void reserve(Session& s, JsonObject& found, const char* name, std::size_t bytes,
             std::size_t alignment, unsigned long long flags = 0) {
  CUdeviceptr address = 0;
  const CUresult result = s.cu.cuMemAddressReserve(&address, bytes, alignment, 0, flags);
  found.add(name, result);
  if (result == CUDA_SUCCESS) {
    // The largest power of two that divides it says what it is aligned to.
    found.add((std::string(name) + ".lies_on").c_str(),
              static_cast<std::int64_t>(address & (~address + 1)));
    s.cu.cuMemAddressFree(address, bytes);
  }
}

Answer reservations(Session& s) {
  const std::size_t granule = granularity_of(s);
  JsonObject found;
  reserve(s, found, "size_0", 0, 0);
  reserve(s, found, "size_1", 1, 0);
  reserve(s, found, "size_4096", kPage, 0);
  reserve(s, found, "size_65536", kLargePage, 0);
  reserve(s, found, "size_granule", granule, 0);
  reserve(s, found, "size_granule_and_1", granule + 1, 0);
  reserve(s, found, "size_granule_and_half", granule / 2 * 3, 0);
  reserve(s, found, "alignment_5", granule, 5);
  reserve(s, found, "alignment_4096", granule, kPage);
  reserve(s, found, "alignment_65536", granule, kLargePage);
  reserve(s, found, "alignment_3_granules", granule, 3 * granule);
  reserve(s, found, "alignment_1GiB", granule, kGibibyte);
  reserve(s, found, "flags_1", granule, 0, 1);
  reserve(s, found, "flags_2", granule, 0, 2);
  reserve(s, found, "size_1TiB", kGibibyte * 1024, 0);
  reserve(s, found, "size_64TiB", kGibibyte * 1024 * 64, 0);
  CUdeviceptr address = 0;
  if (s.cu.cuMemAddressReserve(&address, 2 * granule, 0, 0, 0) == CUDA_SUCCESS) {
    found.add("free_half", s.cu.cuMemAddressFree(address, granule));
    found.add("free_second_half", s.cu.cuMemAddressFree(address + granule, granule));
    found.add("free_interior", s.cu.cuMemAddressFree(address + granule, 2 * granule));
    found.add("free", s.cu.cuMemAddressFree(address, 2 * granule));
    found.add("free_again", s.cu.cuMemAddressFree(address, 2 * granule));
  }
  return answer_json(found.text());
}

CUresult give_access(Session& s, CUdeviceptr address, std::size_t bytes, std::size_t count = 1) {
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = s.device();
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return s.cu.cuMemSetAccess(address, bytes, &access, count);
}

Answer mappings(Session& s) {
  const std::size_t granule = granularity_of(s);
  const Physical one(s, granule);
  const Physical two(s, 2 * granule);
  const Physical other(s, granule);
  CUdeviceptr base = 0;
  if (one.get() == 0 || two.get() == 0 || other.get() == 0 ||
      s.cu.cuMemAddressReserve(&base, 8 * granule, 0, 0, 0) != CUDA_SUCCESS) {
    return unanswered("no memory or no addresses");
  }
  JsonObject found;
  const auto map = [&](const char* name, CUdeviceptr address, std::size_t bytes, std::size_t offset,
                       CUmemGenericAllocationHandle handle, unsigned long long flags = 0) {
    const CUresult result = s.cu.cuMemMap(address, bytes, offset, handle, flags);
    found.add(name, result);
    if (result == CUDA_SUCCESS) {
      s.cu.cuMemUnmap(address, bytes);
    }
  };
  map("map.half", base, granule / 2, 0, one.get());
  map("map.granule_and_1", base, granule + 1, 0, two.get());
  map("map.at_4096", base + kPage, granule, 0, one.get());
  map("map.offset_4096", base, granule, kPage, two.get());
  map("map.offset_65536", base, granule, kLargePage, two.get());
  map("map.offset_granule", base, granule, granule, two.get());
  map("map.beyond_the_handle", base, 2 * granule, 0, one.get());
  map("map.size_0", base, 0, 0, one.get());
  map("map.flags_1", base, granule, 0, one.get(), 1);
  map("map.no_handle", base, granule, 0, 0);

  found.add("map.second_granule_of_two", s.cu.cuMemMap(base, 2 * granule, 0, two.get(), 0));
  map("map.over_mapped", base, granule, 0, one.get());
  map("map.over_mapped_half", base + granule, 2 * granule, 0, two.get());
  map("map.same_handle_elsewhere", base + 4 * granule, granule, 0, two.get());
  found.add("access.first_half", give_access(s, base, granule));
  found.add("access.second_half", give_access(s, base + granule, granule));
  found.add("access.whole", give_access(s, base, 2 * granule));
  found.add("access.count_0", give_access(s, base, 2 * granule, 0));
  found.add("access.size_0", give_access(s, base, 0));
  found.add("access.beyond", give_access(s, base, 4 * granule));
  found.add("map.neighbour", s.cu.cuMemMap(base + 2 * granule, granule, 0, one.get(), 0));
  found.add("access.both", give_access(s, base, 3 * granule));
  CUdeviceptr start = 0;
  std::size_t bytes = 0;
  found.add("range.of_second_granule",
            s.cu.cuMemGetAddressRange(&start, &bytes, base + granule + 1));
  found.add("range.begins_at", static_cast<std::int64_t>(start - base));
  found.add("range.bytes", static_cast<std::int64_t>(bytes));
  const auto number_of = [&](CUpointer_attribute attribute) -> std::int64_t {
    std::uint64_t value = 0;
    const CUresult result = s.cu.cuPointerGetAttribute(&value, attribute, base + granule + 1);
    return result == CUDA_SUCCESS ? static_cast<std::int64_t>(value) : -std::int64_t{result};
  };
  found.add("attribute.range_size", number_of(CU_POINTER_ATTRIBUTE_RANGE_SIZE));
  found.add("attribute.range_start_from_base",
            number_of(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR) - static_cast<std::int64_t>(base));
  found.add("attribute.mapping_size", number_of(CU_POINTER_ATTRIBUTE_MAPPING_SIZE));
  found.add("attribute.mapping_base_from_base",
            number_of(CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR) - static_cast<std::int64_t>(base));
  found.add("attribute.context_is_null",
            std::int64_t{number_of(CU_POINTER_ATTRIBUTE_CONTEXT) == 0 ? 1 : 0});
  found.add("attribute.memory_type", number_of(CU_POINTER_ATTRIBUTE_MEMORY_TYPE));
  found.add("attribute.legacy_ipc", number_of(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE));
  found.add("attribute.handle_types", number_of(CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES));

  found.add("address_free.while_mapped", s.cu.cuMemAddressFree(base, 8 * granule));
  found.add("unmap.half_of_one", s.cu.cuMemUnmap(base, granule));
  found.add("unmap.unaligned", s.cu.cuMemUnmap(base + kPage, granule));
  found.add("unmap.size_0", s.cu.cuMemUnmap(base, 0));
  found.add("unmap.both_and_a_hole", s.cu.cuMemUnmap(base, 4 * granule));
  found.add("unmap.both", s.cu.cuMemUnmap(base, 3 * granule));
  found.add("unmap.again", s.cu.cuMemUnmap(base, 3 * granule));
  found.add("address_free", s.cu.cuMemAddressFree(base, 8 * granule));
  return answer_json(found.text());
}

Answer physical_memory(Session& s) {
  const std::size_t granule = granularity_of(s);
  JsonObject found;
  CUmemAllocationProp properties = device_memory(s);
  const auto create = [&](const char* name, std::size_t bytes, unsigned long long flags = 0) {
    CUmemGenericAllocationHandle handle = 0;
    const CUresult result = s.cu.cuMemCreate(&handle, bytes, &properties, flags);
    found.add(name, result);
    if (result == CUDA_SUCCESS) {
      s.cu.cuMemRelease(handle);
    }
  };
  create("create.size_0", 0);
  create("create.half", granule / 2);
  create("create.granule_and_half", granule / 2 * 3);
  create("create.flags_1", granule, 1);
  properties.location.id = 99;
  create("create.no_such_device", granule);
  properties = device_memory(s);
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  create("create.as_file_descriptor", granule);
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
  create("create.for_fabric", granule);
  properties = device_memory(s);
  CUmemGenericAllocationHandle handle = 0;
  found.add("create", s.cu.cuMemCreate(&handle, granule, &properties, 0));
  found.add("release", s.cu.cuMemRelease(handle));
  found.add("release.again", s.cu.cuMemRelease(handle));
  s.cu.cuCtxSetCurrent(nullptr);
  found.add("create.no_context", s.cu.cuMemCreate(&handle, granule, &properties, 0));
  CUdeviceptr address = 0;
  found.add("reserve.no_context", s.cu.cuMemAddressReserve(&address, granule, 0, 0, 0));
  found.add("map.no_context", s.cu.cuMemMap(address, granule, 0, handle, 0));
  found.add("access.no_context", give_access(s, address, granule));
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  found.add("cuMemGetInfo.no_context", s.cu.cuMemGetInfo(&free_bytes, &total));
  found.add("unmap.no_context", s.cu.cuMemUnmap(address, granule));
  found.add("address_free.no_context", s.cu.cuMemAddressFree(address, granule));
  found.add("release.no_context", s.cu.cuMemRelease(handle));
  s.cu.cuCtxSetCurrent(s.context());
  std::size_t least = 0;
  std::size_t recommended = 0;
  s.cu.cuMemGetAllocationGranularity(&least, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  s.cu.cuMemGetAllocationGranularity(&recommended, &properties,
                                     CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
  found.add("granularity.minimum", static_cast<std::int64_t>(least));
  found.add("granularity.recommended", static_cast<std::int64_t>(recommended));
  return answer_json(found.text());
}

std::int64_t attribute_of(Session& s, CUmemoryPool pool, CUmemPool_attribute attribute) {
  cuuint64_t value = 0;
  const CUresult result = s.cu.cuMemPoolGetAttribute(pool, attribute, &value);
  return result == CUDA_SUCCESS ? static_cast<std::int64_t>(value) : -std::int64_t{result};
}

Answer pools(Session& s) {
  JsonObject found;
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = s.device();
  CUstream stream = nullptr;
  s.cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  CUmemoryPool pool = nullptr;
  found.add("create", s.cu.cuMemPoolCreate(&pool, &properties));
  for (const std::size_t bytes :
       {std::size_t{1}, std::size_t{1} << 20U, std::size_t{33} << 20U, std::size_t{65} << 20U}) {
    CUdeviceptr block = 0;
    const std::string name = "of_" + std::to_string(bytes);
    found.add((name + ".result").c_str(),
              s.cu.cuMemAllocFromPoolAsync(&block, bytes, pool, stream));
    s.cu.cuStreamSynchronize(stream);
    found.add((name + ".used").c_str(), attribute_of(s, pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
    found.add((name + ".reserved").c_str(),
              attribute_of(s, pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
    CUdeviceptr start = 0;
    std::size_t range = 0;
    found.add((name + ".range").c_str(), s.cu.cuMemGetAddressRange(&start, &range, block));
    found.add((name + ".range_bytes").c_str(), static_cast<std::int64_t>(range));
    found.add((name + ".range_before").c_str(), static_cast<std::int64_t>(block - start));
    s.cu.cuMemFreeAsync(block, stream);
    s.cu.cuStreamSynchronize(stream);
    found.add((name + ".reserved_after_free").c_str(),
              attribute_of(s, pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
  }
  const CUmemoryPool before = pool;
  CUdeviceptr block = 0;
  s.cu.cuMemAllocFromPoolAsync(&block, std::size_t{1} << 20U, pool, stream);
  s.cu.cuStreamSynchronize(stream);
  found.add("destroy_with_a_block", s.cu.cuMemPoolDestroy(pool));
  CUmemoryPool next = nullptr;
  s.cu.cuMemPoolCreate(&next, &properties);
  found.add("next_has_the_same_handle", std::int64_t{next == before ? 1 : 0});
  found.add("next_used", attribute_of(s, next, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
  found.add("free_of_a_destroyed_pools_block", s.cu.cuMemFreeAsync(block, stream));
  s.cu.cuStreamSynchronize(stream);
  found.add("next_used_then", attribute_of(s, next, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
  s.cu.cuMemPoolDestroy(next);
  properties.maxSize = (std::size_t{40} << 20U) + 1;
  CUmemoryPool bounded = nullptr;
  found.add("create_with_max_size", s.cu.cuMemPoolCreate(&bounded, &properties));
  std::int64_t given = 0;
  std::vector<CUdeviceptr> blocks;
  for (CUresult result = CUDA_SUCCESS; result == CUDA_SUCCESS && given < 256;) {
    result = s.cu.cuMemAllocFromPoolAsync(&block, std::size_t{1} << 20U, bounded, stream);
    if (result == CUDA_SUCCESS) {
      blocks.push_back(block);
      ++given;
    } else {
      found.add("max_size.refused_with", result);
    }
  }
  found.add("max_size_40MiB_and_1.gives_MiB", given);
  for (const CUdeviceptr each : blocks) {
    s.cu.cuMemFreeAsync(each, stream);
  }
  s.cu.cuStreamSynchronize(stream);
  s.cu.cuMemPoolDestroy(bounded);
  int types = 0;
  s.cu.cuDeviceGetAttribute(&types, CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, s.device());
  found.add("supported_handle_types", std::int64_t{types});
  CUmemoryPool standard = nullptr;
  s.cu.cuDeviceGetDefaultMemPool(&standard, s.device());
  found.add("default.release_threshold",
            attribute_of(s, standard, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD));
  s.cu.cuStreamDestroy(stream);
  return answer_json(found.text());
}

// Every attribute that the driver has a number for, by its number in cuda.h.
Answer device_attributes(Session& s) {
  JsonObject found;
  for (int attribute = 1; attribute < CU_DEVICE_ATTRIBUTE_MAX; ++attribute) {
    int value = 0;
    if (s.cu.cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(attribute), s.device()) ==
        CUDA_SUCCESS) {
      found.add(std::to_string(attribute).c_str(), std::int64_t{value});
    }
  }
  return answer_json(found.text());
}

// What a context takes of the device: the first of the process, and one more beside it.
Answer context_memory(Session& s) {
  JsonObject found;
  std::size_t before = 0;
  std::size_t after = 0;
  std::size_t total = 0;
  s.cu.cuMemGetInfo(&before, &total);
  found.add("total", static_cast<std::int64_t>(total));
  found.add("taken_with_the_first", static_cast<std::int64_t>(total - before));
  CUcontext const second = s.second_context();
  if (second != nullptr) {
    s.cu.cuMemGetInfo(&after, &total);
    found.add("taken_by_a_second", static_cast<std::int64_t>(before - after));
    s.cu.cuCtxDestroy(second);
    s.cu.cuMemGetInfo(&after, &total);
    found.add("left_by_its_end",
              static_cast<std::int64_t>(before) - static_cast<std::int64_t>(after));
  }
  std::size_t device_total = 0;
  s.cu.cuDeviceTotalMem(&device_total, s.device());
  found.add("cuDeviceTotalMem", static_cast<std::int64_t>(device_total));
  return answer_json(found.text());
}

}  // namespace

void add_argument_cases(Cases& cases) {
  cases.push_back(
      {"cuMemAddressReserve_arguments", reservations, Begins::kInContext, Kind::kMeasurement});
  cases.push_back({"cuMemMap_arguments", mappings, Begins::kInContext, Kind::kMeasurement});
  cases.push_back(
      {"cuMemCreate_arguments", physical_memory, Begins::kInContextAlone, Kind::kMeasurement});
  cases.push_back({"cuMemPool_arguments", pools, Begins::kInContextAlone, Kind::kMeasurement});
  cases.push_back({"device_attributes", device_attributes, Begins::kInContext, Kind::kMeasurement});
  cases.push_back({"context_memory", context_memory, Begins::kInContextAlone, Kind::kMeasurement});
}

}  // namespace probe
