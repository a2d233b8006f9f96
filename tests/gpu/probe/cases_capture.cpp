// What may be called while a stream captures, in each mode, from the capturing thread and from
// another, and whether the capture survives it.
#include <array>
#include <string>
#include <thread>

#include "cases.h"

namespace probe {
namespace {

// A stream, and what it captures.
class CapturingStream {
 public:
  explicit CapturingStream(Session& session, unsigned flags = CU_STREAM_NON_BLOCKING)
      : cu_(session.cu) {
    cu_.cuStreamCreate(&stream_, flags);
  }
  CapturingStream(const CapturingStream&) = delete;
  CapturingStream& operator=(const CapturingStream&) = delete;
  ~CapturingStream() {
    end();
    cu_.cuStreamDestroy(stream_);
  }

  CUresult begin(CUstreamCaptureMode mode) {
    const CUresult result = cu_.cuStreamBeginCapture(stream_, mode);
    capturing_ = result == CUDA_SUCCESS;
    return result;
  }

  CUresult end() {
    if (!capturing_) {
      return CUDA_SUCCESS;
    }
    CUgraph graph = nullptr;
    const CUresult result = cu_.cuStreamEndCapture(stream_, &graph);
    if (graph != nullptr) {
      cu_.cuGraphDestroy(graph);
    }
    capturing_ = false;
    return result;
  }

  [[nodiscard]] CUstream get() const { return stream_; }

 private:
  const Driver& cu_;
  CUstream stream_ = nullptr;
  bool capturing_ = false;
};

Answer with_survival(CUresult result, CapturingStream& stream) {
  Answer found = answer(result);
  found.capture_survives = stream.end() == CUDA_SUCCESS;
  return found;
}

// What a call needs that must be made before the capture begins.
struct Prepared {
  CUdeviceptr block = 0;
  CUevent event = nullptr;
  CUstream stream = nullptr;  // that captures nothing
  CUmemoryPool pool = nullptr;
  CUdeviceptr pooled = 0;  // from a pool
  CUdeviceptr taken = 0;   // from a pool, by the call
};

using Call = CUresult (*)(Session&, Prepared&);

CUresult call_alloc(Session& s, Prepared&) {
  CUdeviceptr block = 0;
  return s.cu.cuMemAlloc(&block, std::size_t{4} << 20U);
}
// In a stream that captures nothing.
CUresult call_alloc_async(Session& s, Prepared& prepared) {
  CUdeviceptr block = 0;
  const CUresult result = s.cu.cuMemAllocAsync(&block, std::size_t{4} << 20U, prepared.stream);
  if (result == CUDA_SUCCESS) {
    prepared.taken = block;
  }
  return result;
}
// Of a pool's memory, in a stream that captures nothing.
CUresult call_free_async(Session& s, Prepared& prepared) {
  const CUresult result = s.cu.cuMemFreeAsync(prepared.pooled, prepared.stream);
  if (result == CUDA_SUCCESS) {
    prepared.pooled = 0;
  }
  return result;
}
CUresult call_free(Session& s, Prepared& prepared) {
  const CUresult result = s.cu.cuMemFree(prepared.block);
  if (result == CUDA_SUCCESS) {
    prepared.block = 0;
  }
  return result;
}
CUresult call_info(Session& s, Prepared&) {
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  return s.cu.cuMemGetInfo(&free_bytes, &total);
}
CUresult call_range(Session& s, Prepared& prepared) {
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  return s.cu.cuMemGetAddressRange(&base, &bytes, prepared.block);
}
CUresult call_synchronize(Session& s, Prepared&) {
  return s.cu.cuCtxSynchronize();
}
CUresult call_record(Session& s, Prepared& prepared) {
  return s.cu.record_context_event(s.context(), prepared.event);
}
CUresult call_wait(Session& s, Prepared& prepared) {
  return s.cu.wait_context_event(s.context(), prepared.event);
}

CUresult call_query(Session& s, Prepared& prepared) {
  return s.cu.cuStreamQuery(prepared.stream);
}
CUresult call_stream_synchronize(Session& s, Prepared& prepared) {
  return s.cu.cuStreamSynchronize(prepared.stream);
}
CUresult call_event_query(Session& s, Prepared& prepared) {
  return s.cu.cuEventQuery(prepared.event);
}
CUresult call_event_synchronize(Session& s, Prepared& prepared) {
  return s.cu.cuEventSynchronize(prepared.event);
}
CUresult call_pool_get(Session& s, Prepared& prepared) {
  cuuint64_t bytes = 0;
  return s.cu.cuMemPoolGetAttribute(prepared.pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes);
}
CUresult call_pool_set(Session& s, Prepared& prepared) {
  cuuint64_t bytes = 0;
  return s.cu.cuMemPoolSetAttribute(prepared.pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &bytes);
}

CUresult call_graph_memory(Session& s, Prepared&) {
  cuuint64_t bytes = 0;
  return s.cu.cuDeviceGetGraphMemAttribute(s.device(), CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT,
                                           &bytes);
}

struct Function {
  const char* name;
  Call call;
  bool since_12_5;
};

constexpr std::array kFunctions = std::to_array<Function>({
    {"cuMemAlloc", call_alloc, false},
    {"cuMemAllocAsync", call_alloc_async, false},
    {"cuMemFree", call_free, false},
    {"cuMemFreeAsync", call_free_async, false},
    {"cuMemGetInfo", call_info, false},
    {"cuMemGetAddressRange", call_range, false},
    {"cuCtxSynchronize", call_synchronize, false},
    {"cuCtxRecordEvent", call_record, true},
    {"cuCtxWaitEvent", call_wait, true},
    {"cuStreamQuery", call_query, false},
    {"cuStreamSynchronize", call_stream_synchronize, false},
    {"cuEventQuery", call_event_query, false},
    {"cuEventSynchronize", call_event_synchronize, false},
    {"cuMemPoolGetAttribute", call_pool_get, false},
    {"cuMemPoolSetAttribute", call_pool_set, false},
    {"cuDeviceGetGraphMemAttribute", call_graph_memory, false},
});

struct Mode {
  const char* name;
  CUstreamCaptureMode mode;
};

constexpr std::array kModes = std::to_array<Mode>({
    {"global", CU_STREAM_CAPTURE_MODE_GLOBAL},
    {"thread_local", CU_STREAM_CAPTURE_MODE_THREAD_LOCAL},
    {"relaxed", CU_STREAM_CAPTURE_MODE_RELAXED},
});

Answer call_during_capture(Session& s, const Function& function, CUstreamCaptureMode mode,
                           bool other_thread) {
  if (function.since_12_5 &&
      (s.cu.record_context_event == nullptr || s.cu.wait_context_event == nullptr)) {
    return unanswered(std::string("the driver has no ") + function.name);
  }
  Prepared prepared;
  prepared.block = s.block();
  s.cu.cuEventCreate(&prepared.event, CU_EVENT_DISABLE_TIMING);
  s.cu.cuEventRecord(prepared.event, nullptr);
  s.cu.cuStreamCreate(&prepared.stream, CU_STREAM_NON_BLOCKING);
  s.cu.cuDeviceGetDefaultMemPool(&prepared.pool, s.device());
  s.cu.cuMemAllocAsync(&prepared.pooled, std::size_t{4} << 20U, prepared.stream);
  s.cu.cuCtxSynchronize();
  CapturingStream stream(s);
  if (const CUresult error = stream.begin(mode)) {
    return unanswered("cuStreamBeginCapture: " + name_of(s.cu, error));
  }
  CUresult result = CUDA_SUCCESS;
  if (other_thread) {
    std::thread([&] {
      s.cu.cuCtxSetCurrent(s.context());
      result = function.call(s, prepared);
    }).join();
  } else {
    result = function.call(s, prepared);
  }
  Answer found = with_survival(result, stream);
  for (const CUdeviceptr left : {prepared.pooled, prepared.taken}) {
    if (left != 0) {
      s.cu.cuMemFreeAsync(left, prepared.stream);
    }
  }
  s.cu.cuEventDestroy(prepared.event);
  s.cu.cuStreamDestroy(prepared.stream);
  if (prepared.block != 0) {
    s.cu.cuMemFree(prepared.block);
  }
  return found;
}

// A capture in the relaxed mode, so that only the call itself can be what is wrong.
template <class Body>
Answer while_capturing(Session& s, const Body& body, unsigned flags = CU_STREAM_NON_BLOCKING,
                       CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED) {
  CapturingStream stream(s, flags);
  if (const CUresult error = stream.begin(mode)) {
    return unanswered("cuStreamBeginCapture: " + name_of(s.cu, error));
  }
  return with_survival(body(stream.get()), stream);
}

Answer without_survival(Answer found) {
  found.capture_survives.reset();
  return found;
}

Answer with_captured_event(Session& s, CUresult (*call)(const Driver&, CUevent)) {
  CUevent event = nullptr;
  s.cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
  Answer found = while_capturing(s, [&](CUstream stream) {
    s.cu.cuEventRecord(event, stream);
    return call(s.cu, event);
  });
  s.cu.cuEventDestroy(event);
  return found;
}

void invalidate(Session& s, CUstream capturing) {
  s.cu.cuStreamSynchronize(capturing);
}

// A second stream that has joined the capture of the first by an event, and not gone back.
Answer end_with_fork(Session& s, bool of_fork) {
  CapturingStream origin(s);
  CapturingStream fork(s);
  CUevent event = nullptr;
  s.cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
  const CUdeviceptr block = s.block();
  origin.begin(CU_STREAM_CAPTURE_MODE_RELAXED);
  s.cu.cuEventRecord(event, origin.get());
  s.cu.cuStreamWaitEvent(fork.get(), event, 0);
  s.cu.cuMemsetD8Async(block, 0, 100, fork.get());
  CUresult result = CUDA_SUCCESS;
  if (of_fork) {
    CUgraph graph = nullptr;
    result = s.cu.cuStreamEndCapture(fork.get(), &graph);
  } else {
    result = origin.end();
  }
  origin.end();
  s.cu.cuEventDestroy(event);
  s.cu.cuMemFree(block);
  return answer(result);
}

// The end of a second stream that has joined the capture and gone back.
Answer destroy_joined_fork(Session& s) {
  CapturingStream origin(s);
  CUstream fork = nullptr;
  CUevent event = nullptr;
  s.cu.cuStreamCreate(&fork, CU_STREAM_NON_BLOCKING);
  s.cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
  const CUdeviceptr block = s.block();
  origin.begin(CU_STREAM_CAPTURE_MODE_RELAXED);
  s.cu.cuEventRecord(event, origin.get());
  s.cu.cuStreamWaitEvent(fork, event, 0);
  s.cu.cuMemsetD8Async(block, 0, 100, fork);
  s.cu.cuEventRecord(event, fork);
  s.cu.cuStreamWaitEvent(origin.get(), event, 0);
  s.cu.cuStreamDestroy(fork);
  const CUresult ended = origin.end();
  s.cu.cuEventDestroy(event);
  s.cu.cuMemFree(block);
  return answer_json(ended == CUDA_SUCCESS ? "true" : "false");
}

// In a capture; the call needs a stream that is not the legacy one.
Answer copy_batch(Session& s) {
#if CUDA_VERSION >= 12080
  if (s.cu.copy_batch == nullptr) {
    return unanswered("the driver has no cuMemcpyBatchAsync of CUDA 13");
  }
  CUdeviceptr to = s.block();
  CUdeviceptr from = s.block();
  CUmemcpyAttributes attributes{};
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  std::size_t bytes = 100;
  std::size_t first = 0;
  Answer found = while_capturing(s, [&](CUstream stream) {
    return s.cu.copy_batch(&to, &from, &bytes, 1, &attributes, &first, 1, stream);
  });
  s.cu.cuMemFree(to);
  s.cu.cuMemFree(from);
  return found;
#else
  (void)s;
  return unanswered("the probe was built with headers older than CUDA 12.8");
#endif
}

Answer end_from_other_thread(Session& s) {
  CapturingStream stream(s);
  stream.begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
  CUresult result = CUDA_SUCCESS;
  std::thread([&] {
    s.cu.cuCtxSetCurrent(s.context());
    CUgraph graph = nullptr;
    result = s.cu.cuStreamEndCapture(stream.get(), &graph);
  }).join();
  return answer(result);
}

Answer end_invalidated(Session& s) {
  CapturingStream stream(s);
  stream.begin(CU_STREAM_CAPTURE_MODE_RELAXED);
  invalidate(s, stream.get());
  return answer(stream.end());
}

// `from` is the stream in which the event was recorded before the capturing stream waits for it.
Answer wait_for_event_of(Session& s, bool other_capture) {
  CapturingStream from(s);
  CUevent event = nullptr;
  s.cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
  if (other_capture) {
    from.begin(CU_STREAM_CAPTURE_MODE_RELAXED);
  }
  s.cu.cuEventRecord(event, from.get());
  Answer found =
      while_capturing(s, [&](CUstream stream) { return s.cu.cuStreamWaitEvent(stream, event, 0); });
  from.end();
  s.cu.cuEventDestroy(event);
  return found;
}

Answer work_after_invalidation(Session& s) {
  const CUdeviceptr block = s.block();
  Answer found = without_survival(while_capturing(s, [&](CUstream stream) {
    invalidate(s, stream);
    return s.cu.cuMemsetD8Async(block, 0, 100, stream);
  }));
  s.cu.cuMemFree(block);
  return found;
}

// Something done with a block in the legacy stream, or in the capturing one.
Answer with_block(Session& s, CUresult (*call)(const Driver&, CUdeviceptr, CUstream),
                  unsigned flags, CUstreamCaptureMode mode) {
  const CUdeviceptr block = s.block();
  Answer found = while_capturing(
      s, [&](CUstream stream) { return call(s.cu, block, stream); }, flags, mode);
  s.cu.cuMemFree(block);
  return found;
}

void add_modes(Cases& cases) {
  for (const Mode& mode : kModes) {
    for (const bool other : {false, true}) {
      for (const Function& function : kFunctions) {
        cases.push_back({std::string("capture.") + mode.name + "." + function.name +
                             (other ? ".other_thread" : ".same_thread"),
                         [&function, value = mode.mode, other](Session& s) {
                           return call_during_capture(s, function, value, other);
                         }});
      }
    }
  }
}

void add_forbidden_calls(Cases& cases) {
  cases.push_back({"capture.stream_synchronize.capturing", [](Session& s) {
                     return while_capturing(
                         s, [&](CUstream stream) { return s.cu.cuStreamSynchronize(stream); });
                   }});
  cases.push_back({"capture.stream_query.capturing", [](Session& s) {
                     return while_capturing(
                         s, [&](CUstream stream) { return s.cu.cuStreamQuery(stream); });
                   }});
  cases.push_back({"capture.event_query.captured", [](Session& s) {
                     return with_captured_event(
                         s, [](const Driver& cu, CUevent event) { return cu.cuEventQuery(event); });
                   }});
  cases.push_back({"capture.event_synchronize.captured", [](Session& s) {
                     return with_captured_event(s, [](const Driver& cu, CUevent event) {
                       return cu.cuEventSynchronize(event);
                     });
                   }});
  cases.push_back({"capture.legacy_stream", [](Session& s) {
                     return with_block(
                         s,
                         [](const Driver& cu, CUdeviceptr block, CUstream) {
                           return cu.cuMemsetD8Async(block, 0, 100, CU_STREAM_LEGACY);
                         },
                         CU_STREAM_DEFAULT, CU_STREAM_CAPTURE_MODE_RELAXED);
                   }});
  cases.push_back({"capture.synchronous_copy", [](Session& s) {
                     return with_block(
                         s,
                         [](const Driver& cu, CUdeviceptr block, CUstream) {
                           const std::array<char, 100> host{};
                           return cu.cuMemcpyHtoD(block, host.data(), host.size());
                         },
                         CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_GLOBAL);
                   }});
  cases.push_back({"capture.cuMemFreeAsync.plain_pointer", [](Session& s) {
                     return without_survival(with_block(
                         s,
                         [](const Driver& cu, CUdeviceptr block, CUstream stream) {
                           return cu.cuMemFreeAsync(block, stream);
                         },
                         CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_RELAXED));
                   }});
}

void add_beginnings_and_ends(Cases& cases) {
  cases.push_back(
      {"capture.begin.legacy_stream", [](Session& s) {
         return answer(s.cu.cuStreamBeginCapture(CU_STREAM_LEGACY, CU_STREAM_CAPTURE_MODE_RELAXED));
       }});
  cases.push_back({"capture.begin.already_capturing", [](Session& s) {
                     return without_survival(while_capturing(s, [&](CUstream stream) {
                       return s.cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
                     }));
                   }});
  cases.push_back({"capture.end.not_capturing", [](Session& s) {
                     const CapturingStream stream(s);
                     CUgraph graph = nullptr;
                     return answer(s.cu.cuStreamEndCapture(stream.get(), &graph));
                   }});
  cases.push_back({"capture.end.null_output", [](Session& s) {
                     const CapturingStream stream(s);
                     return answer(s.cu.cuStreamEndCapture(stream.get(), nullptr));
                   }});
  cases.push_back({"capture.joined_stream_destroyed.survives", destroy_joined_fork,
                   Begins::kInContext, Kind::kValue});
  cases.push_back({"capture.cuMemcpyBatchAsync", copy_batch});
  cases.push_back({"capture.end.invalidated", end_invalidated});
  cases.push_back({"capture.end.unjoined", [](Session& s) { return end_with_fork(s, false); }});
  cases.push_back({"capture.end.forked_stream", [](Session& s) { return end_with_fork(s, true); }});
  cases.push_back({"capture.end.wrong_thread", end_from_other_thread});
  cases.push_back({"capture.work.invalidated", work_after_invalidation});
  cases.push_back(
      {"capture.wait_event.uncaptured", [](Session& s) { return wait_for_event_of(s, false); }});
  cases.push_back(
      {"capture.wait_event.other_capture", [](Session& s) { return wait_for_event_of(s, true); }});
  cases.push_back({"capture.info.legacy_stream_blocked", [](Session& s) {
                     return without_survival(while_capturing(
                         s,
                         [&](CUstream) {
                           CUstreamCaptureStatus status{};
                           return s.cu.cuStreamIsCapturing(CU_STREAM_LEGACY, &status);
                         },
                         CU_STREAM_DEFAULT));
                   }});
}

}  // namespace

void add_capture_cases(Cases& cases) {
  add_modes(cases);
  add_forbidden_calls(cases);
  add_beginnings_and_ends(cases);
}

}  // namespace probe
