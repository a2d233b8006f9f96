// Streams, events, copies and modules.
#include <thread>
#include <vector>

#include "cases.h"

namespace probe {
namespace {

class Event {
 public:
  explicit Event(const Driver& driver, unsigned flags = CU_EVENT_DEFAULT) : cu_(driver) {
    cu_.cuEventCreate(&event_, flags);
  }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { cu_.cuEventDestroy(event_); }

  [[nodiscard]] CUevent get() const { return event_; }

 private:
  const Driver& cu_;
  CUevent event_ = nullptr;
};

Answer query_busy_stream(Session& s) {
  HeldStream stream(s.cu);
  stream.hold();
  return answer(s.cu.cuStreamQuery(stream.get()));
}

Answer query_busy_event(Session& s) {
  const Event event(s.cu);
  HeldStream stream(s.cu);
  stream.hold();
  s.cu.cuEventRecord(event.get(), stream.get());
  return answer(s.cu.cuEventQuery(event.get()));
}

CUresult elapsed_time(Session& s, const Event& start, const Event& end) {
  float milliseconds = 0;
  return s.cu.cuEventElapsedTime(&milliseconds, start.get(), end.get());
}

Answer elapsed_busy(Session& s) {
  const Event start(s.cu);
  const Event end(s.cu);
  HeldStream stream(s.cu);
  s.cu.cuEventRecord(start.get(), stream.get());
  stream.hold();
  s.cu.cuEventRecord(end.get(), stream.get());
  return answer(elapsed_time(s, start, end));
}

Answer elapsed(Session& s, unsigned flags, bool record) {
  const Event start(s.cu, flags);
  const Event end(s.cu, flags);
  const HeldStream stream(s.cu);
  if (record) {
    s.cu.cuEventRecord(start.get(), stream.get());
    s.cu.cuEventRecord(end.get(), stream.get());
    s.cu.cuStreamSynchronize(stream.get());
  }
  return answer(elapsed_time(s, start, end));
}

// An event of one context, recorded in another.
Answer record_across_contexts(Session& s, bool in_context) {
  if (in_context && s.cu.record_context_event == nullptr) {
    return unanswered("the driver has no cuCtxRecordEvent");
  }
  CUcontext const second = s.second_context();
  if (second == nullptr) {
    return unanswered("there is no second context on the device");
  }
  s.cu.cuCtxSetCurrent(second);
  CUevent event = nullptr;
  s.cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
  s.cu.cuCtxSetCurrent(s.context());
  CUresult result = CUDA_SUCCESS;
  if (in_context) {
    result = s.cu.record_context_event(s.context(), event);
  } else {
    const HeldStream stream(s.cu);
    result = s.cu.cuEventRecord(event, stream.get());
  }
  s.cu.cuEventDestroy(event);
  s.cu.cuCtxDestroy(second);
  return answer(result);
}

// A module with one kernel that does nothing.
constexpr const char* kModule =
    ".version 6.4\n.target sm_70\n.address_size 64\n.visible .entry probe() { ret; }\n";

Answer function_not_found(Session& s) {
  CUmodule module = nullptr;
  if (const CUresult error = s.cu.cuModuleLoadData(&module, kModule)) {
    return unanswered("cuModuleLoadData: " + name_of(s.cu, error));
  }
  CUfunction function = nullptr;
  CUresult result = s.cu.cuModuleGetFunction(&function, module, "no_such_function");
  if (result == CUDA_SUCCESS) {
    // The software driver does not read modules: to it only this one is not there.
    result = s.cu.cuModuleGetFunction(&function, module, "");
  }
  s.cu.cuModuleUnload(module);
  return answer(result);
}

Answer library_without_context(Session& s) {
  CUlibrary library = nullptr;
  if (const CUresult error =
          s.cu.cuLibraryLoadData(&library, kModule, nullptr, nullptr, 0, nullptr, nullptr, 0)) {
    return unanswered("cuLibraryLoadData: " + name_of(s.cu, error));
  }
  CUresult result = CUDA_SUCCESS;
  std::thread([&] {
    CUmodule module = nullptr;
    result = s.cu.cuLibraryGetModule(&module, library);
  }).join();
  s.cu.cuLibraryUnload(library);
  return answer(result);
}

Answer unknown_export_table(Session& s) {
  CUuuid id{};
  for (char& byte : id.bytes) {
    byte = 0x5a;
  }
  const void* table = nullptr;
  return answer(s.cu.cuGetExportTable(&table, &id));
}

// One byte past the end of a block on its own, so that a wrong write would hit nobody else's.
Answer copy_past_end(Session& s) {
  constexpr std::size_t kBytes = std::size_t{4} << 20U;
  const CUdeviceptr block = s.block(kBytes);
  std::vector<char> host(2 * kBytes);
  const CUresult result = s.cu.cuMemcpyHtoD(block, host.data(), 2 * kBytes);
  s.cu.cuMemFree(block);
  return answer(result);
}

}  // namespace

void add_stream_cases(Cases& cases) {
  cases.push_back({"cuMemcpy.not_device_memory", copy_past_end, Begins::kInContextAlone});
  cases.push_back({"cuMemset.not_device_memory",
                   [](Session& s) { return answer(s.cu.cuMemsetD8(kGarbage, 0, 512)); },
                   Begins::kInContextAlone});
  cases.push_back({"cuStreamQuery.busy", query_busy_stream});
  cases.push_back({"cuEventQuery.busy", query_busy_event});
  cases.push_back({"cuEventElapsedTime.busy", elapsed_busy});
  cases.push_back({"cuEventElapsedTime.not_recorded",
                   [](Session& s) { return elapsed(s, CU_EVENT_DEFAULT, false); }});
  cases.push_back({"cuEventElapsedTime.timing_disabled",
                   [](Session& s) { return elapsed(s, CU_EVENT_DISABLE_TIMING, true); }});
  cases.push_back(
      {"cuEventRecord.other_context", [](Session& s) { return record_across_contexts(s, false); }});
  cases.push_back({"cuCtxRecordEvent.other_context",
                   [](Session& s) { return record_across_contexts(s, true); }});
  cases.push_back({"cuStreamDestroy.default_stream",
                   [](Session& s) { return answer(s.cu.cuStreamDestroy(nullptr)); },
                   Begins::kInContextAlone});
  cases.push_back({"cuModuleGetFunction.not_found", function_not_found});
  cases.push_back({"cuGetExportTable.any", unknown_export_table});
  cases.push_back(
      {"cuGetProcAddress.unknown", [](Session& s) {
         void* function = nullptr;
         return s.cu.old_proc_address == nullptr
                    ? unanswered("the driver has no such form any more")
                    : answer(s.cu.old_proc_address("cuNoSuchFunction", &function, CUDA_VERSION, 0));
       }});
  cases.push_back({"cuGetProcAddress_v2.unknown", [](Session& s) {
                     void* function = nullptr;
                     CUdriverProcAddressQueryResult status{};
                     return answer(s.cu.cuGetProcAddress("cuNoSuchFunction", &function,
                                                         CUDA_VERSION, 0, &status));
                   }});
  cases.push_back({"cuLibraryGetModule.no_context", library_without_context});
  cases.push_back({"cuKernelGetName.null",
                   [](Session& s) {
                     const char* name = nullptr;
                     return s.cu.kernel_name == nullptr
                                ? unanswered("the driver has no cuKernelGetName")
                                : answer(s.cu.kernel_name(&name, nullptr));
                   },
                   Begins::kInContextAlone});
}

}  // namespace probe
