// Takes what cuMemGetInfo says is free, in one block or in many, and says how near it came.
// Arguments: [--percent P] (98) of the free memory is wanted; [--step BYTES] (0: all in one block);
// [--first BYTES] (0): one block of this size is allocated before. stdout says what a user is
// promised; stderr has the numbers.
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "driver.h"

namespace {

using programs::Driver;

struct Wanted {
  std::uint64_t percent = 98;
  std::uint64_t step = 0;
  std::uint64_t first = 0;
};

Wanted parse(int argc, char** argv) {
  Wanted wanted;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view option = argv[i];
    const std::uint64_t value =
        programs::number_argument(option, i + 1 < argc ? argv[i + 1] : nullptr);
    if (option == "--percent") {
      wanted.percent = value;
    } else if (option == "--step") {
      wanted.step = value;
    } else if (option == "--first") {
      wanted.first = value;
    } else {
      std::fprintf(stderr, "%s is not an option\n", argv[i]);
      std::exit(2);
    }
  }
  return wanted;
}

struct Info {
  std::size_t free = 0;
  std::size_t total = 0;
};

Info memory_info(const Driver& driver) {
  Info info;
  programs::must(driver, "cuMemGetInfo", driver.cuMemGetInfo(&info.free, &info.total));
  return info;
}

}  // namespace

int main(int argc, char** argv) {
  const Driver driver = programs::open_driver(programs::take_via(argc, argv));
  const Wanted wanted = parse(argc, argv);
  programs::use_device(driver, 0);
  if (wanted.first > 0) {
    CUdeviceptr block = 0;
    programs::must(driver, "cuMemAlloc", driver.cuMemAlloc(&block, wanted.first));
  }

  const Info before = memory_info(driver);
  std::size_t device_total = 0;
  programs::must(driver, "cuDeviceTotalMem", driver.cuDeviceTotalMem(&device_total, 0));
  programs::print_truth("both totals agree", before.total == device_total);
  programs::print_truth("free is within the total", before.free <= before.total);

  const std::size_t target = before.free / 100 * wanted.percent;
  const std::size_t step = wanted.step == 0 ? target : wanted.step;
  std::vector<CUdeviceptr> blocks;
  std::size_t taken = 0;
  CUresult result = CUDA_SUCCESS;
  while (taken < target && result == CUDA_SUCCESS) {
    CUdeviceptr block = 0;
    result = driver.cuMemAlloc(&block, step);
    if (result == CUDA_SUCCESS) {
      blocks.push_back(block);
      taken += step;
    }
  }
  const bool reached = taken >= target;
  std::printf("reached %llu percent of what was free: %s\n",
              static_cast<unsigned long long>(wanted.percent), reached ? "yes" : "no");
  const Info full = memory_info(driver);
  std::fprintf(stderr, "free %zu of %zu, taken %zu in %zu blocks (%.2f percent), then free %zu\n",
               before.free, before.total, taken, blocks.size(),
               100.0 * static_cast<double>(taken) / static_cast<double>(before.free), full.free);
  programs::print_truth("free went down by what was taken", full.free <= before.free - taken);

  CUdeviceptr more = 0;
  programs::print_result(driver, "all of the total once more",
                         driver.cuMemAlloc(&more, before.total));
  for (CUdeviceptr block : blocks) {
    programs::must(driver, "cuMemFree", driver.cuMemFree(block));
  }
  const Info after = memory_info(driver);
  programs::print_truth("all is free again", after.free >= before.free / 100 * 99);
  return reached ? 0 : 1;
}
