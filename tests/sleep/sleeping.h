// What the tests of sleeping share: a context, blocks with known bytes, and cubfc_sleep().
#pragma once

#include <cuda.h>
#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "catch.h"
#include "shim/cubfc.h"
#include "standin/standin.h"

namespace sleeping {

inline void must(CUresult result) {
  REQUIRE(result == CUDA_SUCCESS);
}

// How many random programs there are to be, and whether failures are to be tried in more ways.
inline unsigned seeds() {
  const char* const text = std::getenv("CUBFC_TEST_SEEDS");
  return text == nullptr ? 6 : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
}
inline bool is_thorough() {
  return seeds() > 6;
}

struct Told {
  bool is_done;
  std::string text;
};
inline Told call(const char* name) {
  const auto function = reinterpret_cast<cubfc_sleep_function*>(dlsym(RTLD_DEFAULT, name));
  REQUIRE(function != nullptr);  // libcubfc_sleep.so is preloaded
  std::array<char, 1000> text{};
  const bool is_done = function(text.data(), text.size()) == 1;
  return {is_done, text.data()};
}
inline Told sleep() {
  return call("cubfc_sleep");
}
inline void put_to_sleep() {
  const Told told = sleep();
  INFO(told.text);
  REQUIRE(told.is_done);
}
inline Told wake() {
  return call("cubfc_wake");
}

// The primary context of the device, current on this thread; reset at the end.
class OwnContext {
 public:
  OwnContext() {
    must(cuInit(0));
    must(cuDeviceGet(&device, 0));
    must(cuDevicePrimaryCtxRetain(&handle, device));
    must(cuCtxSetCurrent(handle));
  }
  ~OwnContext() {
    cuCtxSetCurrent(nullptr);
    cuDevicePrimaryCtxReset(device);
    cuDevicePrimaryCtxRelease(device);
  }
  OwnContext(const OwnContext&) = delete;
  OwnContext& operator=(const OwnContext&) = delete;

  CUdevice device = 0;
  CUcontext handle = nullptr;
};

// Blocks of many sizes, some of them freed again, so that live blocks and holes share pages.
class Blocks {
 public:
  struct Block {
    CUdeviceptr address;
    std::size_t bytes;
    unsigned char fill;
  };
  explicit Blocks(int rounds = 4) {
    constexpr std::array<std::size_t, 7> kSizes{5 << 20, 100,  3 << 20, 70'000,
                                                1 << 20, 4096, 300'000};
    for (int i = 0; i < rounds * static_cast<int>(kSizes.size()); ++i) {
      add(kSizes[static_cast<std::size_t>(i) % kSizes.size()], static_cast<unsigned char>(i + 1));
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      must(cuMemFree(all[i].address));
      all.erase(all.begin() + static_cast<std::ptrdiff_t>(i));
    }
    must(cuCtxSynchronize());
  }
  void add(std::size_t bytes, unsigned char fill) {
    Block block{0, bytes, fill};
    must(cuMemAlloc(&block.address, bytes));
    must(cuMemsetD8(block.address, fill, bytes));
    all.push_back(block);
  }
  std::size_t bytes() const {
    std::size_t sum = 0;
    for (const Block& block : all) {
      sum += block.bytes;
    }
    return sum;
  }
  // Whether each block has its bytes. Wakes the program.
  bool are_whole() const {
    for (const Block& block : all) {
      std::vector<unsigned char> read(block.bytes);
      if (cuMemcpyDtoH(read.data(), block.address, block.bytes) != CUDA_SUCCESS ||
          read != std::vector<unsigned char>(block.bytes, block.fill)) {
        return false;
      }
    }
    return true;
  }

  std::vector<Block> all;
};

// What the figures say: the bytes that are on the host meanwhile. Wakes nobody.
inline std::uint64_t asleep() {
  const auto stats = reinterpret_cast<cubfc_stats_function*>(dlsym(RTLD_DEFAULT, "cubfc_stats"));
  REQUIRE(stats != nullptr);
  cubfc_device_stats device{};
  device.struct_bytes = sizeof device;
  REQUIRE(stats(0, &device) == 1);
  return device.bytes_asleep;
}

// The bytes that the process has of the device. Wakes nobody.
inline std::uint64_t held() {
  return standin_live_bytes(0);
}

}  // namespace sleeping
