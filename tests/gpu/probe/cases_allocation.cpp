// Allocating and freeing, rightly and wrongly.
#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

#include "cases.h"

namespace probe {
namespace {

constexpr std::size_t kBytes = 100000;

std::size_t total_of(Session& s) {
  std::size_t total = 0;
  s.cu.cuDeviceTotalMem(&total, s.device());
  return total;
}

Answer allocate(Session& s, std::size_t bytes) {
  CUdeviceptr block = 0;
  const CUresult result = s.cu.cuMemAlloc(&block, bytes);
  if (result == CUDA_SUCCESS) {
    s.cu.cuMemFree(block);
  }
  return answer(result);
}

// Takes the device in pieces, frees every second one, and asks for what is free in one piece.
Answer fragmented(Session& s) {
  if (!s.may_fill()) {
    return unanswered("needs the whole device, which only --may-fill allows");
  }
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  s.cu.cuMemGetInfo(&free_bytes, &total_bytes);
  const std::size_t piece = std::max<std::size_t>(free_bytes / 128, std::size_t{2} << 20U);
  std::vector<CUdeviceptr> blocks;
  for (CUdeviceptr block = s.block(piece); block != 0; block = s.block(piece)) {
    blocks.push_back(block);
  }
  for (std::size_t i = 0; i < blocks.size(); i += 2) {
    s.cu.cuMemFree(blocks[i]);
  }
  s.cu.cuMemGetInfo(&free_bytes, &total_bytes);
  Answer found = allocate(s, free_bytes / 2);
  for (std::size_t i = 1; i < blocks.size(); i += 2) {
    s.cu.cuMemFree(blocks[i]);
  }
  return found;
}

Answer pitched(Session& s, std::size_t width, std::size_t height, unsigned element,
               bool outputs = true) {
  CUdeviceptr block = 0;
  std::size_t pitch = 0;
  const CUresult result = s.cu.cuMemAllocPitch(outputs ? &block : nullptr,
                                               outputs ? &pitch : nullptr, width, height, element);
  if (result == CUDA_SUCCESS && block != 0) {
    s.cu.cuMemFree(block);
  }
  return answer(result);
}

Answer managed(Session& s, std::size_t bytes, unsigned flags) {
  CUdeviceptr block = 0;
  const CUresult result = s.cu.cuMemAllocManaged(&block, bytes, flags);
  if (result == CUDA_SUCCESS) {
    s.cu.cuMemFree(block);
  }
  return answer(result);
}

Answer allocate_async(Session& s, std::size_t bytes, bool output = true) {
  HeldStream stream(s.cu);
  CUdeviceptr block = 0;
  const CUresult result = s.cu.cuMemAllocAsync(output ? &block : nullptr, bytes, stream.get());
  if (result == CUDA_SUCCESS && block != 0) {
    s.cu.cuMemFreeAsync(block, stream.get());
  }
  return answer(result);
}

void add_allocations(Cases& cases) {
  cases.push_back({"cuMemAlloc.size_zero", [](Session& s) { return allocate(s, 0); }});
  cases.push_back({"cuMemAlloc.null_output",
                   [](Session& s) { return answer(s.cu.cuMemAlloc(nullptr, kBytes)); }});
  cases.push_back({"cuMemAlloc.no_context",
                   [](Session& s) {
                     s.cu.cuInit(0);
                     return allocate(s, kBytes);
                   },
                   Begins::kNothingDone});
  cases.push_back({"cuMemAlloc.not_initialized", [](Session& s) { return allocate(s, kBytes); },
                   Begins::kNothingDone});
  cases.push_back(
      {"cuMemAlloc.above_device", [](Session& s) { return allocate(s, total_of(s) + 1); }});
  cases.push_back({"cuMemAlloc.fragmented", fragmented});
  cases.push_back(
      {"cuMemAllocPitch.bad_element_size", [](Session& s) { return pitched(s, 100, 10, 3); }});
  cases.push_back({"cuMemAllocPitch.zero_width", [](Session& s) { return pitched(s, 0, 10, 4); }});
  cases.push_back(
      {"cuMemAllocPitch.zero_height", [](Session& s) { return pitched(s, 100, 0, 4); }});
  cases.push_back(
      {"cuMemAllocPitch.null_output", [](Session& s) { return pitched(s, 100, 10, 4, false); }});
  cases.push_back({"cuMemAllocPitch.above_device", [](Session& s) {
                     return pitched(s, std::size_t{1} << 20U, (total_of(s) >> 20U) + 1, 4);
                   }});
  cases.push_back(
      {"cuMemAllocPitch.width_too_large", [](Session& s) { return pitched(s, SIZE_MAX, 1, 4); }});
  cases.push_back({"cuMemAllocManaged.size_zero",
                   [](Session& s) { return managed(s, 0, CU_MEM_ATTACH_GLOBAL); }});
  cases.push_back(
      {"cuMemAllocManaged.bad_flags", [](Session& s) { return managed(s, kBytes, 77); }});
  cases.push_back({"cuMemAllocAsync.size_zero", [](Session& s) { return allocate_async(s, 0); }});
  cases.push_back({"cuMemAllocAsync.above_device",
                   [](Session& s) { return allocate_async(s, total_of(s) + 1); }});
  cases.push_back(
      {"cuMemAllocAsync.null_output", [](Session& s) { return allocate_async(s, kBytes, false); }});
}

// Both frees, called on the same things.
using Free = CUresult (*)(Session&, CUdeviceptr);

CUresult free_now(Session& s, CUdeviceptr address) {
  return s.cu.cuMemFree(address);
}

CUresult free_in_stream(Session& s, CUdeviceptr address) {
  HeldStream stream(s.cu);
  const CUresult result = s.cu.cuMemFreeAsync(address, stream.get());
  s.cu.cuStreamSynchronize(stream.get());
  return result;
}

Answer free_twice(Session& s, Free free) {
  const CUdeviceptr block = s.block();
  if (free(s, block) != CUDA_SUCCESS) {
    return unanswered("the first free failed");
  }
  return answer(free(s, block));
}

Answer free_interior(Session& s, Free free) {
  const CUdeviceptr block = s.block();
  Answer found = answer(free(s, block + 512));
  s.cu.cuMemFree(block);
  return found;
}

Answer free_host(Session& s, Free free) {
  std::vector<char> host(kBytes);
  return answer(free(s, address_of(host.data())));
}

Answer free_pinned(Session& s) {
  void* pinned = nullptr;
  s.cu.cuMemAllocHost(&pinned, kBytes);
  const CUresult result = s.cu.cuMemFree(address_of(pinned));
  if (result != CUDA_SUCCESS) {
    s.cu.cuMemFreeHost(pinned);
  }
  return answer(result);
}

Answer free_managed(Session& s) {
  CUdeviceptr block = 0;
  if (const CUresult error = s.cu.cuMemAllocManaged(&block, kBytes, CU_MEM_ATTACH_GLOBAL)) {
    return unanswered("cuMemAllocManaged: " + name_of(s.cu, error));
  }
  return answer(s.cu.cuMemFree(block));
}

Answer free_of_pool(Session& s) {
  HeldStream stream(s.cu);
  CUdeviceptr block = 0;
  if (const CUresult error = s.cu.cuMemAllocAsync(&block, kBytes, stream.get())) {
    return unanswered("cuMemAllocAsync: " + name_of(s.cu, error));
  }
  s.cu.cuStreamSynchronize(stream.get());
  return answer(s.cu.cuMemFree(block));
}

Answer free_without_context(Session& s) {
  const CUdeviceptr block = s.block();
  CUresult result = CUDA_SUCCESS;
  std::thread([&] { result = s.cu.cuMemFree(block); }).join();
  if (result != CUDA_SUCCESS) {
    s.cu.cuMemFree(block);
  }
  return answer(result);
}

Answer free_from_other_context(Session& s) {
  CUcontext const second = s.second_context();
  if (second == nullptr) {
    return unanswered("there is no second context on the device");
  }
  const CUdeviceptr block = s.block();
  s.cu.cuCtxSetCurrent(second);
  const CUresult result = s.cu.cuMemFree(block);
  s.cu.cuCtxSetCurrent(s.context());
  s.cu.cuCtxDestroy(second);
  return answer(result);
}

// Whether the reset of the primary context ends a pool that was made on its device.
Answer reset_ends_pools(Session& s) {
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, s.device()};
  CUmemoryPool pool = nullptr;
  if (const CUresult error = s.cu.cuMemPoolCreate(&pool, &properties)) {
    return unanswered("cuMemPoolCreate: " + name_of(s.cu, error));
  }
  CUcontext again = nullptr;
  s.cu.cuDevicePrimaryCtxReset(s.device());
  s.cu.cuDevicePrimaryCtxRetain(&again, s.device());
  s.cu.cuCtxSetCurrent(again);
  cuuint64_t bytes = 0;
  const CUresult known =
      s.cu.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes);
  if (known == CUDA_SUCCESS) {
    s.cu.cuMemPoolDestroy(pool);
  }
  return answer_json(known == CUDA_SUCCESS ? "false" : "true");
}

}  // namespace

void add_allocation_cases(Cases& cases) {
  add_allocations(cases);
  for (const auto& [function, free] :
       {std::pair<std::string, Free>{"cuMemFree", free_now}, {"cuMemFreeAsync", free_in_stream}}) {
    const Free call = free;
    cases.push_back({function + ".null", [call](Session& s) { return answer(call(s, 0)); }});
    cases.push_back({function + ".double", [call](Session& s) { return free_twice(s, call); }});
    cases.push_back(
        {function + ".interior", [call](Session& s) { return free_interior(s, call); }});
    cases.push_back(
        {function + ".host_pointer", [call](Session& s) { return free_host(s, call); }});
    cases.push_back(
        {function + ".garbage", [call](Session& s) { return answer(call(s, kGarbage)); }});
  }
  cases.push_back({"cuMemFreeAsync.plain_pointer",
                   [](Session& s) { return answer(free_in_stream(s, s.block())); }});
  cases.push_back({"cuMemFree.pinned_host_pointer", free_pinned});
  cases.push_back({"cuMemFree.managed", free_managed});
  cases.push_back({"cuMemFree.async_pointer", free_of_pool});
  cases.push_back({"cuMemFree.no_context", free_without_context});
  cases.push_back({"cuMemFree.other_context", free_from_other_context});
  cases.push_back({"cuDevicePrimaryCtxReset.ends_pools", reset_ends_pools, Begins::kInContextAlone,
                   Kind::kValue});
}

}  // namespace probe
