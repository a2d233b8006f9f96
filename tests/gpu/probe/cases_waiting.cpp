// What a call that waits for work holds up: in one thread it waits, in another one each of a row of
// calls is made; and what else waits for a function of the host that has not returned.
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cases.h"
#include "json.h"
#include "mapping.h"
#include "timing.h"

namespace probe {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int kHeldMs = 60;
constexpr std::size_t kMebibyte = std::size_t{1} << 20U;

std::int64_t ms_since(steady_clock::time_point start) {
  return std::chrono::duration_cast<milliseconds>(steady_clock::now() - start).count();
}

struct Call {
  const char* name;
  std::function<void()> make;
};

// The calls that programs, and who serves their allocations, make beside a wait. Each is made once
// before, so that none is timed for what is done at first.
class Calls {
 public:
  explicit Calls(Session& s) : s_(s), granule_(granularity_of(s)), properties_(device_memory(s)) {
    s.cu.cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING);
    s.cu.cuEventCreate(&event_, CU_EVENT_DISABLE_TIMING);
    block_ = s.block(kMebibyte);
    s.cu.cuMemAllocHost(&pinned_, kMebibyte);
    for (const Call& call : all()) {
      call.make();
    }
  }
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;
  ~Calls() {
    s_.cu.cuStreamDestroy(stream_);
    s_.cu.cuEventDestroy(event_);
    s_.cu.cuMemFree(block_);
    s_.cu.cuMemFreeHost(pinned_);
  }

  std::vector<Call> all() {
    const Driver& cu = s_.cu;
    return {
        {"cuMemGetInfo",
         [&] {
           std::size_t free_bytes = 0;
           std::size_t total = 0;
           cu.cuMemGetInfo(&free_bytes, &total);
         }},
        {"cuMemAlloc",
         [&] {
           CUdeviceptr address = 0;
           cu.cuMemAlloc(&address, 4 * kMebibyte);
           left_.push_back(address);
         }},
        {"cuMemCreate", [&] { cu.cuMemCreate(&handle_, granule_, &properties_, 0); }},
        {"cuMemAddressReserve", [&] { cu.cuMemAddressReserve(&reserved_, granule_, 0, 0, 0); }},
        {"cuMemMap", [&] { cu.cuMemMap(reserved_, granule_, 0, handle_, 0); }},
        {"cuMemSetAccess",
         [&] {
           CUmemAccessDesc access{};
           access.location = properties_.location;
           access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
           cu.cuMemSetAccess(reserved_, granule_, &access, 1);
         }},
        {"cuMemUnmap", [&] { cu.cuMemUnmap(reserved_, granule_); }},
        {"cuMemAddressFree", [&] { cu.cuMemAddressFree(reserved_, granule_); }},
        {"cuMemRelease", [&] { cu.cuMemRelease(handle_); }},
        {"cuMemAllocAsync", [&] { cu.cuMemAllocAsync(&pooled_, kMebibyte, stream_); }},
        {"cuMemFreeAsync", [&] { cu.cuMemFreeAsync(pooled_, stream_); }},
        {"cuMemsetD8Async", [&] { cu.cuMemsetD8Async(block_, 1, kMebibyte, stream_); }},
        {"cuMemcpyHtoDAsync", [&] { cu.cuMemcpyHtoDAsync(block_, pinned_, kMebibyte, stream_); }},
        {"cuEventRecord", [&] { cu.cuEventRecord(event_, stream_); }},
        {"cuEventQuery", [&] { cu.cuEventQuery(event_); }},
        {"cuStreamSynchronize", [&] { cu.cuStreamSynchronize(stream_); }},
        {"cuCtxRecordEvent",
         [&] {
           if (cu.record_context_event != nullptr) {
             cu.record_context_event(s_.context(), event_);
           }
         }},
        {"cuStreamBeginCapture",  // and its end: while a stream captures nothing can wait
         [&] {
           CUgraph graph = nullptr;
           cu.cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_RELAXED);
           if (cu.cuStreamEndCapture(stream_, &graph) == CUDA_SUCCESS) {
             cu.cuGraphDestroy(graph);
           }
         }},
        {"cuPointerGetAttribute",
         [&] {
           unsigned long long id = 0;
           cu.cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, block_);
         }},
    };
  }
  void free_what_is_left() {
    for (const CUdeviceptr address : left_) {
      s_.cu.cuMemFree(address);
    }
    left_.clear();
  }

 private:
  Session& s_;
  std::size_t granule_;
  CUmemAllocationProp properties_;
  CUstream stream_ = nullptr;
  CUevent event_ = nullptr;
  CUdeviceptr block_ = 0;
  CUdeviceptr pooled_ = 0;
  CUdeviceptr reserved_ = 0;
  CUmemGenericAllocationHandle handle_ = 0;
  void* pinned_ = nullptr;
  std::vector<CUdeviceptr> left_;
};

// Which of the calls come back only with the one that waits; how long that one was in the driver.
Answer held_up_by(Session& s, const std::function<void(HeldStream&, CUdeviceptr)>& wait) {
  Calls calls(s);
  std::vector<std::string> held_up;
  std::vector<std::string> not_asked;  // the wait was over too soon
  std::int64_t waited_ms = 0;
  for (const Call& call : calls.all()) {
    const CUdeviceptr block = s.block(4 * kMebibyte);
    HeldStream stream(s.cu);
    stream.hold(kHeldMs);
    std::atomic<bool> begun{false};
    std::atomic<bool> over{false};
    const auto start = steady_clock::now();
    std::thread waiter([&] {
      s.cu.cuCtxSetCurrent(s.context());
      begun = true;
      wait(stream, block);
      over = true;
    });
    while (!begun) {
      std::this_thread::yield();
    }
    std::this_thread::sleep_for(milliseconds(10));  // until it waits in the driver
    const bool waits = !over;
    const auto before = steady_clock::now();
    call.make();
    const std::int64_t took = ms_since(before);
    if (!waits || took > kHeldMs / 3) {
      (waits ? held_up : not_asked).push_back("\"" + std::string(call.name) + "\"");
    }
    waiter.join();
    waited_ms = std::max(waited_ms, ms_since(start));
  }
  calls.free_what_is_left();
  return answer_json("{\"held_up\": " + list_of(held_up) + ", \"not_asked\": " +
                     list_of(not_asked) + ", \"waited_ms\": " + std::to_string(waited_ms) + "}");
}

// Whether a function of the host in one stream waits for one in another that has not returned.
Answer host_functions(Session& s) {
  HeldStream one(s.cu);
  CUstream other = nullptr;
  s.cu.cuStreamCreate(&other, CU_STREAM_NON_BLOCKING);
  one.hold(200);
  const auto start = steady_clock::now();
  s.cu.cuLaunchHostFunc(
      other, [](void* /*nothing*/) {}, nullptr);
  s.cu.cuStreamSynchronize(other);
  const std::int64_t ms = ms_since(start);
  s.cu.cuStreamDestroy(other);
  return answer_json(ms > 100 ? "true" : "false");
}

using StreamWaitValue = CUresult(CUDAAPI*)(CUstream, CUdeviceptr, cuuint32_t, unsigned);

// Whether the end of an idle context waits for work of another one: of a function of the host, and
// of a stream that waits for a value in memory.
Answer context_end_waits(Session& s, bool for_function) {
  CUcontext const second = s.second_context();
  const auto wait_value =
      reinterpret_cast<StreamWaitValue>(dlsym(s.cu.library, "cuStreamWaitValue32_v2"));
  if (second == nullptr || (!for_function && wait_value == nullptr)) {
    return unanswered("there is no second context, or no cuStreamWaitValue32");
  }
  const CUdeviceptr value = s.block(4096);
  s.cu.cuMemsetD8(value, 0, 4096);
  HeldStream stream(s.cu);
  CUstream writer = nullptr;
  s.cu.cuStreamCreate(&writer, CU_STREAM_NON_BLOCKING);
  s.cu.cuCtxSynchronize();
  if (for_function) {
    stream.hold(200);
  } else if (const CUresult error = wait_value(stream.get(), value, 1, CU_STREAM_WAIT_VALUE_GEQ)) {
    return unanswered("cuStreamWaitValue32: " + name_of(s.cu, error));
  }
  std::atomic<bool> ended{false};
  std::thread releaser([&] {
    s.cu.cuCtxSetCurrent(s.context());
    const auto start = steady_clock::now();
    while (!ended && ms_since(start) < 200) {
      std::this_thread::sleep_for(milliseconds(1));
    }
    s.cu.cuMemsetD8Async(value, 1, 4, writer);
  });
  const auto start = steady_clock::now();
  s.cu.cuCtxDestroy(second);
  const std::int64_t ms = ms_since(start);
  ended = true;
  releaser.join();
  s.cu.cuStreamSynchronize(stream.get());
  s.cu.cuStreamDestroy(writer);
  s.cu.cuMemFree(value);
  return answer_json(ms > 150 ? "true" : "false", std::to_string(ms) + " ms");
}

// How often what a copy from pageable memory wrote was not there yet when another stream read it:
// copied on to memory that is always there, to memory that a pool gave just before, and so after a
// wait for the copy's own stream.
std::int64_t early_copies(Session& s, bool to_pool, bool waits) {
  constexpr std::size_t kBytes = 300000;
  constexpr int kRounds = 100;
  const CUdeviceptr from = s.block(kBytes);
  const CUdeviceptr block = s.block(kBytes);
  CUstream stream = nullptr;
  s.cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  std::vector<unsigned char> host(kBytes);
  std::vector<unsigned char> back(kBytes);
  std::int64_t early = 0;
  for (int i = 0; i < kRounds; ++i) {
    host.assign(kBytes, static_cast<unsigned char>(i + 1));
    CUdeviceptr to = block;
    if (to_pool) {
      s.cu.cuMemAllocAsync(&to, kBytes, stream);
    }
    s.cu.cuMemcpyHtoD(from, host.data(), kBytes);
    if (waits) {
      s.cu.cuStreamSynchronize(CU_STREAM_LEGACY);
    }
    s.cu.cuMemcpyDtoDAsync(to, from, kBytes, stream);
    s.cu.cuStreamSynchronize(stream);
    s.cu.cuMemcpyDtoH(back.data(), to, kBytes);
    early += back != host ? 1 : 0;
    if (to_pool) {
      s.cu.cuMemFree(to);  // the pool gives its memory back, and takes it anew in the next round
    }
  }
  s.cu.cuStreamDestroy(stream);
  s.cu.cuMemFree(from);
  s.cu.cuMemFree(block);
  return early;
}

Answer copies_from_pageable_memory(Session& s) {
  return answer_json(JsonObject()
                         .add("of_100_too_early", early_copies(s, false, false))
                         .add("after_a_pools_allocation", early_copies(s, true, false))
                         .add("and_after_a_wait", early_copies(s, true, true))
                         .text());
}

// What cuPointerGetAttributes leaves in its outputs for an address that is nobody's.
Answer attributes_of_nothing(Session& s) {
  JsonObject found;
  const CUdeviceptr freed = s.block();
  s.cu.cuMemFree(freed);
  for (int attribute = 1; attribute <= 20; ++attribute) {
    auto which = static_cast<CUpointer_attribute>(attribute);
    std::array<std::int64_t, 8> value{};
    value.fill(0x5a5a5a5a5a5a5a5a);
    void* output = value.data();
    const CUresult result = s.cu.cuPointerGetAttributes(1, &which, &output, freed);
    const std::string name = std::to_string(attribute);
    found.add((name + ".result").c_str(), result);
    found.add((name + ".value").c_str(),
              value[0] == static_cast<std::int64_t>(freed) ? std::int64_t{-1} : value[0]);
  }
  return answer_json(found.text());
}

// Setting CU_POINTER_ATTRIBUTE_SYNC_MEMOPS on memory of each kind.
Answer sync_memops(Session& s) {
  JsonObject found;
  unsigned on = 1;
  const auto set = [&](const char* name, CUdeviceptr address) {
    found.add(name, s.cu.cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
  };
  const CUdeviceptr plain = s.block();
  set("cuMemAlloc", plain);
  s.cu.cuMemFree(plain);
  {
    const MappedRange mapped(s, granularity_of(s));
    set("mapped", mapped.address());
  }
  HeldStream stream(s.cu);
  CUdeviceptr pooled = 0;
  s.cu.cuMemAllocAsync(&pooled, 100000, stream.get());
  s.cu.cuStreamSynchronize(stream.get());
  set("pool", pooled);
  s.cu.cuMemFreeAsync(pooled, stream.get());
  CUdeviceptr managed = 0;
  s.cu.cuMemAllocManaged(&managed, 100000, CU_MEM_ATTACH_GLOBAL);
  set("managed", managed);
  s.cu.cuMemFree(managed);
  return answer_json(found.text());
}

}  // namespace

void add_waiting_cases(Cases& cases) {
  const auto add = [&](const char* id, auto run) {
    cases.push_back({id, run, Begins::kInContextAlone, Kind::kMeasurement});
  };
  add("held_up_by_cuMemFree", [](Session& s) {
    return held_up_by(s, [&](HeldStream&, CUdeviceptr block) { s.cu.cuMemFree(block); });
  });
  add("held_up_by_cuCtxSynchronize", [](Session& s) {
    return held_up_by(s, [&](HeldStream&, CUdeviceptr) { s.cu.cuCtxSynchronize(); });
  });
  add("held_up_by_cuStreamSynchronize", [](Session& s) {
    return held_up_by(
        s, [&](HeldStream& stream, CUdeviceptr) { s.cu.cuStreamSynchronize(stream.get()); });
  });
  add("held_up_by_cuEventSynchronize_of_cuCtxRecordEvent", [](Session& s) {
    return held_up_by(s, [&](HeldStream&, CUdeviceptr) {
      CUevent event = nullptr;
      s.cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
      if (s.cu.record_context_event != nullptr) {
        s.cu.record_context_event(s.context(), event);
        s.cu.cuEventSynchronize(event);
      }
      s.cu.cuEventDestroy(event);
    });
  });
  add("host_functions_wait_for_one_another", host_functions);
  add("cuCtxDestroy_waits_for_another_contexts_host_function",
      [](Session& s) { return context_end_waits(s, true); });
  add("cuCtxDestroy_waits_for_another_contexts_stream",
      [](Session& s) { return context_end_waits(s, false); });
  add("copies_from_pageable_memory", copies_from_pageable_memory);
  add("cuPointerGetAttributes_of_nothing", attributes_of_nothing);
  add("cuPointerSetAttribute_sync_memops", sync_memops);
}

}  // namespace probe
