// Does what each line of stdin says, and answers with a line: so that a test decides when.
//
//     info       "FREE TOTAL" of cuMemGetInfo, in bytes
//     take MIB   allocates so many: "ok" or the driver's error
//     give       frees the newest block: the same
#include <cstdio>
#include <cstring>
#include <vector>

#include "driver.h"

int main(int argc, char** argv) {
  const programs::Driver driver = programs::open_driver(programs::take_via(argc, argv));
  programs::use_device(driver, 0);
  std::vector<CUdeviceptr> blocks;
  const auto answer = [](CUresult result) {
    std::printf(result == CUDA_SUCCESS ? "ok\n" : "error %d\n", static_cast<int>(result));
  };
  char line[256];
  while (std::fgets(line, sizeof(line), stdin) != nullptr) {
    std::size_t mib = 0;
    if (std::strncmp(line, "info", 4) == 0) {
      std::size_t free_bytes = 0;
      std::size_t total_bytes = 0;
      programs::must(driver, "cuMemGetInfo", driver.cuMemGetInfo(&free_bytes, &total_bytes));
      std::printf("%zu %zu\n", free_bytes, total_bytes);
    } else if (std::sscanf(line, "take %zu", &mib) == 1) {
      CUdeviceptr address = 0;
      const CUresult result = driver.cuMemAlloc(&address, mib << 20);
      if (result == CUDA_SUCCESS) {
        blocks.push_back(address);
      }
      answer(result);
    } else if (std::strncmp(line, "give", 4) == 0 && !blocks.empty()) {
      answer(driver.cuMemFree(blocks.back()));
      blocks.pop_back();
    } else {
      std::fprintf(stderr, "step_by_step: what is \"%s\"?\n", line);
      return 2;
    }
    std::fflush(stdout);
  }
  return 0;
}
