// cuMemCreate and its kin, handles of address ranges, and memory of the host.
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "cases.h"
#include "mapping.h"
#include "timing.h"

namespace probe {

CUmemAllocationProp device_memory(const Session& s) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = s.device();
  return properties;
}

std::size_t granularity_of(const Session& s) {
  const CUmemAllocationProp properties = device_memory(s);
  std::size_t granularity = 0;
  s.cu.cuMemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  return granularity;
}

MappedRange::MappedRange(const Session& session, std::size_t bytes)
    : cu_(session.cu), bytes_(bytes) {
  const CUmemAllocationProp properties = device_memory(session);
  error_ = cu_.cuMemCreate(&handle_, bytes, &properties, 0);
  created_ = error_ == CUDA_SUCCESS;
  if (!created_ || (error_ = cu_.cuMemAddressReserve(&address_, bytes, 0, 0, 0)) != CUDA_SUCCESS) {
    return;
  }
  error_ = cu_.cuMemMap(address_, bytes, 0, handle_, 0);
  mapped_ = error_ == CUDA_SUCCESS;
  CUmemAccessDesc access{};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  if (mapped_) {
    error_ = cu_.cuMemSetAccess(address_, bytes, &access, 1);
  }
}

MappedRange::~MappedRange() {
  if (mapped_) {
    cu_.cuMemUnmap(address_, bytes_);
  }
  if (address_ != 0) {
    cu_.cuMemAddressFree(address_, bytes_);
  }
  if (created_) {
    cu_.cuMemRelease(handle_);
  }
}

namespace {

// On a mapped range of one granule, or unanswered.
template <class Use>
Answer with_mapped_range(Session& s, const Use& use) {
  const MappedRange range(s, granularity_of(s));
  if (range.address() == 0) {
    return unanswered("no mapped range: " + name_of(s.cu, range.error()));
  }
  return answer(use(range.address()));
}

Answer create(Session& s, std::size_t bytes) {
  const CUmemAllocationProp properties = device_memory(s);
  CUmemGenericAllocationHandle handle = 0;
  const CUresult result = s.cu.cuMemCreate(&handle, bytes, &properties, 0);
  if (result == CUDA_SUCCESS) {
    s.cu.cuMemRelease(handle);
  }
  return answer(result);
}

Answer reserve(Session& s, std::size_t bytes, std::size_t alignment) {
  CUdeviceptr address = 0;
  const CUresult result = s.cu.cuMemAddressReserve(&address, bytes, alignment, 0, 0);
  if (result == CUDA_SUCCESS) {
    s.cu.cuMemAddressFree(address, bytes);
  }
  return answer(result);
}

// Maps one granule, the last of a handle, `offset` bytes into a reserved range, or into nothing
// where there is none.
Answer map_at(Session& s, bool reserved, std::size_t offset, std::size_t granules_of_handle = 1) {
  const std::size_t granule = granularity_of(s);
  const CUmemAllocationProp properties = device_memory(s);
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr address = CUdeviceptr{1} << 40U;
  const std::size_t bytes = granules_of_handle * granule;
  if (s.cu.cuMemCreate(&handle, bytes, &properties, 0) != CUDA_SUCCESS ||
      (reserved && s.cu.cuMemAddressReserve(&address, 2 * granule, 0, 0, 0) != CUDA_SUCCESS)) {
    return unanswered("no memory or no addresses");
  }
  const CUresult result = s.cu.cuMemMap(address + offset, granule, bytes - granule, handle, 0);
  if (result == CUDA_SUCCESS) {
    s.cu.cuMemUnmap(address + offset, granule);
  }
  if (reserved) {
    s.cu.cuMemAddressFree(address, 2 * granule);
  }
  s.cu.cuMemRelease(handle);
  return answer(result);
}

// Unmaps reserved addresses of which only the first granule is mapped.
Answer unmap_with_a_hole(Session& s) {
  const std::size_t granule = granularity_of(s);
  const CUmemAllocationProp properties = device_memory(s);
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr address = 0;
  if (s.cu.cuMemCreate(&handle, granule, &properties, 0) != CUDA_SUCCESS ||
      s.cu.cuMemAddressReserve(&address, 2 * granule, 0, 0, 0) != CUDA_SUCCESS ||
      s.cu.cuMemMap(address, granule, 0, handle, 0) != CUDA_SUCCESS) {
    return unanswered("no mapped range");
  }
  const CUresult result = s.cu.cuMemUnmap(address, 2 * granule);
  if (result != CUDA_SUCCESS) {
    s.cu.cuMemUnmap(address, granule);
  }
  s.cu.cuMemAddressFree(address, 2 * granule);
  s.cu.cuMemRelease(handle);
  return answer(result);
}

CUresult set_access(Session& s, CUdeviceptr address, std::size_t bytes, CUmemAccess_flags flags,
                    int device) {
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device;
  access.flags = flags;
  return s.cu.cuMemSetAccess(address, bytes, &access, 1);
}

// A write to memory that may only be read.
CUresult write_without_access(Session& s, CUdeviceptr address) {
  const char byte = 0;
  if (const CUresult error =
          set_access(s, address, granularity_of(s), CU_MEM_ACCESS_FLAGS_PROT_READ, s.device())) {
    return error;
  }
  return s.cu.cuMemcpyHtoD(address, &byte, 1);
}

// Whether unmapping waits for work that has nothing to do with the range.
Answer unmap_waits(Session& s) {
  constexpr int kHeldMs = 200;
  const CUmemAllocationProp properties = device_memory(s);
  const std::size_t granule = granularity_of(s);
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr address = 0;
  if (s.cu.cuMemCreate(&handle, granule, &properties, 0) != CUDA_SUCCESS ||
      s.cu.cuMemAddressReserve(&address, granule, 0, 0, 0) != CUDA_SUCCESS ||
      s.cu.cuMemMap(address, granule, 0, handle, 0) != CUDA_SUCCESS) {
    return unanswered("no mapped range");
  }
  Times times;
  {
    HeldStream stream(s.cu);
    stream.hold(kHeldMs);
    times.time([&] { return s.cu.cuMemUnmap(address, granule); });
  }
  s.cu.cuMemAddressFree(address, granule);
  s.cu.cuMemRelease(handle);
  return answer_json(times.median() > std::int64_t{kHeldMs} * 1000000 / 2 ? "true" : "false");
}

// Whether what was mapped goes with the context that was current when it was.
Answer context_takes_mappings(Session& s) {
  CUcontext const second = s.second_context();
  if (second == nullptr) {
    return unanswered("there is no second context on the device");
  }
  s.cu.cuCtxSetCurrent(second);
  const MappedRange range(s, granularity_of(s));
  s.cu.cuCtxSetCurrent(s.context());
  s.cu.cuCtxDestroy(second);
  if (range.address() == 0) {
    return unanswered("no mapped range: " + name_of(s.cu, range.error()));
  }
  CUmemGenericAllocationHandle handle = 0;
  const bool is_mapped = s.cu.cuMemRetainAllocationHandle(
                             &handle, reinterpret_cast<void*>(range.address())) == CUDA_SUCCESS;
  if (is_mapped) {
    s.cu.cuMemRelease(handle);
  }
  return answer_json(is_mapped ? "false" : "true");
}

void add_misuse(Cases& cases) {
  cases.push_back(
      {"cuMemCreate.unaligned", [](Session& s) { return create(s, granularity_of(s) + 1); }});
  cases.push_back({"cuMemCreate.above_device", [](Session& s) {
                     std::size_t total = 0;
                     s.cu.cuDeviceTotalMem(&total, s.device());
                     const std::size_t granule = granularity_of(s);
                     return create(s, (total / granule + 1) * granule);
                   }});
  cases.push_back({"cuMemAddressReserve.unaligned",
                   [](Session& s) { return reserve(s, granularity_of(s) - 1, 0); }});
  cases.push_back({"cuMemAddressReserve.size_zero", [](Session& s) { return reserve(s, 0, 0); }});
  cases.push_back({"cuMemAddressReserve.bad_alignment",
                   [](Session& s) { return reserve(s, granularity_of(s), 3); }});
  cases.push_back({"cuMemAddressReserve.null_output", [](Session& s) {
                     return answer(s.cu.cuMemAddressReserve(nullptr, granularity_of(s), 0, 0, 0));
                   }});
  cases.push_back({"cuMemMap.unaligned", [](Session& s) { return map_at(s, true, 4096); }});
  cases.push_back({"cuMemMap.not_reserved", [](Session& s) { return map_at(s, false, 0); }});
  cases.push_back({"cuMemMap.part_of_handle", [](Session& s) { return map_at(s, true, 0, 2); }});
  cases.push_back({"cuMemSetAccess.part_of_mapping", [](Session& s) {
                     const MappedRange range(s, 2 * granularity_of(s));
                     return range.address() == 0
                                ? unanswered("no mapped range: " + name_of(s.cu, range.error()))
                                : answer(set_access(s, range.address(), granularity_of(s),
                                                    CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
                                                    s.device()));
                   }});
  cases.push_back({"cuMemUnmap.with_a_hole", unmap_with_a_hole});
  cases.push_back({"cuPointerSetAttribute.mapped_range", [](Session& s) {
                     return with_mapped_range(s, [&](CUdeviceptr address) {
                       unsigned on = 1;
                       return s.cu.cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
                                                         address);
                     });
                   }});
  cases.push_back({"cuMemSetAccess.unaligned", [](Session& s) {
                     return with_mapped_range(s, [&](CUdeviceptr address) {
                       return set_access(s, address, granularity_of(s) / 2,
                                         CU_MEM_ACCESS_FLAGS_PROT_READWRITE, s.device());
                     });
                   }});
  cases.push_back({"cuMemSetAccess.bad_device", [](Session& s) {
                     return with_mapped_range(s, [&](CUdeviceptr address) {
                       return set_access(s, address, granularity_of(s),
                                         CU_MEM_ACCESS_FLAGS_PROT_READWRITE, 12345);
                     });
                   }});
  cases.push_back({"cuMemcpy.no_access",
                   [](Session& s) {
                     return with_mapped_range(
                         s, [&](CUdeviceptr address) { return write_without_access(s, address); });
                   },
                   Begins::kInContextAlone});
  cases.push_back(
      {"cuMemUnmap.synchronizes_context", unmap_waits, Begins::kInContext, Kind::kValue});
  cases.push_back(
      {"cuCtxDestroy.unmaps", context_takes_mappings, Begins::kInContextAlone, Kind::kValue});
  cases.push_back({"cuMemUnmap.not_mapped", [](Session& s) {
                     return answer(s.cu.cuMemUnmap(CUdeviceptr{1} << 40U, granularity_of(s)));
                   }});
  cases.push_back({"cuMemAddressFree.not_reserved", [](Session& s) {
                     return answer(s.cu.cuMemAddressFree(CUdeviceptr{1} << 40U, granularity_of(s)));
                   }});
  cases.push_back(
      {"cuMemImportFromShareableHandle.bad_descriptor",
       [](Session& s) {
         CUmemGenericAllocationHandle handle = 0;
         return answer(s.cu.cuMemImportFromShareableHandle(
             &handle, reinterpret_cast<void*>(-1L), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
       },
       Begins::kInContextAlone});
  cases.push_back({"cuMemRelease.garbage",
                   [](Session& s) { return answer(s.cu.cuMemRelease(kGarbage)); },
                   Begins::kInContextAlone});
}

CUresult range_handle(Session& s, CUdeviceptr address, std::size_t bytes) {
  int fd = -1;
  const CUresult result = s.cu.cuMemGetHandleForAddressRange(
      &fd, address, bytes, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
  return result;
}

// The second half of a block, where the whole has a handle.
Answer part_of_pool_memory(Session& s) {
  constexpr std::size_t kHalf = std::size_t{2} << 20U;
  const HeldStream stream(s.cu);
  CUdeviceptr block = 0;
  if (const CUresult error = s.cu.cuMemAllocAsync(&block, 2 * kHalf, stream.get())) {
    return unanswered("cuMemAllocAsync: " + name_of(s.cu, error));
  }
  s.cu.cuStreamSynchronize(stream.get());
  const CUresult whole = range_handle(s, block, 2 * kHalf);
  const CUresult part = range_handle(s, block + kHalf, kHalf);
  s.cu.cuMemFreeAsync(block, stream.get());
  return whole == CUDA_SUCCESS ? answer(part) : unanswered("of all of it: " + name_of(s.cu, whole));
}

void add_handles(Cases& cases) {
  cases.push_back({"cuMemRetainAllocationHandle.plain_pointer", [](Session& s) {
                     const CUdeviceptr block = s.block();
                     CUmemGenericAllocationHandle handle = 0;
                     const CUresult result =
                         s.cu.cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(block));
                     s.cu.cuMemFree(block);
                     return answer(result);
                   }});
  cases.push_back({"cuMemRetainAllocationHandle.not_mapped", [](Session& s) {
                     CUmemGenericAllocationHandle handle = 0;
                     return answer(s.cu.cuMemRetainAllocationHandle(
                         &handle, reinterpret_cast<void*>(kGarbage)));
                   }});
  cases.push_back({"cuMemGetHandleForAddressRange.unaligned", [](Session& s) {
                     const CUdeviceptr block = s.block();
                     const CUresult result = range_handle(s, block + 512, 1000);
                     s.cu.cuMemFree(block);
                     return answer(result);
                   }});
  cases.push_back({"cuMemGetHandleForAddressRange.not_device_memory", [](Session& s) {
                     constexpr std::size_t kPage = 4096;
                     void* const host = std::aligned_alloc(kPage, kPage);
                     const CUresult result = range_handle(s, address_of(host), kPage);
                     std::free(host);
                     return answer(result);
                   }});
  cases.push_back({"cuMemGetHandleForAddressRange.part_of_pool_memory", part_of_pool_memory});
  cases.push_back({"cuMemFree.mapped_range", [](Session& s) {
                     return with_mapped_range(
                         s, [&](CUdeviceptr address) { return s.cu.cuMemFree(address); });
                   }});
  cases.push_back({"cuIpcGetMemHandle.mapped_range", [](Session& s) {
                     return with_mapped_range(s, [&](CUdeviceptr address) {
                       CUipcMemHandle handle{};
                       return s.cu.cuIpcGetMemHandle(&handle, address);
                     });
                   }});
}

void add_host_memory(Cases& cases) {
  cases.push_back({"cuMemFreeHost.not_allocated", [](Session& s) {
                     std::vector<char> host(8192);
                     return answer(s.cu.cuMemFreeHost(host.data()));
                   }});
  cases.push_back({"cuMemHostRegister.twice", [](Session& s) {
                     constexpr std::size_t kPage = 4096;
                     void* const host = std::aligned_alloc(kPage, kPage);
                     Answer found = unanswered("the first registration failed");
                     if (s.cu.cuMemHostRegister(host, kPage, 0) == CUDA_SUCCESS) {
                       found = answer(s.cu.cuMemHostRegister(host, kPage, 0));
                       s.cu.cuMemHostUnregister(host);
                     }
                     std::free(host);
                     return found;
                   }});
  cases.push_back(
      {"cuMemFreeHost.null", [](Session& s) { return answer(s.cu.cuMemFreeHost(nullptr)); }});
  cases.push_back({"cuMemHostAlloc.size_zero", [](Session& s) {
                     void* pinned = nullptr;
                     return answer(s.cu.cuMemHostAlloc(&pinned, 0, 0));
                   }});
  cases.push_back({"cuMemHostAlloc.null_output",
                   [](Session& s) { return answer(s.cu.cuMemHostAlloc(nullptr, 4096, 0)); }});
  cases.push_back({"cuMemHostUnregister.null",
                   [](Session& s) { return answer(s.cu.cuMemHostUnregister(nullptr)); }});
  cases.push_back({"cuMemHostUnregister.interior", [](Session& s) {
                     constexpr std::size_t kPage = 4096;
                     auto* const host = static_cast<char*>(std::aligned_alloc(kPage, 2 * kPage));
                     Answer found = unanswered("the registration failed");
                     if (s.cu.cuMemHostRegister(host, 2 * kPage, 0) == CUDA_SUCCESS) {
                       found = answer(s.cu.cuMemHostUnregister(host + kPage));
                       s.cu.cuMemHostUnregister(host);
                     }
                     std::free(host);
                     return found;
                   }});
  cases.push_back({"cuMemHostUnregister.not_registered", [](Session& s) {
                     std::vector<char> host(8192);
                     return answer(s.cu.cuMemHostUnregister(host.data()));
                   }});
}

}  // namespace

void add_mapping_cases(Cases& cases) {
  add_misuse(cases);
  add_handles(cases);
  add_host_memory(cases);
}

}  // namespace probe
