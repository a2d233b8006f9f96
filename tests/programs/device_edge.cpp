// Takes and frees large blocks where the device is nearly full. Arguments, and what each does
// ROUNDS times:
//
//     pairs ROUNDS         takes a block of 50% of what is free at the start and a small one behind
//                          it, and frees the large one; the same with 60%. The last 40 small ones
//                          live
//     ring PERCENT ROUNDS  of 16 blocks that take so much together, each of another size, up to 12%
//                          smaller than the largest, replaces the oldest
//
// stdout: "ASKED FAILED", how many blocks.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <random>

#include "driver.h"

namespace {

struct Program {
  programs::Driver driver;
  std::mt19937 random{7};
  int asked = 0;
  int failed = 0;

  CUdeviceptr take(std::size_t bytes) {
    CUdeviceptr address = 0;
    ++asked;
    const CUresult result = driver.cuMemAlloc(&address, bytes);
    failed += result == CUDA_SUCCESS ? 0 : 1;
    return result == CUDA_SUCCESS ? address : 0;
  }
  void give(CUdeviceptr address) {
    if (address != 0) {
      programs::must(driver, "cuMemFree", driver.cuMemFree(address));
    }
  }
};

void pairs(Program& program, std::size_t percent, int rounds) {
  std::deque<CUdeviceptr> small;
  for (int i = 0; i < 2 * rounds; ++i) {
    const CUdeviceptr large = program.take(percent * (i % 2 == 0 ? 50 : 60));
    small.push_back(program.take(1000 + program.random() % 2'000'000));
    if (small.size() > 40) {
      program.give(small.front());
      small.pop_front();
    }
    program.give(large);
  }
}

void ring(Program& program, std::size_t largest, int rounds) {
  std::deque<CUdeviceptr> blocks;
  const std::size_t spread = std::max<std::size_t>(largest / 100 * 12, 1);
  for (int i = 0; i < 16 + rounds; ++i) {
    if (i >= 16) {
      program.give(blocks.front());
      blocks.pop_front();
    }
    blocks.push_back(program.take(largest - program.random() % spread));
  }
}

}  // namespace

int main(int argc, char** argv) {
  Program program{programs::open_driver(programs::take_via(argc, argv))};
  programs::use_device(program.driver, 0);
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  programs::must(program.driver, "cuMemGetInfo",
                 program.driver.cuMemGetInfo(&free_bytes, &total_bytes));
  const std::size_t percent = free_bytes / 100;
  if (argc == 3 && std::strcmp(argv[1], "pairs") == 0) {
    pairs(program, percent, std::atoi(argv[2]));
  } else if (argc == 4 && std::strcmp(argv[1], "ring") == 0) {
    ring(program, percent * static_cast<std::size_t>(std::atoi(argv[2])) / 16, std::atoi(argv[3]));
  } else {
    std::fprintf(stderr, "usage: program_device_edge pairs ROUNDS | ring PERCENT ROUNDS\n");
    return 2;
  }
  std::printf("%d %d\n", program.asked, program.failed);
  return 0;
}
