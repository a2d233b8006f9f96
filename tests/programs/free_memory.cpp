// Leaves a device in some state, asks cuMemGetInfo what is free, and takes as much as it gets in
// one of several ways. Arguments: STATE HOW [SEED]. stdout: "LIVE FREE GOT", in MiB.
//
// STATE     empty
//           small         a block of 300 MiB
//           weights       15 GiB in blocks of 92 MiB
//           second        a block of 1 MiB in another context
//           random        blocks of random sizes, many of them freed again
//           fill:MIB      so many MiB in blocks of 100, whether they can be had or not
//           freed:MIB     the same, all freed again
//           holes:MIB     so many MiB in blocks of 1 MiB, every other one freed again
//           gaps:MIB      the same in blocks of 4 MiB
//           captured:MIB  one block of so many, freed while a stream captures
// HOW       piece         one cuMemAlloc of 98% of what is free
//           sum           cuMemAlloc of 256 MiB to 1 MiB
//           create, async the same by cuMemCreate, by cuMemAllocAsync
//           total         one cuMemAlloc of all that the device is said to have
//           ask:MIB       one of so many, whether it can be had or not; create:MIB by cuMemCreate;
//                         again:MIB twice; recover:MIB twice, and before the second time all is
//                         freed that "fill" has, as programs do that cache
//           probe         the largest that can be had, found out by trying
//           hold          nothing; stays until it is killed
//           wait          nothing; stays until stdin ends
//           linger        nothing; ends, and an exit handler stays
//           fork          nothing; stays, and so does a child, whose process is GOT
//           churn         allocates and frees at random until it is killed, some of it by
//                         cuMemCreate; a refusal is no error
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string_view>
#include <vector>

#include "driver.h"

namespace {

using programs::Driver;

constexpr std::size_t kMiB = std::size_t{1} << 20;

struct Block {
  CUdeviceptr address;
  std::size_t bytes;
};

CUdeviceptr allocate(const Driver& driver, std::size_t bytes) {
  CUdeviceptr address = 0;
  programs::must(driver, "cuMemAlloc", driver.cuMemAlloc(&address, bytes));
  return address;
}

// Bytes of live blocks. Phases that fill and phases that drain follow each other by chance.
std::size_t fill_at_random(const Driver& driver, std::size_t device_bytes, unsigned seed) {
  std::mt19937 random(seed);
  std::lognormal_distribution<double> sizes(std::log(1e6), 2.2);
  const std::size_t wanted = device_bytes / 100 * (20 + random() % 60);
  std::vector<Block> blocks;
  std::size_t live = 0;
  const std::size_t operations = 500 + random() % 2000;
  for (std::size_t i = 0; i < operations; ++i) {
    const auto bytes = static_cast<std::size_t>(
        std::min(sizes(random), static_cast<double>(device_bytes) / 10) + 1);
    CUdeviceptr address = 0;
    if (blocks.empty() || (live + bytes < wanted && random() % 100 < 70)) {
      if (driver.cuMemAlloc(&address, bytes) == CUDA_SUCCESS) {
        blocks.push_back({address, bytes});
        live += bytes;
      }
      continue;
    }
    std::swap(blocks[random() % blocks.size()], blocks.back());
    programs::must(driver, "cuMemFree", driver.cuMemFree(blocks.back().address));
    live -= blocks.back().bytes;
    blocks.pop_back();
  }
  return live;
}

// Until the process is killed. Keeps a few blocks of some bytes to 256 MiB.
[[noreturn]] void churn(const Driver& driver, unsigned seed) {
  constexpr std::size_t kMostBlocks = 16;
  struct Piece {
    CUdeviceptr address;  // or
    CUmemGenericAllocationHandle physical;
  };
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  std::mt19937 random(seed);
  std::vector<Piece> pieces;
  for (;;) {
    if (pieces.size() < kMostBlocks && random() % 2 == 0) {
      const std::size_t bytes = 256 * kMiB >> random() % 20;
      Piece piece{};
      const bool taken = random() % 8 == 0
                             ? driver.cuMemCreate(&piece.physical, std::max(bytes, 2 * kMiB),
                                                  &properties, 0) == CUDA_SUCCESS
                             : driver.cuMemAlloc(&piece.address, bytes) == CUDA_SUCCESS;
      if (taken) {
        pieces.push_back(piece);
      }
    } else if (!pieces.empty()) {
      std::swap(pieces[random() % pieces.size()], pieces.back());
      if (pieces.back().address != 0) {
        programs::must(driver, "cuMemFree", driver.cuMemFree(pieces.back().address));
      } else {
        programs::must(driver, "cuMemRelease", driver.cuMemRelease(pieces.back().physical));
      }
      pieces.pop_back();
    }
  }
}

// Of "fill:MIB" and its like.
std::size_t mib_of(std::string_view text) {
  return static_cast<std::size_t>(std::atoi(text.data() + text.find(':') + 1));
}

template <typename Take>
std::size_t take_all(std::initializer_list<std::size_t> sizes, Take take) {
  std::size_t got = 0;
  for (const std::size_t bytes : sizes) {
    while (take(bytes) == CUDA_SUCCESS) {
      got += bytes;
    }
  }
  return got;
}

}  // namespace

int main(int argc, char** argv) {
  const Driver driver = programs::open_driver(programs::take_via(argc, argv));
  if (argc < 3) {
    std::fprintf(stderr, "usage: free_memory STATE HOW [SEED]\n");
    return 2;
  }
  const std::string_view state = argv[1];
  const std::string_view how = argv[2];
  const unsigned seed = argc > 3 ? static_cast<unsigned>(std::atoi(argv[3])) : 0;
  if (how == "linger") {
    std::atexit([] {  // runs after those that are registered later
      std::printf("lingers\n");
      std::fflush(stdout);
      sleep(60);
    });
  }
  programs::use_device(driver, 0);
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  programs::must(driver, "cuMemGetInfo", driver.cuMemGetInfo(&free_bytes, &total_bytes));
  std::size_t live = 0;
  std::vector<CUdeviceptr> blocks;
  if (state == "small") {
    live = 300 * kMiB;
    allocate(driver, live);
  } else if (state == "weights") {
    for (; live < kMiB * 1024 * 15; live += 92 * kMiB) {
      allocate(driver, 92 * kMiB);
    }
  } else if (state == "second") {
    live = kMiB;
    allocate(driver, live);
    CUcontext other = nullptr;
    programs::must(driver, "cuCtxCreate", cuCtxCreate_v2(&other, 0, 0));
  } else if (state.starts_with("fill:") || state.starts_with("freed:")) {
    const std::size_t wanted = kMiB * mib_of(state);
    CUdeviceptr address = 0;
    for (std::size_t bytes = 0; live < wanted; live += bytes) {
      bytes = std::min(wanted - live, 100 * kMiB);
      if (driver.cuMemAlloc(&address, bytes) != CUDA_SUCCESS) {
        break;
      }
      blocks.push_back(address);
    }
    for (std::size_t i = 0; state.starts_with("freed:") && i < blocks.size(); ++i) {
      programs::must(driver, "cuMemFree", driver.cuMemFree(blocks[i]));
    }
  } else if (state.starts_with("holes:") || state.starts_with("gaps:")) {
    const std::size_t mib = state.starts_with("holes:") ? 1 : 4;
    for (std::size_t i = 0; i < mib_of(state) / mib; ++i) {
      blocks.push_back(allocate(driver, mib * kMiB));
    }
    for (std::size_t i = 0; i < blocks.size(); i += 2) {
      programs::must(driver, "cuMemFree", driver.cuMemFree(blocks[i]));
    }
  } else if (state.starts_with("captured:")) {
    const CUdeviceptr block = allocate(driver, mib_of(state) * kMiB);
    CUstream stream = nullptr;
    programs::must(driver, "cuStreamCreate", cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    programs::must(driver, "cuStreamBeginCapture",
                   cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    programs::must(driver, "cuMemFree", driver.cuMemFree(block));
  } else if (state == "random") {
    live = fill_at_random(driver, free_bytes, seed);
  }
  programs::must(driver, "cuMemGetInfo", driver.cuMemGetInfo(&free_bytes, &total_bytes));
  CUdeviceptr address = 0;
  std::size_t got = 0;
  if (how == "fork") {
    const pid_t child = fork();
    if (child > 0) {
      std::printf("%zu %zu %d\n", live / kMiB, free_bytes / kMiB, child);
      std::fflush(stdout);
    }
    alarm(60);
    pause();
  } else if (how == "linger") {
    std::printf("%zu %zu\n", live / kMiB, free_bytes / kMiB);
    std::fflush(stdout);
    std::exit(0);
  } else if (how == "churn") {
    churn(driver, seed);
  } else if (how == "hold" || how == "wait") {
    std::printf("%zu %zu\n", live / kMiB, free_bytes / kMiB);
    std::fflush(stdout);
    if (how == "hold") {
      pause();
    }
    while (std::getchar() != EOF) {
    }
  } else if (how == "piece" || how == "total") {
    const std::size_t bytes = how == "total" ? total_bytes : free_bytes / 100 * 98;
    got = driver.cuMemAlloc(&address, bytes) == CUDA_SUCCESS ? bytes : 0;
  } else if (how == "sum") {
    got = take_all({256 * kMiB, 16 * kMiB, kMiB},
                   [&](std::size_t bytes) { return driver.cuMemAlloc(&address, bytes); });
  } else if (how.starts_with("create")) {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemGenericAllocationHandle handle = 0;
    const auto create = [&](std::size_t bytes) {
      return driver.cuMemCreate(&handle, bytes, &properties, 0);
    };
    if (how == "create") {
      got = take_all({256 * kMiB, 16 * kMiB, 2 * kMiB}, create);
    } else {
      got = create(mib_of(how) * kMiB) == CUDA_SUCCESS ? mib_of(how) * kMiB : 0;
    }
  } else if (how == "probe") {
    for (std::size_t step = total_bytes; step >= kMiB; step /= 2) {
      if (driver.cuMemAlloc(&address, got + step) == CUDA_SUCCESS) {
        programs::must(driver, "cuMemFree", driver.cuMemFree(address));
        got += step;
      }
    }
  } else if (how.starts_with("ask:") || how.starts_with("again:") || how.starts_with("recover:")) {
    const std::size_t bytes = mib_of(how) * kMiB;
    bool has = driver.cuMemAlloc(&address, bytes) == CUDA_SUCCESS;
    for (std::size_t i = 0; !has && how.starts_with("recover:") && i < blocks.size(); ++i) {
      programs::must(driver, "cuMemFree", driver.cuMemFree(blocks[i]));
    }
    if (!has && !how.starts_with("ask:")) {
      has = driver.cuMemAlloc(&address, bytes) == CUDA_SUCCESS;
    }
    got = has ? bytes : 0;
  } else {
    got = take_all({256 * kMiB, 16 * kMiB, 2 * kMiB}, [&](std::size_t bytes) {
      return driver.cuMemAllocAsync(&address, bytes, nullptr);
    });
  }
  std::printf("%zu %zu %zu\n", live / kMiB, free_bytes / kMiB, got / kMiB);
  return 0;
}
