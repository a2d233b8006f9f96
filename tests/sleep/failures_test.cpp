// Each driver call of a sleep and of a wake fails in turn: the program is then awake with its
// bytes, or asleep with them, and the same can be tried again.
#include <string_view>

#include "sleep/sleeping.h"

using namespace sleeping;

namespace {

constexpr std::array<CUresult, 4> kErrors{CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_INVALID_VALUE,
                                          CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_UNKNOWN};

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
  for (const CUresult error : kErrors) {
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

}  // namespace

TEST_CASE("a failure at any call leaves a program awake or asleep, with its bytes", "[failures]") {
  const OwnContext context;
  const Blocks blocks(2);
  const std::uint64_t awake = [] {
    put_to_sleep();
    REQUIRE(wake().is_done);
    return held();
  }();
  int injected = 0;
  for (const std::uint64_t times : {1U, 2U, 30U}) {
    for (const char* const function :
         {"cuMemcpyDtoH_v2_ptds", "cuMemUnmap", "cuMemRelease", "cuCtxRecordEvent", "cuEventQuery",
          "cuCtxPushCurrent_v2", "cuMemHostAlloc", "cuThreadExchangeStreamCaptureMode"}) {
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
          "cuMemRelease", "cuCtxPushCurrent_v2", "cuCtxGetId"}) {
      injected +=
          fail_each(function, times, [&](const char* name, CUresult error, std::uint64_t n) {
            INFO(name << " answers " << error << " after " << n << " calls, " << times << " times");
            standin_fail(name, error, 0, 0);
            put_to_sleep();
            standin_fail(name, error, n, times);
            const Told told = wake();
            standin_fail(name, error, 0, 0);
            INFO(told.text);
            CHECK((told.is_done || held() <= awake));
            REQUIRE(wake().is_done);
            REQUIRE(held() == awake);
            REQUIRE(blocks.are_whole());
          });
    }
  }
  WARN(injected << " failures injected");
  CHECK(injected > 500);
}
