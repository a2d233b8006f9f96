// CUPTI's callbacks of the driver's domain, as far as a tool needs them that asks who calls what.
// Knows of the driver only what it tells a watcher (standin.h).
#include "standin.h"

#include <cupti_callbacks.h>
#include <cupti_driver_cbid.h>
#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <unordered_map>

// What the handle points to. There is one, which is made once and never destroyed: calls that are
// under way use it when it has unsubscribed.
struct CUpti_Subscriber_st {
  std::atomic<CUpti_CallbackFunc> function{nullptr};  // nullptr: nobody has subscribed
  std::atomic<void*> user_data{nullptr};
  std::array<std::atomic<bool>, CUPTI_DRIVER_TRACE_CBID_SIZE> enabled{};
};

namespace {

using Ids = std::unordered_map<std::string_view, CUpti_CallbackId>;

// As in cupti_driver_cbid.h, which has every form of a function (cuMemAlloc, cuMemAlloc_v2).
const Ids& CallbackIds() {
  static const Ids* const ids = new Ids{
#define STANDIN_CALLBACK(symbol) {#symbol, CUPTI_DRIVER_TRACE_CBID_##symbol},
#include "callback_ids.inc"
#undef STANDIN_CALLBACK
  };
  return *ids;
}

std::mutex mutex;  // of who subscribes and what is enabled

CUpti_Subscriber_st& TheSubscriber() {
  static CUpti_Subscriber_st* const subscriber = new CUpti_Subscriber_st;
  return *subscriber;
}

void Deliver(const standin_call* call) {
  CUpti_Subscriber_st& subscriber = TheSubscriber();
  const CUpti_CallbackFunc function = subscriber.function.load(std::memory_order_acquire);
  const auto id = CallbackIds().find(call->symbol);
  if (!function || id == CallbackIds().end() || !subscriber.enabled[id->second]) return;
  int result = call->result ? *call->result : 0;
  CUpti_CallbackData data{};
  data.callbackSite = call->result ? CUPTI_API_EXIT : CUPTI_API_ENTER;
  data.functionName = call->symbol;
  data.functionReturnValue = call->result ? &result : nullptr;
  data.correlationData = call->correlation;
  data.correlationId = static_cast<std::uint32_t>(call->number);
  function(subscriber.user_data, CUPTI_CB_DOMAIN_DRIVER_API, id->second, &data);
}

// Only the software driver has it; the one that the program uses is loaded already.
bool WatchDriver(standin_watcher watcher) {
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (!driver) return false;
  const auto watch = reinterpret_cast<decltype(&standin_watch)>(dlsym(driver, "standin_watch"));
  if (watch) watch(watcher);
  return watch != nullptr;
}

// Calls `enable` if there is this subscriber.
template <typename Enable>
CUptiResult Change(CUpti_SubscriberHandle handle, CUpti_CallbackDomain domain, Enable enable) {
  const std::lock_guard lock(mutex);
  const bool known = handle == &TheSubscriber() && handle->function.load();
  if (!known || domain <= CUPTI_CB_DOMAIN_INVALID || domain >= CUPTI_CB_DOMAIN_SIZE) {
    return CUPTI_ERROR_INVALID_PARAMETER;
  }
  // Nothing ever happens in the other domains.
  return domain == CUPTI_CB_DOMAIN_DRIVER_API ? enable(handle->enabled) : CUPTI_SUCCESS;
}

}  // namespace

extern "C" {

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* out, CUpti_CallbackFunc callback,
                           void* user_data) {
  if (!out || !callback) return CUPTI_ERROR_INVALID_PARAMETER;
  const std::lock_guard lock(mutex);
  CUpti_Subscriber_st& subscriber = TheSubscriber();
  if (subscriber.function.load()) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  if (!WatchDriver(&Deliver)) return CUPTI_ERROR_NOT_INITIALIZED;
  for (std::atomic<bool>& enabled : subscriber.enabled) enabled = false;
  subscriber.user_data = user_data;
  subscriber.function.store(callback, std::memory_order_release);
  *out = &subscriber;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle handle) {
  const std::lock_guard lock(mutex);
  if (handle != &TheSubscriber() || !handle->function.load()) return CUPTI_ERROR_INVALID_PARAMETER;
  WatchDriver(nullptr);
  handle->function = nullptr;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiEnableCallback(std::uint32_t enable, CUpti_SubscriberHandle handle,
                                CUpti_CallbackDomain domain, CUpti_CallbackId id) {
  return Change(handle, domain, [&](auto& enabled) {
    if (id == 0 || id >= enabled.size()) return CUPTI_ERROR_INVALID_PARAMETER;
    enabled[id] = enable != 0;
    return CUPTI_SUCCESS;
  });
}

CUptiResult cuptiEnableDomain(std::uint32_t enable, CUpti_SubscriberHandle handle,
                              CUpti_CallbackDomain domain) {
  return Change(handle, domain, [&](auto& enabled) {
    for (std::atomic<bool>& each : enabled) each = enable != 0;
    return CUPTI_SUCCESS;
  });
}

// Of the results that are given here.
CUptiResult cuptiGetResultString(CUptiResult result, const char** out) {
  if (!out) return CUPTI_ERROR_INVALID_PARAMETER;
  switch (result) {
    case CUPTI_SUCCESS:
      *out = "CUPTI_SUCCESS";
      return CUPTI_SUCCESS;
    case CUPTI_ERROR_INVALID_PARAMETER:
      *out = "CUPTI_ERROR_INVALID_PARAMETER";
      return CUPTI_SUCCESS;
    case CUPTI_ERROR_NOT_INITIALIZED:
      *out = "CUPTI_ERROR_NOT_INITIALIZED";
      return CUPTI_SUCCESS;
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
      *out = "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED";
      return CUPTI_SUCCESS;
    default:
      return CUPTI_ERROR_INVALID_PARAMETER;
  }
}

}  // extern "C"
