// Each driver call of a sleep and of a wake fails in turn, and each request of cubfc's for memory
// of the host: the program is then awake with its bytes, or asleep with them, and the same can be
// tried again. CUBFC_TEST_SEEDS=N: above 6, with more errors, and more blocks.
#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <span>
#include <string_view>

#include "sleep/sleeping.h"

using namespace sleeping;

namespace {

constexpr std::array<CUresult, 12> kErrors{
    CUDA_ERROR_OUT_OF_MEMORY,   CUDA_ERROR_INVALID_VALUE,    CUDA_ERROR_NOT_SUPPORTED,
    CUDA_ERROR_UNKNOWN,         CUDA_ERROR_NOT_INITIALIZED,  CUDA_ERROR_DEINITIALIZED,
    CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_HANDLE,   CUDA_ERROR_NOT_PERMITTED,
    CUDA_ERROR_NOT_READY,       CUDA_ERROR_SYSTEM_NOT_READY, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED};
std::span<const CUresult> errors() {
  return std::span(kErrors).first(is_thorough() ? kErrors.size() : 4);
}

// What lacks memory looks for more, and waits for others; and work whose end is not known is waited
// for, 5 s: that is tried less often.
bool is_waited_for(std::string_view function, CUresult error, std::uint64_t times) {
  return (function == "cuMemCreate" && error == CUDA_ERROR_OUT_OF_MEMORY) ||
         ((function == "cuCtxRecordEvent" || function == "cuEventQuery") && times > 2);
}

// Has the n-th call of a function fail, from the first to one more than there are; `times`: for so
// many calls in a row. what(): what is to be tried.
template <typename What>
int fail_each(const char* function, std::uint64_t times, What what) {
  int injected = 0;
  for (const CUresult error : errors()) {
    for (std::uint64_t after = 0;; ++after) {
      if (is_waited_for(function, error, times) && after > 0) {
        break;
      }
      const std::uint64_t before = standin_calls(function);
      standin_fail(function, error, after, times);
      what(function, error, after);
      standin_fail(function, error, 0, 0);
      if (standin_calls(function) - before <= after) {
        break;
      }
      ++injected;
    }
  }
  return injected;
}

std::uint64_t held_after_a_sleep() {
  put_to_sleep();
  REQUIRE(wake().is_done);
  return held();
}

// ---- the host's memory

// How many more of cubfc's requests on this thread are served, and how many fail then.
thread_local long served_requests = -1;  // -1: all
thread_local long failing_requests = 0;
thread_local long failed_requests = 0;

// Where the code of libcubfc_sleep.so is.
struct Library {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};
Library find_library() {
  Library library;
  dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void* found) {
        if (std::string_view(object->dlpi_name).find("libcubfc_sleep.so") !=
            std::string_view::npos) {
          for (const auto& segment : std::span(object->dlpi_phdr, object->dlpi_phnum)) {
            if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0) {
              const std::uintptr_t begin = object->dlpi_addr + segment.p_vaddr;
              *static_cast<Library*>(found) = {begin, begin + segment.p_memsz};
            }
          }
        }
        return 0;
      },
      &library);
  return library;
}

bool fails(const void* caller) {
  static const Library library = find_library();
  const auto at = reinterpret_cast<std::uintptr_t>(caller);
  if (served_requests < 0 || at < library.begin || at >= library.end) {
    return false;
  }
  if (served_requests > 0) {
    --served_requests;
    return false;
  }
  if (failing_requests == 0) {
    return false;
  }
  --failing_requests;
  ++failed_requests;
  errno = ENOMEM;
  return true;
}

// Calls what() with each request for host memory failing in turn, `times` in a row.
template <typename What>
int fail_each_request(long times, What what) {
  int injected = 0;
  for (long served = 0;; ++served) {
    failed_requests = 0;
    failing_requests = times;
    served_requests = served;
    what(served);
    served_requests = -1;
    if (failed_requests == 0) {
      return injected;
    }
    ++injected;
  }
}
void all_requests_are_served() {
  served_requests = -1;
}

}  // namespace

// All allocations of libcubfc_sleep.so's come here: its operator new calls malloc.
extern "C" void* __libc_malloc(std::size_t bytes) noexcept;  // glibc's own
extern "C" __attribute__((visibility("default"))) void* malloc(std::size_t bytes) noexcept {
  return fails(__builtin_return_address(0)) ? nullptr : __libc_malloc(bytes);
}
extern "C" __attribute__((visibility("default"))) void* mmap(void* address, std::size_t bytes,
                                                             int protection, int flags, int file,
                                                             off_t offset) noexcept {
  return fails(__builtin_return_address(0))
             ? MAP_FAILED
             : reinterpret_cast<void*>(
                   syscall(SYS_mmap, address, bytes, protection, flags, file, offset));
}

TEST_CASE("a host without memory leaves a program awake or asleep, with its bytes", "[failures]") {
  const OwnContext context;
  const Blocks blocks(2);
  const std::uint64_t awake = held_after_a_sleep();
  int injected = 0;
  for (const long times : {1L, 3L, 1'000'000L}) {
    injected += fail_each_request(times, [&](long served) {
      INFO("asleep: after " << served << " requests, " << times << " fail");
      const Told told = sleep();
      all_requests_are_served();
      INFO(told.text);
      CHECK((told.is_done || held() == awake));
      CHECK(asleep() == awake - held());
      REQUIRE(blocks.are_whole());
      REQUIRE(held() == awake);
    });
    injected += fail_each_request(times, [&](long served) {
      INFO("awake: after " << served << " requests, " << times << " fail");
      const long failing = std::exchange(failing_requests, 0);
      served_requests = -1;
      put_to_sleep();
      failing_requests = failing;
      served_requests = served;
      const Told told = wake();
      all_requests_are_served();
      INFO(told.text);
      CHECK((told.is_done || held() == 0));
      CHECK(asleep() == awake - held());
      REQUIRE(wake().is_done);
      REQUIRE(held() == awake);
      REQUIRE(blocks.are_whole());
    });
  }
  WARN(injected << " failures injected");
  CHECK(injected > 20);
}

TEST_CASE("a failure at any call leaves a program awake or asleep, with its bytes", "[failures]") {
  const OwnContext context;
  const Blocks blocks(is_thorough() ? 6 : 2);
  const std::uint64_t awake = held_after_a_sleep();
  int injected = 0;
  const std::vector<std::uint64_t> in_a_row = is_thorough()
                                                  ? std::vector<std::uint64_t>{1, 2, 3, 5, 30, 1000}
                                                  : std::vector<std::uint64_t>{1, 2, 30};
  for (const std::uint64_t times : in_a_row) {
    for (const char* const function :
         {"cuMemcpyDtoH_v2_ptds", "cuMemUnmap", "cuMemRelease", "cuCtxRecordEvent", "cuEventQuery",
          "cuCtxPushCurrent_v2", "cuMemHostRegister_v2", "cuThreadExchangeStreamCaptureMode"}) {
      injected +=
          fail_each(function, times, [&](const char* name, CUresult error, std::uint64_t n) {
            INFO(name << " answers " << error << " after " << n << " calls, " << times << " times");
            const Told told = sleep();
            standin_fail(name, error, 0, 0);
            INFO(told.text);
            CHECK((told.is_done || held() == awake));
            REQUIRE(blocks.are_whole());
            REQUIRE(held() == awake);
          });
    }
    for (const char* const function :
         {"cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemcpyHtoD_v2_ptds", "cuMemUnmap",
          "cuMemRelease", "cuCtxPushCurrent_v2", "cuCtxGetId", "cuStreamSynchronize"}) {
      injected +=
          fail_each(function, times, [&](const char* name, CUresult error, std::uint64_t n) {
            INFO(name << " answers " << error << " after " << n << " calls, " << times << " times");
            standin_fail(name, error, 0, 0);
            put_to_sleep();
            standin_fail(name, error, n, times);
            const Told told = wake();
            standin_fail(name, error, 0, 0);
            INFO(told.text);
            // What was mapped again goes again, unless that is what fails.
            const std::string_view failing = name;
            CHECK((told.is_done || held() == 0 || failing == "cuMemUnmap" ||
                   failing == "cuMemRelease" || failing == "cuCtxPushCurrent_v2"));
            CHECK((told.is_done || asleep() == awake - held()));
            REQUIRE(wake().is_done);
            REQUIRE(held() == awake);
            REQUIRE(blocks.are_whole());
          });
    }
  }
  WARN(injected << " failures injected");
  CHECK(injected > 500);
}
