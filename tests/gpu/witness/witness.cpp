// A library that the CUDA driver loads by itself (CUDA_INJECTION64_PATH) and that asks CUPTI to be
// told of every driver call, so that cubfc's claim to see each allocation has a witness that does
// not depend on cubfc. At each call that gives device memory it looks who made it. One line of
// JSON, appended at the end of the process to the file that CUBFC_TEST_WITNESS names:
//
//   {"pid": 7, "program": "app",
//    "functions": {"cuMemAlloc_v2": {"by_cubfc": 2, "past_cubfc": 0, "unknown": 0}},
//    "stacks": [{"function": "cuMemAlloc_v2", "class": "past_cubfc", "frames": ["app: 0x1234",
//    ...]}]}
//
// or {"pid": 7, "program": "app", "error": "why"} where CUPTI is missing or refuses. A process that
// ends by _exit or a signal leaves no line. cubfc takes CUDA_INJECTION64_PATH for a tool's and
// passes every call on, unless CUBFC_ALLOCATOR is set: set it, to bfc if nothing else is meant.
#include <cupti.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "caller.h"
#include "record.h"

namespace {

std::atomic<witness::Record*> record{nullptr};

constexpr std::array<std::string_view, 9> kGiveDeviceMemory{"cuMemAlloc",
                                                            "cuMemAllocPitch",
                                                            "cuMemAllocManaged",
                                                            "cuMemAllocAsync",
                                                            "cuMemCreate",
                                                            "cuArrayCreate",
                                                            "cuArray3DCreate",
                                                            "cuMemAllocFromPoolAsync",
                                                            "cuMipmappedArrayCreate"};

// Whatever its suffix, _v2 or _ptsz or one that is yet to come.
bool gives_device_memory(std::string_view function) {
  const std::string_view base = function.substr(0, function.find('_'));
  for (const std::string_view name : kGiveDeviceMemory) {
    if (base == name) {
      return true;
    }
  }
  return false;
}

void CUPTIAPI at_call(void*, CUpti_CallbackDomain domain, CUpti_CallbackId, const void* data) {
  if (domain != CUPTI_CB_DOMAIN_DRIVER_API) {
    return;
  }
  const auto& call = *static_cast<const CUpti_CallbackData*>(data);
  if (call.callbackSite == CUPTI_API_ENTER && call.functionName != nullptr &&
      gives_device_memory(call.functionName)) {
    if (witness::Record* const made = record.load(std::memory_order_acquire)) {
      made->count(call.functionName, witness::find_caller());
    }
  }
}

// Empty, or why CUPTI does not tell us.
std::string subscribe(void* library) {
  const auto subscribe =
      reinterpret_cast<decltype(&cuptiSubscribe)>(dlsym(library, "cuptiSubscribe"));
  const auto enable =
      reinterpret_cast<decltype(&cuptiEnableDomain)>(dlsym(library, "cuptiEnableDomain"));
  const auto describe =
      reinterpret_cast<decltype(&cuptiGetResultString)>(dlsym(library, "cuptiGetResultString"));
  if (subscribe == nullptr || enable == nullptr || describe == nullptr) {
    return "the CUPTI that was found has not the functions that are needed";
  }
  const auto refusal = [&](const char* function, CUptiResult result) {
    const char* text = nullptr;
    describe(result, &text);
    return std::string(function) + ": " +
           (text == nullptr ? std::to_string(static_cast<int>(result)) : text);
  };
  CUpti_SubscriberHandle subscriber = nullptr;
  if (const CUptiResult result = subscribe(&subscriber, &at_call, nullptr);
      result != CUPTI_SUCCESS) {
    return refusal("cuptiSubscribe", result);
  }
  // The whole domain, and the choice by name: so a function that this header does not know is seen.
  const CUptiResult result = enable(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API);
  return result == CUPTI_SUCCESS ? "" : refusal("cuptiEnableDomain", result);
}

// One that the program has loaded already comes first, so that it is not there twice. One that is
// not for this driver refuses, and there may be another.
std::string subscribe_to_any() {
  std::vector<void*> tried;
  std::string errors;
  for (const int mode : {RTLD_NOW | RTLD_NOLOAD, RTLD_NOW}) {
    for (const char* name : {"libcupti.so.13", "libcupti.so.12", "libcupti.so"}) {
      void* const library = dlopen(name, mode);
      if (library == nullptr || std::find(tried.begin(), tried.end(), library) != tried.end()) {
        continue;
      }
      tried.push_back(library);
      witness::learn_objects();
      const std::string error = subscribe(library);
      if (error.empty()) {
        return "";
      }
      errors += (errors.empty() ? "" : "; ") + std::string(name) + ": " + error;
    }
  }
  return errors.empty() ? "no libcupti.so was found" : errors;
}

void begin(const std::string& path) {
  record.store(new witness::Record(path), std::memory_order_release);
  if (const std::string error = subscribe_to_any(); !error.empty()) {
    record.store(nullptr, std::memory_order_release);  // a thread may still use it
    witness::Record::write_error(path, error);
  }
}

void write_record() noexcept {
  if (witness::Record* const made = record.load(std::memory_order_acquire)) {
    made->write();
  }
}

// After exit handlers and the destructors of static objects, which may still allocate.
__attribute__((destructor)) void at_exit() noexcept {
  write_record();
}

}  // namespace

// CUPTI's samples: called by the driver in cuInit; 1 is success.
extern "C" __attribute__((visibility("default"))) int InitializeInjection() noexcept {
  static std::atomic<bool> begun{false};
  const char* const path = std::getenv("CUBFC_TEST_WITNESS");
  if (path == nullptr || *path == '\0' || begun.exchange(true)) {
    return 1;
  }
  try {
    begin(std::filesystem::absolute(path));  // the program may change its folder
    std::at_quick_exit(&write_record);
  } catch (...) {  // the program goes on without a witness
  }
  return 1;
}
