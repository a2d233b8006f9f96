#include "shim/hook/routes.h"

#include <array>
#include <new>

#include "shim/hook/runtime.h"
#include "shim/loader/loaded_objects.h"
#include "shim/process.h"
#include "shim/sleep/gates.h"
#include "shim/sleep/linked.h"

namespace cubfc {
namespace {

const std::array<EntryPoint, kEntryPointCount>& table() {
  static const std::array<EntryPoint, kEntryPointCount> kTable{{
#define CUBFC_ROW(name, base, version, per_thread, parameters)   \
  EntryPoint{#name,                                              \
             base,                                               \
             version,                                            \
             (per_thread) != 0,                                  \
             reinterpret_cast<void*>(&wrapper::exported_##name), \
             [](const DriverFunctions& f) { return reinterpret_cast<void*>(f.name); }},
      CUBFC_ENTRY_POINTS(CUBFC_ROW)
#undef CUBFC_ROW
  }};
  return kTable;
}

}  // namespace

EntryPoints entry_points() {
  return {table().data(), table().size()};
}

void* exported_wrapper(std::string_view name) {
  for (const EntryPoint& entry : table()) {
    if (entry.name == name) {
      return entry.thunk;
    }
  }
  if (is_sleep_library()) {
    if (void* const thunk = linked_thunk(name); thunk != nullptr) {
      return thunk;
    }
  }
  return runtime_wrapper(name);
}

// Takes no lock, as Driver::find(). Two threads may both build the table; one is kept.
const Routes* Routes::find(void* handle) {
  static std::atomic<const Routes*> found{nullptr};
  if (const Routes* routes = found.load(std::memory_order_acquire); routes != nullptr) {
    return routes;
  }
  const Driver* const driver = Driver::find(handle);
  const Routes* const made = driver == nullptr ? nullptr : new (std::nothrow) Routes(*driver);
  const Routes* expected = nullptr;
  if (made != nullptr &&
      !found.compare_exchange_strong(expected, made, std::memory_order_acq_rel)) {
    delete made;
    return expected;
  }
  return made;
}

Routes::Routes(const Driver& driver) : driver_(driver) {
  for (const EntryPoint& entry : entry_points()) {
    add_route(entry.real(driver_.call()), entry.thunk);
  }
}

void* Routes::route(void* address) const {
  for (const Route& route : routes_) {
    void* const known = route.address.load(std::memory_order_acquire);
    if (known == nullptr) {
      break;
    }
    if (known == address) {
      void* wrapper = nullptr;
      while ((wrapper = route.wrapper.load(std::memory_order_acquire)) == nullptr) {
        // Another thread is between the two stores of add_route.
      }
      return wrapper;
    }
  }
  return address;
}

void* Routes::route_named(const char* name, void* address) const {
  void* const routed = route(address);
  return routed == address && Process::can_sleep() &&
                 in_same_object(address, reinterpret_cast<void*>(driver_.call().cuMemAlloc_v2))
             ? gates::in_front_of(name, address)
             : routed;  // of ours: its thunk leads to a gate (gated_thunks.cpp)
}

void Routes::add_route(void* address, void* wrapper) const {
  if (address == nullptr) {
    return;
  }
  for (Route& route : routes_) {
    void* known = nullptr;
    if (route.address.compare_exchange_strong(known, address, std::memory_order_acq_rel)) {
      route.wrapper.store(wrapper, std::memory_order_release);
      return;
    }
    if (known == address) {
      return;
    }
  }
}

void Routes::learn(std::string_view base) const {
  // cuda.h: CU_GET_PROC_ADDRESS_LEGACY_STREAM, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM.
  constexpr cuuint64_t kLegacyStream = 1;
  constexpr cuuint64_t kPerThreadStream = 2;
  for (const EntryPoint& entry : entry_points()) {
    if (entry.base != base || entry.version > driver_.version()) {
      continue;
    }
    void* address = nullptr;
    const cuuint64_t flags = entry.per_thread ? kPerThreadStream : kLegacyStream;
    CUresult result = CUDA_ERROR_NOT_FOUND;
    if (driver_.call().cuGetProcAddress_v2 != nullptr) {
      CUdriverProcAddressQueryResult status{};
      result = driver_.call().cuGetProcAddress_v2(entry.base.data(), &address, entry.version, flags,
                                                  &status);
    }
    if (result == CUDA_SUCCESS) {
      add_route(address, entry.thunk);
    }
  }
}

}  // namespace cubfc
