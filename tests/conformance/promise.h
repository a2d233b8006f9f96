// The words in which promises are written. A promise is one thing that CUDA promises its programs,
// as a small program: it begins with the primary context of device 0 current, in a process of its
// own, and prints what it sees, no address and no time among it. Knows nothing of cubfc.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "driver.h"
#include "pattern.h"

namespace conformance {

struct Promise {
  std::string_view name;
  std::string_view sentence;
  void (*check)();
  /// What others do on the device meanwhile could be seen: in what is free of it, or in how long
  /// work takes.
  bool is_alone;
};

/// All of them, in the order in which they are linked.
std::vector<Promise>& promises();

struct Registration {
  Registration(const char* name, const char* sentence, void (*check)(), bool is_alone) {
    promises().push_back({name, sentence, check, is_alone});
  }
};

/// PROMISE(name_as_a_sentence, "The sentence in CUDA's words.") { what is checked }
#define PROMISE(name, sentence) CONFORMANCE_PROMISE(name, sentence, false)
/// One for which nothing else may run on the device.
#define PROMISE_ALONE(name, sentence) CONFORMANCE_PROMISE(name, sentence, true)
#define CONFORMANCE_PROMISE(name, sentence, is_alone)                                    \
  static void name();                                                                    \
  static const ::conformance::Registration registration_of_##name(#name, sentence, name, \
                                                                  is_alone);             \
  static void name()

/// The driver, and the primary context of device 0.
extern programs::Driver cu;
extern CUcontext primary;

inline constexpr std::size_t kKiB = std::size_t{1} << 10U;
inline constexpr std::size_t kMiB = std::size_t{1} << 20U;
inline constexpr CUdeviceptr kGarbage = 0xdeadbeef000;

// ---- What is seen. Each prints a line; what is not as promised breaks the promise.

void holds(std::string_view what, bool truth);
void grants(std::string_view what, CUresult result);
void refuses(std::string_view what, CUresult result);
void refuses(std::string_view what, CUresult result, CUresult documented);
/// CUDA promises nothing of it, but it is the same whatever is preloaded.
void sees(std::string_view what, CUresult result);
void sees(std::string_view what, long long number);
/// Whether a call waited for what need not be waited for. Some drivers do; with a library preloaded
/// it is right not to wait, and to wait where the driver does.
void sees_wait(std::string_view what, bool waited);
/// That every byte is what write_pattern wrote.
void has_pattern(std::string_view what, CUdeviceptr block, std::size_t bytes, std::uint32_t seed);

// ---- What is not the point: a failure ends the program.

/// Status 77: this machine cannot tell.
[[noreturn]] void lacks(std::string_view what);
/// The place is the caller's: clang 14 has no std::source_location.
void ok(CUresult result, const char* file = __builtin_FILE(), int line = __builtin_LINE());

CUdeviceptr allocate(std::size_t bytes);
CUdeviceptr allocate(std::size_t bytes, std::uint32_t seed);  ///< with the pattern written
void free_all(const std::vector<CUdeviceptr>& blocks);

struct Memory {
  std::size_t free = 0;
  std::size_t total = 0;
};
Memory memory_info();

template <class Value>
Value attribute(CUpointer_attribute which, CUdeviceptr address) {
  Value value{};
  ok(cu.cuPointerGetAttribute(&value, which, address));
  return value;
}

/// A yes or no. cuda.h does not say how wide it is.
inline bool flag(CUpointer_attribute which, CUdeviceptr address) {
  return (attribute<std::uint64_t>(which, address) & 0xffU) != 0;
}

/// Another context on a device, made current.
CUcontext new_context(CUdevice device = 0);
/// The primary context of device 1, not current; a machine without one lacks it.
CUcontext second_device();

/// Makes a context current while it lives.
class Current {
 public:
  explicit Current(CUcontext context) { ok(cu.cuCtxPushCurrent(context)); }
  ~Current() {
    CUcontext popped = nullptr;
    cu.cuCtxPopCurrent(&popped);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
};

class Stream {
 public:
  explicit Stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
    ok(cu.cuStreamCreate(&stream_, flags));
  }
  ~Stream() { cu.cuStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator CUstream() const { return stream_; }

 private:
  CUstream stream_ = nullptr;
};

/// Queues work that takes its time, so that what is queued behind it comes late.
void keep_busy(CUstream stream);

/// Blocks that would take the place of freed ones if they could; each is written to without regard
/// to any other stream.
class Successors {
 public:
  explicit Successors(std::size_t bytes);
  /// Waits for the device, and holds each against what was written.
  void are_left_alone() const;

 private:
  std::size_t bytes_;
  std::vector<CUdeviceptr> blocks_;
};

/// Runs it in another thread, with a context current or none, and waits for it.
template <class Body>
void in_another_thread(CUcontext context, const Body& body) {
  std::thread([&] {
    if (context != nullptr) {
      ok(cu.cuCtxSetCurrent(context));
    }
    body();
  }).join();
}

}  // namespace conformance
