// What tools get of the software driver: the library that it loads for them, and CUPTI's callbacks.
#include <cupti_callbacks.h>
#include <cupti_driver_cbid.h>
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "catch.h"
#include "test_device.h"

using standin_test::Device;

namespace {

// Initializes the driver in a child, before this process has. 0 if that succeeded.
int InitializeElsewhere(const char* injection, bool fails) {
  const pid_t child = fork();
  if (child == 0) {
    setenv("CUDA_INJECTION64_PATH", injection, 1);
    if (fails) setenv("INJECTED_FAILS", "1", 1);
    _exit(cuInit(0) == CUDA_SUCCESS ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

struct Elsewhere {
  int missing;
  int failing;
};

// Before the first Device of this process.
const Elsewhere& PrepareInjection() {
  static const Elsewhere elsewhere = [] {
    const Elsewhere found{InitializeElsewhere("/no/such/library.so", false),
                          InitializeElsewhere(STANDIN_INJECTED, true)};
    setenv("CUDA_INJECTION64_PATH", STANDIN_INJECTED, 1);
    return found;
  }();
  return elsewhere;
}

struct Told {
  CUpti_ApiCallbackSite site;
  std::string name;
  CUpti_CallbackId id;
  int result;  // -1 at the beginning
  std::uint64_t correlation_data;
  std::uint32_t correlation_id;
  std::thread::id thread;
};

class Subscriber {
 public:
  Subscriber() { REQUIRE(cuptiSubscribe(&handle_, &Tell, this) == CUPTI_SUCCESS); }
  ~Subscriber() { cuptiUnsubscribe(handle_); }
  Subscriber(const Subscriber&) = delete;
  Subscriber& operator=(const Subscriber&) = delete;

  CUpti_SubscriberHandle handle() const { return handle_; }

  std::vector<Told> told;

 private:
  static void Tell(void* self, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data) {
    if (domain != CUPTI_CB_DOMAIN_DRIVER_API) return;
    const auto& call = *static_cast<const CUpti_CallbackData*>(data);
    if (call.callbackSite == CUPTI_API_ENTER) *call.correlationData += 7;
    const int result = call.callbackSite == CUPTI_API_ENTER
                           ? -1
                           : *static_cast<const CUresult*>(call.functionReturnValue);
    static_cast<Subscriber*>(self)->told.push_back(
        {call.callbackSite, call.functionName, id, result, *call.correlationData,
         call.correlationId, std::this_thread::get_id()});
  }

  CUpti_SubscriberHandle handle_ = nullptr;
};

}  // namespace

TEST_CASE("cuInit loads the injection library once, and succeeds where it is missing or fails") {
  const Elsewhere& elsewhere = PrepareInjection();
  CHECK(elsewhere.missing == 0);
  CHECK(elsewhere.failing == 0);
  const Device device;
  REQUIRE(cuInit(0) == CUDA_SUCCESS);
  void* const library = dlopen(STANDIN_INJECTED, RTLD_LAZY | RTLD_NOLOAD);
  REQUIRE(library != nullptr);
  const auto times = reinterpret_cast<int (*)()>(dlsym(library, "times_initialized"));
  REQUIRE(times != nullptr);
  CHECK(times() == 1);
}

TEST_CASE("a subscriber is told of each call's beginning and end on the thread that makes it") {
  PrepareInjection();
  const Device device;
  Subscriber subscriber;
  REQUIRE(cuptiEnableDomain(1, subscriber.handle(), CUPTI_CB_DOMAIN_DRIVER_API) == CUPTI_SUCCESS);
  CUdeviceptr memory = 0;
  REQUIRE(cuMemAlloc_v2(&memory, 100) == CUDA_SUCCESS);
  REQUIRE(cuMemAlloc_v2(&memory, 0) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(subscriber.told.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    const Told& told = subscriber.told[i];
    CHECK(told.name == "cuMemAlloc_v2");
    CHECK(told.id == CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2);
    CHECK(told.site == (i % 2 == 0 ? CUPTI_API_ENTER : CUPTI_API_EXIT));
    CHECK(told.correlation_data == 7);
    CHECK(told.thread == std::this_thread::get_id());
  }
  CHECK(subscriber.told[1].result == CUDA_SUCCESS);
  CHECK(subscriber.told[3].result == CUDA_ERROR_INVALID_VALUE);
  CHECK(subscriber.told[0].correlation_id == subscriber.told[1].correlation_id);
  CHECK(subscriber.told[1].correlation_id != subscriber.told[2].correlation_id);
}

TEST_CASE("a subscriber is told of what it has enabled, and of a call that is made to fail") {
  PrepareInjection();
  const Device device;
  Subscriber subscriber;
  std::size_t free = 0;
  std::size_t total = 0;
  cuMemGetInfo_v2(&free, &total);
  CHECK(subscriber.told.empty());
  REQUIRE(cuptiEnableCallback(1, subscriber.handle(), CUPTI_CB_DOMAIN_DRIVER_API,
                              CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2) == CUPTI_SUCCESS);
  cuMemGetInfo_v2(&free, &total);
  CHECK(subscriber.told.empty());
  standin_fail("cuMemAlloc_v2", CUDA_ERROR_OUT_OF_MEMORY, 0, 1);
  CUdeviceptr memory = 0;
  cuMemAlloc_v2(&memory, 100);
  REQUIRE(subscriber.told.size() == 2);
  CHECK(subscriber.told[1].result == CUDA_ERROR_OUT_OF_MEMORY);
  REQUIRE(cuptiEnableCallback(0, subscriber.handle(), CUPTI_CB_DOMAIN_DRIVER_API,
                              CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2) == CUPTI_SUCCESS);
  cuMemAlloc_v2(&memory, 100);
  CHECK(subscriber.told.size() == 2);
}

TEST_CASE("there is one subscriber at a time, and one that has unsubscribed is told nothing more") {
  PrepareInjection();
  const Device device;
  CUpti_SubscriberHandle handle = nullptr;
  CUdeviceptr memory = 0;
  {
    Subscriber subscriber;
    cuptiEnableDomain(1, subscriber.handle(), CUPTI_CB_DOMAIN_DRIVER_API);
    const auto nothing = [](void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {};
    CHECK(cuptiSubscribe(&handle, nothing, nullptr) ==
          CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
    handle = subscriber.handle();
    REQUIRE(cuptiUnsubscribe(handle) == CUPTI_SUCCESS);
    cuMemAlloc_v2(&memory, 100);
    CHECK(subscriber.told.empty());
  }
  CHECK(cuptiUnsubscribe(handle) == CUPTI_ERROR_INVALID_PARAMETER);
  CHECK(cuptiEnableDomain(1, handle, CUPTI_CB_DOMAIN_DRIVER_API) == CUPTI_ERROR_INVALID_PARAMETER);
  const Subscriber next;  // what the one before had enabled is not
  cuMemAlloc_v2(&memory, 100);
  CHECK(next.told.empty());
}
