// The real driver: its functions, and the routes from their addresses to our wrappers. Knows how
// the driver is found in the process; nothing of policies or arenas.
#pragma once

#include <atomic>
#include <cstddef>
#include <string_view>

#include "shim/driver/entry_points.h"

namespace cubfc {

// A thread may be cancelled inside a copy of the driver's, which unwinds it through our wrapper:
// that one is not noexcept.
constexpr bool is_copy(std::string_view name) {
  return name.starts_with("cuMemcpy");
}

// The wrappers, and the exported functions that jump to them (thunks.cpp): those are symbols of the
// driver's names, which cuda.h declares with other types in part, and in part defines as macros.
namespace wrapper {
extern "C" {
#define CUBFC_DECLARE(name, base, version, per_thread, parameters)             \
  CUresult cubfc_##name parameters noexcept(!is_copy(#name))                   \
      __attribute__((visibility("hidden")));                                   \
  CUresult exported_##name parameters noexcept(!is_copy(#name)) __asm__(#name) \
      __attribute__((visibility("default")));
CUBFC_ENTRY_POINTS(CUBFC_DECLARE)
#undef CUBFC_DECLARE
}
}  // namespace wrapper

// The driver's functions as it exports them. Tests fill it with others. A function that this driver
// does not have is nullptr.
struct DriverFunctions {
#define CUBFC_MEMBER(name, base, version, per_thread, parameters) \
  CUresult(*name) parameters = nullptr;
#define CUBFC_CALLED_MEMBER(name, parameters) CUresult(*name) parameters = nullptr;
  CUBFC_ENTRY_POINTS(CUBFC_MEMBER)
  CUBFC_CALLED_FUNCTIONS(CUBFC_CALLED_MEMBER)
#undef CUBFC_MEMBER
#undef CUBFC_CALLED_MEMBER
};

// What a driver call answered, for a message: "CUDA_ERROR_INVALID_VALUE".
const char* name_of(const DriverFunctions& driver, CUresult result) noexcept;

// An intercepted function as data.
struct EntryPoint {
  std::string_view name;
  std::string_view base;
  int version;
  bool per_thread;
  void* wrapper;  // as it is exported
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

// Our wrapper of this exported name, runtime entry points included; nullptr for a name that is not
// ours.
void* exported_wrapper(std::string_view name);

// Immutable once found, but for the routes that are learnt. Thread-safe; takes no lock, because it
// is asked for from inside dlsym.
class Driver {
 public:
  // The driver that the program has loaded, or nullptr as long as it has loaded none: cubfc never
  // loads one itself, because the program's may come from elsewhere (forward-compatibility
  // packages). `handle`, if not nullptr, is a dlopen handle in which to look for it, too.
  static const Driver* find(void* handle = nullptr);

  const DriverFunctions& call() const { return functions_; }
  int version() const { return version_; }

  // The wrapper for a real function's address, or the address itself.
  void* route(void* address) const;

  // Learns under which other addresses cuGetProcAddress gives the entry points of this base name,
  // if it is one of ours.
  void learn(std::string_view base) const;

 private:
  explicit Driver(void* handle);
  void add_route(void* address, void* wrapper) const;

  struct Route {
    std::atomic<void*> address{nullptr};
    std::atomic<void*> wrapper{nullptr};
  };
  // Every entry point, once by symbol and once by cuGetProcAddress.
  static constexpr std::size_t kMostRoutes = 2 * kEntryPointCount;

  DriverFunctions functions_;
  int version_ = 0;
  mutable Route routes_[kMostRoutes];
};

}  // namespace cubfc
