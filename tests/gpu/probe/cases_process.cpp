// Initialisation, contexts and devices.
#include <cstdlib>
#include <thread>

#include "cases.h"
#include "forked.h"

namespace probe {
namespace {

// A context that was destroyed a moment ago.
CUcontext destroyed_context(Session& s) {
  CUcontext const second = s.second_context();
  if (second != nullptr) {
    s.cu.cuCtxDestroy(second);
  }
  return second;
}

Answer current_context_destroyed(Session& s) {
  CUcontext const second = s.second_context();
  if (second == nullptr) {
    return unanswered("there is no second context on the device");
  }
  CUresult result = CUDA_SUCCESS;
  s.cu.cuCtxSetCurrent(second);
  std::thread([&] { s.cu.cuCtxDestroy(second); }).join();
  CUdeviceptr block = 0;
  result = s.cu.cuMemAlloc(&block, 4096);
  s.cu.cuCtxSetCurrent(s.context());
  return answer(result);
}

// A process that dies of the handle says nothing.
Answer garbage_stream(Session& s) {
  const Answer found = in_forked_child([&] {
    const CUresult error = s.start();
    return error != CUDA_SUCCESS ? error
                                 : s.cu.cuStreamSynchronize(reinterpret_cast<CUstream>(kGarbage));
  });
  return answer_json(found.result ? "false" : "true");
}

Answer no_device(Session& s) {
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  setenv("STANDIN_DEVICES", "0", 1);  // what the software driver is told this with
  return answer(s.cu.cuInit(0));
}

Answer without_context(Session& s, CUresult (*call)(const Driver&)) {
  if (const CUresult error = s.cu.cuInit(0)) {
    return unanswered("cuInit: " + name_of(s.cu, error));
  }
  return answer(call(s.cu));
}

CUresult get_memory_info(const Driver& cu) {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  return cu.cuMemGetInfo(&free_bytes, &total_bytes);
}

// Context of the second device, or the reason why there is none that can be reached.
struct Peer {
  CUcontext context = nullptr;
  std::string why;
};

Peer peer_of(Session& s) {
  int count = 0;
  s.cu.cuDeviceGetCount(&count);
  if (count < 2) {
    return {nullptr, "needs two devices"};
  }
  CUdevice device = 0;
  int can = 0;
  Peer peer;
  s.cu.cuDeviceGet(&device, 1);
  if (s.cu.cuDeviceCanAccessPeer(&can, s.device(), device) != CUDA_SUCCESS || can == 0 ||
      s.cu.cuDevicePrimaryCtxRetain(&peer.context, device) != CUDA_SUCCESS) {
    return {nullptr, "the second device cannot be reached from the first"};
  }
  return peer;
}

Answer enable_peer_twice(Session& s) {
  const Peer peer = peer_of(s);
  if (peer.context == nullptr) {
    return unanswered(peer.why);
  }
  if (const CUresult error = s.cu.cuCtxEnablePeerAccess(peer.context, 0)) {
    return unanswered("the first time: " + name_of(s.cu, error));
  }
  const CUresult result = s.cu.cuCtxEnablePeerAccess(peer.context, 0);
  s.cu.cuCtxDisablePeerAccess(peer.context);
  return answer(result);
}

Answer with_second_context(Session& s, CUresult (*call)(const Driver&, CUcontext)) {
  CUcontext const second = s.second_context();
  if (second == nullptr) {
    return unanswered("there is no second context on the device");
  }
  const CUresult result = call(s.cu, second);
  s.cu.cuCtxDestroy(second);
  return answer(result);
}

void add_any(Cases& cases) {
  cases.push_back({"any.not_initialized",
                   [](Session& s) {
                     int count = 0;
                     return answer(s.cu.cuDeviceGetCount(&count));
                   },
                   Begins::kNothingDone});
  cases.push_back({"any.no_context",
                   [](Session& s) {
                     return without_context(s,
                                            [](const Driver& cu) { return cu.cuCtxSynchronize(); });
                   },
                   Begins::kNothingDone});
  cases.push_back({"any.destroyed_context", current_context_destroyed, Begins::kInContextAlone});
  cases.push_back(
      {"any.forked_child",
       [](Session& s) { return in_forked_child([&] { return get_memory_info(s.cu); }); },
       Begins::kInContextAlone});
  cases.push_back({"any.bad_device", [](Session& s) {
                     std::size_t total = 0;
                     return answer(s.cu.cuDeviceTotalMem(&total, 12345));
                   }});
  cases.push_back({"any.bad_stream.crashes", garbage_stream, Begins::kNothingDone, Kind::kValue});
  cases.push_back({"any.destroyed_stream",
                   [](Session& s) {
                     CUstream stream = nullptr;
                     s.cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
                     s.cu.cuStreamDestroy(stream);
                     return answer(s.cu.cuStreamSynchronize(stream));
                   },
                   Begins::kInContextAlone});
  cases.push_back({"any.destroyed_event",
                   [](Session& s) {
                     CUevent event = nullptr;
                     s.cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
                     s.cu.cuEventDestroy(event);
                     return answer(s.cu.cuEventQuery(event));
                   },
                   Begins::kInContextAlone});
  cases.push_back(
      {"any.bad_event",
       [](Session& s) { return answer(s.cu.cuEventQuery(reinterpret_cast<CUevent>(kGarbage))); },
       Begins::kInContextAlone});
  cases.push_back({"any.destroyed_array",
                   [](Session& s) {
                     const CUDA_ARRAY3D_DESCRIPTOR shape{64, 32, 0, CU_AD_FORMAT_FLOAT, 1, 0};
                     CUmipmappedArray array = nullptr;
                     s.cu.cuMipmappedArrayCreate(&array, &shape, 4);
                     s.cu.cuMipmappedArrayDestroy(array);
                     return answer(s.cu.cuMipmappedArrayDestroy(array));
                   },
                   Begins::kInContextAlone});
  cases.push_back({"any.legacy_32_bit_form",
                   [](Session& s) {
                     if (s.cu.alloc_32_bit == nullptr) {
                       return unanswered("the driver has no such form any more");
                     }
                     unsigned block = 0;
                     return answer(s.cu.alloc_32_bit(&block, 4096));
                   },
                   Begins::kInContextAlone});
}

void add_context(Cases& cases) {
  cases.push_back({"cuCtxDestroy.destroyed",
                   [](Session& s) { return answer(s.cu.cuCtxDestroy(destroyed_context(s))); },
                   Begins::kInContextAlone});
  cases.push_back({"cuCtxSetCurrent.destroyed",
                   [](Session& s) { return answer(s.cu.cuCtxSetCurrent(destroyed_context(s))); },
                   Begins::kInContextAlone});
  cases.push_back({"cuCtxPushCurrent.destroyed",
                   [](Session& s) { return answer(s.cu.cuCtxPushCurrent(destroyed_context(s))); },
                   Begins::kInContextAlone});
  cases.push_back({"cuCtxDestroy.null",
                   [](Session& s) { return answer(s.cu.cuCtxDestroy(nullptr)); },
                   Begins::kInContextAlone});
  cases.push_back({"cuCtxPopCurrent.empty_stack",
                   [](Session& s) {
                     return without_context(s, [](const Driver& cu) {
                       CUcontext context = nullptr;
                       return cu.cuCtxPopCurrent(&context);
                     });
                   },
                   Begins::kNothingDone});
  cases.push_back({"cuDevicePrimaryCtxRelease.not_retained",
                   [](Session& s) {
                     return without_context(
                         s, [](const Driver& cu) { return cu.cuDevicePrimaryCtxRelease(0); });
                   },
                   Begins::kNothingDone});
  cases.push_back({"cuDevicePrimaryCtxReset.inactive",
                   [](Session& s) {
                     return without_context(
                         s, [](const Driver& cu) { return cu.cuDevicePrimaryCtxReset(0); });
                   },
                   Begins::kNothingDone});
}

}  // namespace

void add_process_cases(Cases& cases) {
  add_any(cases);
  cases.push_back({"cuInit.bad_flags", [](Session& s) { return answer(s.cu.cuInit(7)); },
                   Begins::kNothingDone});
  cases.push_back({"cuInit.no_device", no_device, Begins::kNothingDone});
  add_context(cases);
  cases.push_back({"cuCtxEnablePeerAccess.twice", enable_peer_twice, Begins::kInContextAlone});
  cases.push_back({"cuCtxEnablePeerAccess.same_device", [](Session& s) {
                     return with_second_context(s, [](const Driver& cu, CUcontext second) {
                       return cu.cuCtxEnablePeerAccess(second, 0);
                     });
                   }});
  cases.push_back({"cuCtxDisablePeerAccess.not_enabled", [](Session& s) {
                     return with_second_context(s, [](const Driver& cu, CUcontext second) {
                       return cu.cuCtxDisablePeerAccess(second);
                     });
                   }});
}

}  // namespace probe
