// What is a number or a yes or no: alignments, granularities, what a free does.
#include <dlfcn.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <vector>

#include "cases.h"
#include "mapping.h"
#include "timing.h"

namespace probe {
namespace {

constexpr std::size_t kMebibyte = std::size_t{1} << 20U;

std::string number(std::uint64_t value) {
  return std::to_string(value);
}
std::string truth(bool value) {
  return value ? "true" : "false";
}

// The largest power of two that divides every address of some blocks of this size. Small blocks lie
// between them, so that it is not luck.
std::uint64_t alignment_of(Session& s, std::size_t bytes) {
  std::vector<CUdeviceptr> blocks;
  CUdeviceptr bits = 0;
  for (int i = 0; i < 8; ++i) {
    const CUdeviceptr block = s.block(bytes);
    if (block == 0) {
      break;
    }
    bits |= block;
    blocks.push_back(block);
    blocks.push_back(s.block(512));
  }
  for (const CUdeviceptr block : blocks) {
    s.cu.cuMemFree(block);
  }
  return bits == 0 ? 0 : std::uint64_t{1} << static_cast<unsigned>(std::countr_zero(bits));
}

Answer small_alignment(Session& s) {
  std::uint64_t smallest = UINT64_MAX;
  for (const std::size_t bytes : {1UL, 100UL, 513UL, 5000UL, 70000UL}) {
    smallest = std::min(smallest, alignment_of(s, bytes));
  }
  return answer_json(number(smallest));
}

constexpr std::size_t kLargest = 8 * kMebibyte;

Answer large_alignment(Session& s) {
  return answer_json(number(alignment_of(s, kLargest + 512)));
}

Answer large_from(Session& s) {
  const std::uint64_t wanted = alignment_of(s, kLargest + 512);
  std::size_t from = kLargest;
  for (std::size_t bytes = kLargest; bytes >= 512; bytes /= 2) {
    if (alignment_of(s, bytes) < wanted) {
      break;
    }
    from = bytes;
  }
  return answer_json(number(from));
}

// How near two blocks of one byte come to each other.
Answer rounding(Session& s) {
  std::vector<CUdeviceptr> blocks(64);
  std::ranges::generate(blocks, [&] { return s.block(1); });
  std::ranges::sort(blocks);
  CUdeviceptr nearest = ~CUdeviceptr{0};
  for (std::size_t i = 1; i < blocks.size(); ++i) {
    nearest = std::min(nearest, blocks[i] - blocks[i - 1]);
  }
  for (const CUdeviceptr block : blocks) {
    s.cu.cuMemFree(block);
  }
  return answer_json(number(nearest));
}

// By how much less is free after an allocation of one byte that needs memory of its own.
Answer accounting(Session& s) {
  std::vector<CUdeviceptr> blocks;
  std::size_t before = 0;
  std::size_t after = 0;
  std::size_t total = 0;
  std::size_t step = 0;
  s.cu.cuMemGetInfo(&before, &total);
  for (int i = 0; i < 10000 && step == 0; ++i) {
    blocks.push_back(s.block(64 << 10));
    s.cu.cuMemGetInfo(&after, &total);
    step = before - after;
  }
  for (const CUdeviceptr block : blocks) {
    s.cu.cuMemFree(block);
  }
  return step == 0 ? unanswered("nothing was taken from the device") : answer_json(number(step));
}

Answer pitch_alignment(Session& s) {
  CUdeviceptr block = 0;
  std::size_t pitch = 0;
  if (const CUresult error = s.cu.cuMemAllocPitch(&block, &pitch, 1, 2, 4)) {
    return unanswered("cuMemAllocPitch: " + name_of(s.cu, error));
  }
  s.cu.cuMemFree(block);
  return answer_json(number(pitch));
}

Answer reported_size(Session& s) {
  bool same = true;
  std::string note;
  for (const std::size_t bytes : {1UL, 1000UL, 100001UL, 5000001UL}) {
    const CUdeviceptr block = s.block(bytes);
    std::size_t reported = 0;
    s.cu.cuMemGetAddressRange(nullptr, &reported, block);
    s.cu.cuMemFree(block);
    same = same && reported == bytes;
    note += std::to_string(bytes) + " is reported as " + std::to_string(reported) + "; ";
  }
  return answer_json(truth(same), note);
}

Answer reset_handle(Session& s) {
  CUcontext again = nullptr;
  s.cu.cuDevicePrimaryCtxReset(s.device());
  s.cu.cuDevicePrimaryCtxRetain(&again, s.device());
  return answer_json(truth(again == s.context()));
}

Answer context_ids(Session& s) {
  std::vector<unsigned long long> ids(2);
  s.cu.cuCtxGetId(s.context(), &ids[0]);
  for (unsigned long long& id : ids) {
    CUcontext const second = s.second_context();
    if (second == nullptr) {
      return unanswered("there is no second context on the device");
    }
    s.cu.cuCtxGetId(second, &id);
    s.cu.cuCtxDestroy(second);
  }
  return answer_json(truth(ids[0] != ids[1]));
}

Answer id_of_current(Session& s) {
  unsigned long long ids[2] = {1, 2};
  s.cu.cuCtxGetId(s.context(), &ids[0]);
  s.cu.cuCtxGetId(nullptr, &ids[1]);
  return answer_json(truth(ids[0] == ids[1]));
}

#if CUDA_VERSION >= 12040
Answer id_of_green(Session& s) {
  const auto symbol = [&]<typename Function>(Function*& out, const char* name) {
    out = reinterpret_cast<Function*>(dlsym(s.cu.library, name));
    return out != nullptr;
  };
  decltype(&cuDeviceGetDevResource) get_resource = nullptr;
  decltype(&cuDevResourceGenerateDesc) describe = nullptr;
  decltype(&cuGreenCtxCreate) create = nullptr;
  decltype(&cuCtxFromGreenCtx) convert = nullptr;
  decltype(&cuGreenCtxDestroy) destroy = nullptr;
  CUdevResource all{};
  CUdevResourceDesc description = nullptr;
  CUgreenCtx green = nullptr;
  if (!symbol(get_resource, "cuDeviceGetDevResource") ||
      !symbol(describe, "cuDevResourceGenerateDesc") || !symbol(create, "cuGreenCtxCreate") ||
      !symbol(convert, "cuCtxFromGreenCtx") || !symbol(destroy, "cuGreenCtxDestroy") ||
      get_resource(s.device(), &all, CU_DEV_RESOURCE_TYPE_SM) != CUDA_SUCCESS ||
      describe(&description, &all, 1) != CUDA_SUCCESS ||
      create(&green, description, s.device(), CU_GREEN_CTX_DEFAULT_STREAM) != CUDA_SUCCESS) {
    return unanswered("this driver or device makes no green context");
  }
  CUcontext context = nullptr;
  unsigned long long ids[2] = {0, 0};
  convert(&context, green);
  s.cu.cuCtxGetId(s.context(), &ids[0]);
  s.cu.cuCtxGetId(context, &ids[1]);
  destroy(green);
  return answer_json(truth(ids[0] != ids[1]));
}
#else
Answer id_of_green(Session&) {
  return unanswered("built with headers that know no green contexts");
}
#endif

// What a driver tells of a limit of its own for this process cannot be asked without one.
Answer driver_limit(Session&) {
  return unanswered("needs a container that the driver limits (drivers from 615)");
}

// Whether a free waits for work of this context that has nothing to do with the block.
Answer free_waits_for(Session& s, CUcontext busy) {
  constexpr int kHeldMs = 200;
  const CUdeviceptr block = s.block(4 * kMebibyte);
  Times times;
  s.cu.cuCtxSetCurrent(busy);
  {
    HeldStream stream(s.cu);
    stream.hold(kHeldMs);
    s.cu.cuCtxSetCurrent(s.context());
    times.time([&] { return s.cu.cuMemFree(block); });
    s.cu.cuCtxSetCurrent(busy);
  }
  s.cu.cuCtxSetCurrent(s.context());
  return answer_json(truth(times.median() > std::int64_t{kHeldMs} * 1000000 / 2));
}

Answer free_waits(Session& s) {
  return free_waits_for(s, s.context());
}

Answer free_waits_for_second_context(Session& s) {
  CUcontext const second = s.second_context();
  if (second == nullptr) {
    return unanswered("there is no second context on the device");
  }
  Answer result = free_waits_for(s, second);
  s.cu.cuCtxDestroy(second);
  return result;
}

// Of a device that is no peer: access is not enabled.
Answer free_waits_for_second_device(Session& s) {
  int count = 0;
  CUdevice device = 0;
  CUcontext other = nullptr;
  s.cu.cuDeviceGetCount(&count);
  if (count < 2) {
    return unanswered("needs two devices");
  }
  if (s.cu.cuDeviceGet(&device, 1) != CUDA_SUCCESS ||
      s.cu.cuDevicePrimaryCtxRetain(&other, device) != CUDA_SUCCESS) {
    return unanswered("the second device has no context");
  }
  Answer result = free_waits_for(s, other);
  s.cu.cuDevicePrimaryCtxRelease(device);
  return result;
}

// In the legacy stream behind work of a blocking one.
Answer set_waits_for_host_memory(Session& s) {
  constexpr int kHeldMs = 200;
  void* pinned = nullptr;
  if (const CUresult error = s.cu.cuMemHostAlloc(&pinned, 4096, 0)) {
    return unanswered("cuMemHostAlloc: " + name_of(s.cu, error));
  }
  Times times;
  {
    HeldStream stream(s.cu, CU_STREAM_DEFAULT);
    stream.hold(kHeldMs);
    times.time([&] { return s.cu.cuMemsetD8(address_of(pinned), 1, 4096); });
  }
  s.cu.cuMemFreeHost(pinned);
  return answer_json(truth(times.median() > std::int64_t{kHeldMs} * 1000000 / 2));
}

Answer pool_memory_without_context(Session& s) {
  const HeldStream stream(s.cu);
  CUdeviceptr block = 0;
  CUcontext context = nullptr;
  if (const CUresult error = s.cu.cuMemAllocAsync(&block, 4096, stream.get())) {
    return unanswered("cuMemAllocAsync: " + name_of(s.cu, error));
  }
  s.cu.cuStreamSynchronize(stream.get());
  const CUresult result = s.cu.cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, block);
  s.cu.cuMemFreeAsync(block, stream.get());
  return result == CUDA_SUCCESS ? answer_json(truth(context == nullptr))
                                : unanswered("cuPointerGetAttribute: " + name_of(s.cu, result));
}

// Whether a pool's bytes in use go down when cuMemFree takes a block back.
Answer free_lowers_use(Session& s) {
  const HeldStream stream(s.cu);
  CUmemoryPool pool = nullptr;
  s.cu.cuDeviceGetDefaultMemPool(&pool, s.device());
  const auto used = [&] {
    cuuint64_t bytes = 0;
    s.cu.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &bytes);
    return bytes;
  };
  CUdeviceptr block = 0;
  if (const CUresult error = s.cu.cuMemAllocAsync(&block, std::size_t{4} << 20U, stream.get())) {
    return unanswered("cuMemAllocAsync: " + name_of(s.cu, error));
  }
  s.cu.cuStreamSynchronize(stream.get());
  const cuuint64_t before = used();
  s.cu.cuMemFree(block);
  s.cu.cuCtxSynchronize();
  return answer_json(truth(used() < before));
}

Answer unknown_host_pointer(Session& s) {
  const CUdeviceptr block = s.block();
  s.cu.cuMemFree(block);
  CUdeviceptr found = 0;
  CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_HOST_POINTER;
  void* output = &found;
  s.cu.cuPointerGetAttributes(1, &attribute, &output, block);
  return answer_json(truth(found == block));
}

Answer unknown_range(Session& s) {
  constexpr std::uint64_t kUntouched = 0x5a5a5a5a5a5a5a5a;
  const CUdeviceptr block = s.block();
  s.cu.cuMemFree(block);
  std::array attributes{CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
  std::array<std::uint64_t, 2> found{kUntouched, kUntouched};
  std::array<void*, 2> outputs{&found[0], &found[1]};
  s.cu.cuPointerGetAttributes(2, attributes.data(), outputs.data(), block);
  return answer_json(truth(found[0] == kUntouched && found[1] == kUntouched));
}

Answer free_keeps_bytes(Session& s) {
  constexpr std::size_t kBytes = 100000;
  std::vector<unsigned char> read(kBytes);
  for (int attempt = 0; attempt < 20; ++attempt) {
    const CUdeviceptr block = s.block(kBytes);
    s.cu.cuMemsetD8(block, 0xa5, kBytes);
    s.cu.cuMemFree(block);
    const CUdeviceptr again = s.block(kBytes);
    s.cu.cuMemcpyDtoH(read.data(), again, kBytes);
    s.cu.cuMemFree(again);
    if (again == block) {
      return answer_json(
          truth(std::ranges::all_of(read, [](unsigned char c) { return c == 0xa5; })));
    }
  }
  return unanswered("no address was given out again");
}

Answer interior_handle(Session& s) {
  const CUdeviceptr block = s.block(kMebibyte);
  CUipcMemHandle base{};
  CUipcMemHandle interior{};
  const bool given = s.cu.cuIpcGetMemHandle(&base, block) == CUDA_SUCCESS &&
                     s.cu.cuIpcGetMemHandle(&interior, block + 4096) == CUDA_SUCCESS;
  s.cu.cuMemFree(block);
  if (!given) {
    return unanswered("there is no handle for an interior pointer");
  }
  return answer_json(truth(std::memcmp(&base, &interior, sizeof(base)) == 0));
}

}  // namespace

void add_value_cases(Cases& cases) {
  const auto add = [&](const char* id, Answer (*run)(Session&),
                       Begins begins = Begins::kInContext) {
    cases.push_back({id, run, begins, Kind::kValue});
  };
  add("address.alignment", small_alignment);
  add("address.large_alignment", large_alignment);
  add("address.large_from", large_from);
  add("size.rounding", rounding);
  add("size.accounting", accounting);
  add("cuMemset.waits_for_host_memory", set_waits_for_host_memory);
  add("cuPointerGetAttribute.pool_memory_has_no_context", pool_memory_without_context);
  add("cuMemFree.lowers_the_use_of_a_pool", free_lowers_use);
  add("cuPointerGetAttributes.unknown_is_its_own_host_pointer", unknown_host_pointer);
  add("cuPointerGetAttributes.unknown_leaves_the_range", unknown_range);
  add("pitch.alignment", pitch_alignment);
  add("cuMemGetAddressRange.reports_requested_size", reported_size);
  add("cuDevicePrimaryCtxReset.handle_reused", reset_handle, Begins::kInContextAlone);
  add("cuCtxGetId.unique", context_ids, Begins::kInContextAlone);
  add("cuCtxGetId.of_nullptr_is_that_of_the_current", id_of_current);
  add("cuCtxGetId.of_green_is_its_own", id_of_green, Begins::kInContextAlone);
  add("driver_limit.lowers_free", driver_limit);
  add("driver_limit.lowers_total", driver_limit);
  add("cuMemFree.synchronizes_context", free_waits);
  add("cuMemFree.synchronizes_other_contexts", free_waits_for_second_context);
  add("cuMemFree.synchronizes_other_devices", free_waits_for_second_device);
  add("cuMemFree.keeps_bytes", free_keeps_bytes);
  add("vmm.granularity", [](Session& s) { return answer_json(number(granularity_of(s))); });
  add("ipc.handle_of_interior_equals_base", interior_handle);
}

}  // namespace probe
