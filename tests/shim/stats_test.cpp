// What the program is told of its own use: cubfc_stats and cubfc_dump. With two devices.
#include <atomic>
#include <climits>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "shim/cubfc.h"
#include "shim/test_context.h"

using namespace cubfc::test;

namespace {

constexpr std::size_t kMiB = 1 << 20;

cubfc_device_stats stats_of(int device) {
  cubfc_device_stats stats{};
  stats.struct_bytes = sizeof stats;
  REQUIRE(cubfc_stats(device, &stats) == 1);
  CHECK(stats.struct_bytes == sizeof stats);
  return stats;
}

nlohmann::json dump() {
  std::string text(1 << 20, 'x');
  const unsigned long long length = cubfc_dump(text.data(), text.size());
  REQUIRE(length > 0);
  REQUIRE(length < text.size());
  CHECK(text[length] == '\0');
  text.resize(length);
  return nlohmann::json::parse(text);
}

}  // namespace

TEST_CASE("nothing is known before the program has used a device", "[stats]") {
  cubfc_device_stats stats{};
  std::memset(&stats, 7, sizeof stats);
  stats.struct_bytes = sizeof stats;
  const cubfc_device_stats before = stats;
  for (const int device : {-1, 0, 1, 16, INT_MAX, INT_MIN}) {
    CHECK(cubfc_stats(device, &stats) == 0);
    CHECK(std::memcmp(&stats, &before, sizeof stats) == 0);
  }
  CHECK(cubfc_dump(nullptr, 0) == 0);
}

TEST_CASE("a program sees what it has of each device", "[stats]") {
  const TestContext second(1);
  const CUdeviceptr on_second = allocate(3 * kMiB);
  const TestContext first(0);
  const CUdeviceptr kept = allocate(10 * kMiB);
  const CUdeviceptr freed = allocate(20 * kMiB);
  must(cuMemFree(freed));
  must(cuCtxSynchronize());

  CHECK(stats_of(1).bytes_in_use == 3 * kMiB);
  const cubfc_device_stats stats = stats_of(0);
  CHECK(stats.total_bytes == 256 * kMiB);
  CHECK(stats.bytes_limit == 100 * kMiB);
  CHECK(stats.bytes_in_use - stats.bytes_waiting == 10 * kMiB);
  CHECK(stats.peak_bytes_in_use == 30 * kMiB);
  CHECK(stats.num_allocs == 2);
  CHECK(stats.bytes_taken <= stats.bytes_limit);
  CHECK(stats.bytes_taken == standin_live_bytes(0));
  CHECK(stats.largest_free_block_bytes <= stats.bytes_idle);

  CUdeviceptr too_much = 0;
  CHECK(cuMemAlloc(&too_much, 95 * kMiB) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(stats_of(0).num_refused == 1);
  must(cuMemFree(kept));
  must(cuCtxSetCurrent(second.handle));
  must(cuMemFree(on_second));
}

TEST_CASE("the dump and the figures tell the same", "[stats]") {
  const TestContext context;
  const CUdeviceptr block = allocate(5 * kMiB);
  const cubfc_device_stats stats = stats_of(0);
  const nlohmann::json all = dump();
  const nlohmann::json* device = nullptr;
  for (const nlohmann::json& each : all.at("devices")) {
    device = each.at("number") == 0 ? &each : device;
  }
  REQUIRE(device != nullptr);
  CHECK(device->at("bytes_in_use") == stats.bytes_in_use);
  CHECK(device->at("peak_bytes_in_use") == stats.peak_bytes_in_use);
  CHECK(device->at("bytes_taken") == stats.bytes_taken);
  CHECK(device->at("bytes_idle") == stats.bytes_idle);
  CHECK(device->at("bytes_waiting") == stats.bytes_waiting);
  CHECK(device->at("bytes_reserved") == stats.bytes_reserved);
  CHECK(device->at("bytes_limit") == stats.bytes_limit);
  CHECK(device->at("num_allocs") == stats.num_allocs);
  must(cuMemFree(block));
}

TEST_CASE("the dump is cut where there is no room", "[stats]") {
  const TestContext context;
  must(cuMemFree(allocate(kMiB)));
  const unsigned long long length = cubfc_dump(nullptr, 0);
  REQUIRE(length > 100);
  for (const std::size_t room : {std::size_t{1}, std::size_t{2}, std::size_t{100}}) {
    std::string text(room + 1, 'x');
    CHECK(cubfc_dump(text.data(), room) == length);
    CHECK(std::strlen(text.c_str()) == room - 1);
    CHECK(text[room] == 'x');
  }
}

TEST_CASE("a program made for another version", "[stats]") {
  const TestContext context;
  const CUdeviceptr block = allocate(5 * kMiB);
  // An older one: less room. Nothing behind is touched.
  cubfc_device_stats stats{};
  std::memset(&stats, 7, sizeof stats);
  stats.struct_bytes = 3 * sizeof(unsigned long long);
  const unsigned long long behind = stats.bytes_in_use;
  REQUIRE(cubfc_stats(0, &stats) == 1);
  CHECK(stats.struct_bytes == 3 * sizeof(unsigned long long));
  CHECK(stats.total_bytes == 256 * kMiB);
  CHECK(stats.bytes_in_use == behind);
  // A newer one: what is not known here is zero.
  std::vector<unsigned long long> newer(100, 7);
  newer[0] = newer.size() * sizeof newer[0];
  REQUIRE(cubfc_stats(0, reinterpret_cast<cubfc_device_stats*>(newer.data())) == 1);
  CHECK(newer[0] == sizeof stats);
  CHECK(newer[3] == stats_of(0).bytes_in_use);
  for (std::size_t i = sizeof stats / sizeof newer[0]; i < newer.size(); ++i) {
    CHECK(newer[i] == 0);
  }
  // And none.
  for (const unsigned long long bytes : {0ULL, 7ULL}) {
    stats.struct_bytes = bytes;
    CHECK(cubfc_stats(0, &stats) == 0);
  }
  CHECK(cubfc_stats(0, nullptr) == 0);
  must(cuMemFree(block));
}

TEST_CASE("figures are asked for while others allocate", "[stats]") {
  const TestContext context;
  must(cuMemFree(allocate(kMiB)));
  std::atomic<bool> over{false};
  std::thread asks([&] {
    while (!over) {
      cubfc_device_stats stats{};
      stats.struct_bytes = sizeof stats;
      if (cubfc_stats(0, &stats) != 1 || stats.bytes_in_use > 100 * kMiB ||
          cubfc_dump(nullptr, 0) == 0) {
        std::abort();
      }
    }
  });
  for (int i = 0; i < 3000; ++i) {
    const CUdeviceptr one = allocate(kMiB + static_cast<std::size_t>(i % 7) * 1000);
    must(cuMemFree(one));
    if (i % 500 == 0) {
      cubfc_trim(CUBFC_TRIM_PREALLOCATED);
    }
  }
  over = true;
  asks.join();
}
