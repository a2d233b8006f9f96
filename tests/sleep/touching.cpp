// A program that sleeps, calls one function that touches its memory, and looks whether that did
// what it does to memory that is there. For ungated_test.py.
//
//   touching --list      the functions, one a line
//   touching FUNCTION    exit status 0: it did; 1: not, with what is wrong on stderr
#include "sleep/touching.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "shim/cubfc.h"

namespace {

constexpr std::size_t kWords = 300'000;
constexpr unsigned kBefore = 0x11111111;
constexpr unsigned kAfter = 0x22222222;

void must(bool is_so, const char* what) {
  if (!is_so) {
    std::fprintf(stderr, "%s\n", what);
    std::exit(1);
  }
}

void put_to_sleep() {
  const auto sleep = reinterpret_cast<cubfc_sleep_function*>(dlsym(RTLD_DEFAULT, "cubfc_sleep"));
  must(sleep != nullptr, "libcubfc_sleep.so is not preloaded");
  std::array<char, 1000> text{};
  must(sleep(text.data(), text.size()) == 1, text.data());
}

void touch(std::string_view function) {
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUdeviceptr here = 0;
  CUdeviceptr there = 0;
  must(cuInit(0) == CUDA_SUCCESS && cuDeviceGet(&device, 0) == CUDA_SUCCESS &&
           cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS &&
           cuCtxSetCurrent(context) == CUDA_SUCCESS &&
           cuMemAlloc(&here, 4 * kWords) == CUDA_SUCCESS &&
           cuMemAlloc(&there, 4 * kWords) == CUDA_SUCCESS,
       "no memory");
  touching::Tools tools = touching::make_tools();
  must(tools.fill != nullptr, "no kernel");
  for (const touching::Set& each : touching::sets()) {  // what a call needs beside the memory
    must(each.function != function || each.call(tools, here, kAfter, kWords) == CUDA_SUCCESS,
         "the call fails while awake");
  }
  must(cuCtxSynchronize() == CUDA_SUCCESS && cuMemsetD32(here, kBefore, kWords) == CUDA_SUCCESS &&
           cuMemsetD32(there, kAfter, kWords) == CUDA_SUCCESS && cuCtxSynchronize() == CUDA_SUCCESS,
       "memory cannot be set");
  std::vector<unsigned> read(kWords);
  std::size_t changed = kWords;
  put_to_sleep();
  for (const touching::Set& each : touching::sets()) {
    if (each.function == function) {
      must(each.call(tools, here, kAfter, kWords) == CUDA_SUCCESS, "the call fails");
      changed = each.only_one ? 1 : kWords;
    }
  }
  for (const touching::Copy& each : touching::copies()) {
    if (each.function == function) {
      must(each.call(tools, here, there, 4 * kWords) == CUDA_SUCCESS, "the call fails");
    }
  }
  for (const touching::Read& each : touching::reads()) {
    if (each.function == function) {
      must(each.call(tools, read.data(), there, 4 * kWords) == CUDA_SUCCESS, "the call fails");
      must(read == std::vector<unsigned>(kWords, kAfter), "other bytes were read");
      changed = 0;
    }
  }
  must(cuCtxSynchronize() == CUDA_SUCCESS, "the work fails");
  must(cuMemcpyDtoH(read.data(), here, 4 * kWords) == CUDA_SUCCESS, "memory cannot be read");
  std::vector<unsigned> expected(kWords, kBefore);
  std::fill_n(expected.begin(), changed, kAfter);
  must(read == expected, "the memory has other bytes");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view word = argc == 2 ? argv[1] : "";
  if (word == "--list") {
    const auto print = [](const auto& list) {
      for (const auto& each : list) {
        std::printf("%s\n", each.function.data());
      }
    };
    print(touching::sets());
    print(touching::copies());
    print(touching::reads());
  } else {
    touch(word);
  }
  return 0;
}
