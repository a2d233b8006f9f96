// The driver functions that cubfc exports, and the routes: which of them a program gets when it
// asks the driver for one of the driver's functions.
#pragma once

#include <atomic>
#include <cstddef>
#include <string_view>

#include "shim/driver/driver.h"

namespace cubfc {

// The wrappers (cubfc_NAME), and the exported functions that jump to them (thunks.cpp). The symbol
// of an exported function is the driver's name. In the source it is exported_NAME, because cuda.h
// declares some of the driver's names with other types, and defines others as macros.
namespace wrapper {
extern "C" {
#define CUBFC_DECLARE(name, base, version, per_thread, parameters)        \
  CUresult cubfc_##name parameters __attribute__((visibility("hidden"))); \
  CUresult exported_##name parameters __asm__(#name) __attribute__((visibility("default")));
CUBFC_ENTRY_POINTS(CUBFC_DECLARE)
#undef CUBFC_DECLARE
}
}  // namespace wrapper

// A row of CUBFC_ENTRY_POINTS, which explains the first four fields.
struct EntryPoint {
  std::string_view name;
  std::string_view base;
  int version;
  bool per_thread;
  void* thunk;  // the function that we export under this name; it jumps to the wrapper
  // Returns the driver's own function; nullptr if this driver does not have it.
  void* (*real)(const DriverFunctions&);
};

// All rows of CUBFC_ENTRY_POINTS.
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

// The function that this library exports under this name of the driver's or of the CUDA runtime's
// (runtime.h); nullptr if there is none.
void* exported_wrapper(std::string_view name);

// Maps the addresses of the driver's functions to the functions that cubfc exports in their place.
// Once found, a Routes object changes only by learn(), which adds addresses. Thread-safe; takes no
// lock, because dlsym calls it.
class Routes {
 public:
  // The routes of the driver that Driver::find(handle) finds; nullptr while it finds none, or
  // without host memory.
  static const Routes* find(void* handle = nullptr);

  // cubfc's function in place of the driver's at this address; any other address is returned as it
  // is.
  void* route(void* address) const;

  // As route(), for an address that the program gets for this name of the driver's. With
  // CUBFC_SLEEP it gets a gate in front of a function of the driver's that needs one
  // (sleep/gates.h).
  void* route_named(const char* name, void* address) const;

  // Called when the program has asked cuGetProcAddress for this base name. Asks cuGetProcAddress
  // for the address of each entry point of that name, and adds a route for that address. The
  // address may differ from that of the symbol.
  void learn(std::string_view base) const;

 private:
  explicit Routes(const Driver& driver);
  void add_route(void* address, void* wrapper) const;

  struct Route {
    std::atomic<void*> address{nullptr};
    std::atomic<void*> wrapper{nullptr};
  };
  // Each entry point has at most two addresses: by symbol and by cuGetProcAddress.
  static constexpr std::size_t kMostRoutes = 2 * kEntryPointCount;

  const Driver& driver_;
  mutable Route routes_[kMostRoutes];
};

}  // namespace cubfc
