// What the driver's calls take, by size; one large block against many small ones; from which size
// the driver takes memory from the device for every allocation.
#include <cstdint>
#include <deque>
#include <vector>

#include "cases.h"
#include "json.h"
#include "mapping.h"
#include "timing.h"

namespace probe {
namespace {

constexpr std::size_t kMebibyte = std::size_t{1} << 20U;
constexpr int kHeldMs = 50;  // work that something may wait for

// What a measurement may take of the device at once: half of what is free, never above 60% of it
// all.
std::size_t budget(Session& s) {
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  s.cu.cuMemGetInfo(&free_bytes, &total);
  return std::min(free_bytes / 2, total / 10 * 6);
}

struct AllocationTimes {
  Times alloc;
  Times free;
};

AllocationTimes time_allocations(Session& s, std::size_t bytes, int rounds) {
  AllocationTimes times;
  for (int i = 0; i < rounds; ++i) {
    CUdeviceptr block = 0;
    if (times.alloc.time([&] { return s.cu.cuMemAlloc(&block, bytes); }) != CUDA_SUCCESS) {
      break;
    }
    times.free.time([&] { return s.cu.cuMemFree(block); });
  }
  return times;
}

Answer allocations_by_size(Session& s) {
  std::vector<std::string> rows;
  const std::size_t most = budget(s);
  for (std::size_t bytes = 512; bytes <= most; bytes *= 4) {
    AllocationTimes times = time_allocations(s, bytes, bytes < 64 * kMebibyte ? 31 : 5);
    rows.push_back(JsonObject()
                       .add("bytes", static_cast<std::int64_t>(bytes))
                       .add("alloc_ns", times.alloc.median())
                       .add("free_ns", times.free.median())
                       .text());
  }
  return answer_json(list_of(rows));
}

struct MappingTimes {
  Times create;
  Times map;
  Times access;
  Times unmap;
  Times release;  // after it was mapped
  Times release_unmapped;
};

MappingTimes time_mappings(Session& s, std::size_t bytes, int rounds) {
  MappingTimes times;
  const CUmemAllocationProp properties = device_memory(s);
  CUmemAccessDesc access{};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  for (int i = 0; i < rounds; ++i) {
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr address = 0;
    if (s.cu.cuMemAddressReserve(&address, bytes, 0, 0, 0) != CUDA_SUCCESS) {
      break;
    }
    const CUresult created =
        times.create.time([&] { return s.cu.cuMemCreate(&handle, bytes, &properties, 0); });
    if (created == CUDA_SUCCESS) {
      times.map.time([&] { return s.cu.cuMemMap(address, bytes, 0, handle, 0); });
      times.access.time([&] { return s.cu.cuMemSetAccess(address, bytes, &access, 1); });
      times.unmap.time([&] { return s.cu.cuMemUnmap(address, bytes); });
      times.release.time([&] { return s.cu.cuMemRelease(handle); });
    }
    s.cu.cuMemAddressFree(address, bytes);
    if (s.cu.cuMemCreate(&handle, bytes, &properties, 0) == CUDA_SUCCESS) {
      times.release_unmapped.time([&] { return s.cu.cuMemRelease(handle); });
    }
  }
  return times;
}

Answer mappings_by_size(Session& s) {
  std::vector<std::string> rows;
  const std::size_t most = budget(s);
  // By doubling: a region's, a held piece's and a page's sizes lie between the powers of four.
  for (std::size_t bytes = granularity_of(s); bytes != 0 && bytes <= most; bytes *= 2) {
    MappingTimes times = time_mappings(s, bytes, bytes < 64 * kMebibyte ? 15 : 3);
    rows.push_back(JsonObject()
                       .add("bytes", static_cast<std::int64_t>(bytes))
                       .add("create_ns", times.create.median())
                       .add("map_ns", times.map.median())
                       .add("set_access_ns", times.access.median())
                       .add("unmap_ns", times.unmap.median())
                       .add("release_ns", times.release.median())
                       .add("release_unmapped_ns", times.release_unmapped.median())
                       .text());
  }
  return answer_json(list_of(rows));
}

template <class Call>
std::int64_t median_of(const Call& call) {
  Times times;
  for (int i = 0; i < 501; ++i) {
    times.time(call);
  }
  return times.median();
}

// Without and with the wait for it, which is how a free waits once something has captured.
std::int64_t record_event_ns(Session& s, bool waits) {
  if (s.cu.record_context_event == nullptr) {
    return -1;
  }
  CUevent event = nullptr;
  s.cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
  const std::int64_t ns = median_of([&] {
    const CUresult result = s.cu.record_context_event(s.context(), event);
    return result == CUDA_SUCCESS && waits ? s.cu.cuEventSynchronize(event) : result;
  });
  s.cu.cuEventDestroy(event);
  return ns;
}

// Of physical memory that was never mapped, as a preallocation holds it. -1 without such memory.
std::int64_t release_ns(Session& s, std::size_t bytes) {
  const CUmemAllocationProp properties = device_memory(s);
  CUmemGenericAllocationHandle handle = 0;
  if (bytes == 0 || s.cu.cuMemCreate(&handle, bytes, &properties, 0) != CUDA_SUCCESS) {
    return -1;
  }
  Times times;
  times.time([&] { return s.cu.cuMemRelease(handle); });
  return times.median();
}

std::int64_t release_beside_work_ns(Session& s) {
  HeldStream stream(s.cu);
  stream.hold(kHeldMs);
  return release_ns(s, granularity_of(s));
}

// Until the memory is the device's again, in a stream of its own beside held work. -1 if the driver
// does not take it, or the device has not got it then.
std::int64_t free_async_beside_work_ns(Session& s) {
  const std::size_t bytes = 64 * kMebibyte;
  const CUdeviceptr block = s.block(bytes);
  std::size_t before = 0;
  std::size_t after = 0;
  std::size_t total = 0;
  HeldStream stream(s.cu);
  CUstream own = nullptr;
  s.cu.cuStreamCreate(&own, CU_STREAM_NON_BLOCKING);
  s.cu.cuMemGetInfo(&before, &total);
  stream.hold(kHeldMs);
  Times times;
  times.time([&] {
    const CUresult result = s.cu.cuMemFreeAsync(block, own);
    return result == CUDA_SUCCESS ? s.cu.cuStreamSynchronize(own) : result;
  });
  s.cu.cuMemGetInfo(&after, &total);
  s.cu.cuStreamDestroy(own);
  return after >= before + bytes ? times.median() : -1;
}

Answer other_calls(Session& s) {
  const CUdeviceptr block = s.block();
  CUevent event = nullptr;
  s.cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
  JsonObject row;
  row.add("cuCtxGetId_ns", median_of([&] {
            unsigned long long id = 0;
            return s.cu.cuCtxGetId(nullptr, &id);
          }));
  row.add("cuCtxGetCurrent_ns", median_of([&] {
            CUcontext current = nullptr;
            return s.cu.cuCtxGetCurrent(&current);
          }));
  row.add("cuCtxSynchronize_idle_ns", median_of([&] { return s.cu.cuCtxSynchronize(); }));
  row.add("cuCtxRecordEvent_ns", record_event_ns(s, false));
  row.add("cuCtxRecordEvent_and_cuEventSynchronize_idle_ns", record_event_ns(s, true));
  row.add("cuEventRecord_ns", median_of([&] { return s.cu.cuEventRecord(event, nullptr); }));
  row.add("cuEventQuery_ns", median_of([&] { return s.cu.cuEventQuery(event); }));
  row.add("cuMemRelease_unmapped_ns", release_ns(s, granularity_of(s)));
  row.add("cuMemRelease_unmapped_beside_work_ns", release_beside_work_ns(s));
  row.add("cuMemFreeAsync_of_cuMemAlloc_beside_work_ns", free_async_beside_work_ns(s));
  row.add("cuMemGetInfo_ns", median_of([&] {
            std::size_t free_bytes = 0;
            std::size_t total = 0;
            return s.cu.cuMemGetInfo(&free_bytes, &total);
          }));
  row.add("cuMemGetAddressRange_ns", median_of([&] {
            std::size_t bytes = 0;
            return s.cu.cuMemGetAddressRange(nullptr, &bytes, block);
          }));
  row.add("cuPointerGetAttribute_ns", median_of([&] {
            unsigned long long id = 0;
            return s.cu.cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, block);
          }));
  s.cu.cuEventDestroy(event);
  s.cu.cuMemFree(block);
  return answer_json(row.text());
}

// The same memory in one piece and in pieces.
std::string in_pieces(Session& s, std::size_t bytes, std::size_t piece) {
  std::vector<CUdeviceptr> blocks;
  blocks.reserve(bytes / piece);
  Times alloc;
  Times free;
  alloc.time([&] {
    for (std::size_t taken = 0; taken + piece <= bytes; taken += piece) {
      blocks.push_back(s.block(piece));
    }
    return 0;
  });
  free.time([&] {
    for (const CUdeviceptr block : blocks) {
      s.cu.cuMemFree(block);
    }
    return 0;
  });
  return JsonObject()
      .add("bytes", static_cast<std::int64_t>(bytes))
      .add("pieces", static_cast<std::int64_t>(blocks.size()))
      .add("alloc_ns", alloc.median())
      .add("free_ns", free.median())
      .text();
}

Answer one_or_many(Session& s) {
  const std::size_t piece = 32 * kMebibyte;
  const std::size_t bytes = budget(s) / piece * piece;
  if (bytes == 0) {
    return unanswered("too little memory is free");
  }
  return answer_json(list_of({in_pieces(s, bytes, bytes), in_pieces(s, bytes, piece)}));
}

// For each size, by how much the free memory goes down with each of some allocations: where the
// driver sub-allocates, most take nothing and one takes a chunk.
Answer taken_from_device(Session& s) {
  constexpr int kBlocks = 8;
  std::vector<std::string> rows;
  const auto free_now = [&] {
    std::size_t free_bytes = 0;
    std::size_t total = 0;
    s.cu.cuMemGetInfo(&free_bytes, &total);
    return free_bytes;
  };
  for (std::size_t bytes = 512; bytes <= 16 * kMebibyte && bytes * kBlocks < budget(s);
       bytes *= 2) {
    std::vector<CUdeviceptr> blocks;
    std::int64_t drops = 0;
    const std::size_t before = free_now();
    std::size_t last = before;
    for (int i = 0; i < kBlocks; ++i) {
      blocks.push_back(s.block(bytes));
      const std::size_t now = free_now();
      drops += now < last ? 1 : 0;
      last = now;
    }
    rows.push_back(JsonObject()
                       .add("bytes", static_cast<std::int64_t>(bytes))
                       .add("blocks", kBlocks)
                       .add("blocks_that_took_memory", drops)
                       .add("taken", static_cast<std::int64_t>(before - std::min(before, last)))
                       .text());
    for (const CUdeviceptr block : blocks) {
      s.cu.cuMemFree(block);
    }
  }
  return answer_json(list_of(rows));
}

// A program with a ring of large blocks of changing sizes, which fill so many percent of what was
// free: the oldest goes before the next comes. How many requests are refused although their sum is
// below that.
std::string ring_at(Session& s, std::size_t free_bytes, int percent) {
  constexpr std::size_t kBlocks = 16;
  constexpr int kRounds = 48;
  const std::size_t most = free_bytes / 100 * static_cast<std::size_t>(percent);
  struct Block {
    CUdeviceptr address;
    std::size_t bytes;
  };
  std::deque<Block> ring;
  std::size_t held = 0;
  std::int64_t refused = 0;
  std::uint32_t random = 1;
  const auto end_oldest = [&] {
    s.cu.cuMemFree(ring.front().address);
    held -= ring.front().bytes;
    ring.pop_front();
  };
  for (int i = 0; i < kRounds; ++i) {
    random = random * 1664525U + 1013904223U;
    const std::size_t bytes = most / kBlocks / 100 * (50 + (random >> 16U) % 100);
    while (ring.size() >= kBlocks || (held + bytes > most && !ring.empty())) {
      end_oldest();
    }
    if (const CUdeviceptr block = s.block(bytes); block != 0) {
      ring.push_back({block, bytes});
      held += bytes;
    } else {
      ++refused;
    }
  }
  while (!ring.empty()) {
    end_oldest();
  }
  return JsonObject()
      .add("percent", std::int64_t{percent})
      .add("requests", std::int64_t{kRounds})
      .add("refused", refused)
      .text();
}

Answer large_blocks_in_a_ring(Session& s) {
  if (!s.may_fill()) {
    return unanswered("needs the whole device, which only --may-fill allows");
  }
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  s.cu.cuMemGetInfo(&free_bytes, &total);
  std::vector<std::string> rows;
  for (const int percent : {80, 90, 95}) {
    rows.push_back(ring_at(s, free_bytes, percent));
  }
  return answer_json(list_of(rows));
}

Answer number(std::int64_t ns) {
  return ns < 0 ? unanswered("this driver cannot be timed so") : answer_json(std::to_string(ns));
}

}  // namespace

void add_timing_cases(Cases& cases) {
  const auto value = [&](const char* id, Answer (*run)(Session&)) {
    cases.push_back({id, run, Begins::kInContext, Kind::kValue});
  };
  value("latency.cuMemAlloc_ns",
        [](Session& s) { return number(time_allocations(s, 2 * kMebibyte, 101).alloc.median()); });
  value("latency.cuMemFree_ns",
        [](Session& s) { return number(time_allocations(s, 2 * kMebibyte, 101).free.median()); });
  value("latency.cuCtxRecordEvent_ns",
        [](Session& s) { return number(record_event_ns(s, false)); });
  value("latency.cuMemCreate_ns",
        [](Session& s) { return number(time_mappings(s, granularity_of(s), 51).create.median()); });
  value("latency.cuMemMap_ns",
        [](Session& s) { return number(time_mappings(s, granularity_of(s), 51).map.median()); });
  value("latency.cuMemSetAccess_ns",
        [](Session& s) { return number(time_mappings(s, granularity_of(s), 51).access.median()); });
  const auto measurement = [&](const char* id, Answer (*run)(Session&)) {
    cases.push_back({id, run, Begins::kInContext, Kind::kMeasurement});
  };
  measurement("allocations_by_size", allocations_by_size);
  measurement("mappings_by_size", mappings_by_size);
  measurement("other_calls", other_calls);
  measurement("one_block_or_many", one_or_many);
  measurement("taken_from_device", taken_from_device);
  measurement("large_blocks_in_a_ring", large_blocks_in_a_ring);
}

}  // namespace probe
