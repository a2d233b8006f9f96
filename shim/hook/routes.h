// The functions that cubfc exports, and the routes by which a program that asks the driver for one
// of its functions gets ours.
#pragma once

#include <atomic>
#include <cstddef>
#include <string_view>

#include "shim/driver/driver.h"

namespace cubfc {

// The wrappers, and the exported functions that jump to them (thunks.cpp): those are symbols of the
// driver's names, which cuda.h declares with other types in part, and in part defines as macros.
namespace wrapper {
extern "C" {
#define CUBFC_DECLARE(name, base, version, per_thread, parameters)        \
  CUresult cubfc_##name parameters __attribute__((visibility("hidden"))); \
  CUresult exported_##name parameters __asm__(#name) __attribute__((visibility("default")));
CUBFC_ENTRY_POINTS(CUBFC_DECLARE)
#undef CUBFC_DECLARE
}
}  // namespace wrapper

// An intercepted function as data.
struct EntryPoint {
  std::string_view name;
  std::string_view base;
  int version;
  bool per_thread;
  void* thunk;  // the function that we export under this name; it jumps to the wrapper
  // The real function's place in the table.
  void* (*real)(const DriverFunctions&);
};

// All of CUBFC_ENTRY_POINTS.
inline constexpr std::size_t kEntryPointCount = [] {
  std::size_t count = 0;
#define CUBFC_COUNT(name, base, version, per_thread, parameters) ++count;
  CUBFC_ENTRY_POINTS(CUBFC_COUNT)
#undef CUBFC_COUNT
  return count;
}();
struct EntryPoints {
  const EntryPoint* first;
  std::size_t count;
  const EntryPoint* begin() const { return first; }
  const EntryPoint* end() const { return first + count; }
};
EntryPoints entry_points();

// The address that we export under this name, cudaMalloc and cudaFree included; nullptr if none is.
void* exported_wrapper(std::string_view name);

// From the addresses of the driver's functions to our wrappers. Immutable once found, but for the
// addresses that are learnt. Thread-safe; takes no lock, because it is asked for from inside dlsym.
class Routes {
 public:
  // Those of Driver::find(handle); nullptr as long as there is no driver.
  static const Routes* find(void* handle = nullptr);

  // The wrapper for a real function's address, or the address itself.
  void* route(void* address) const;

  // Learns under which other addresses cuGetProcAddress gives the entry points of this base name,
  // if it is one of ours.
  void learn(std::string_view base) const;

 private:
  explicit Routes(const Driver& driver);
  void add_route(void* address, void* wrapper) const;

  struct Route {
    std::atomic<void*> address{nullptr};
    std::atomic<void*> wrapper{nullptr};
  };
  // Every entry point, once by symbol and once by cuGetProcAddress.
  static constexpr std::size_t kMostRoutes = 2 * kEntryPointCount;

  const Driver& driver_;
  mutable Route routes_[kMostRoutes];
};

}  // namespace cubfc
