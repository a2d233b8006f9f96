// A program's whole path, for instructions.py to count: plays a workload through cuMemAlloc and
// cuMemFree, or cudaMalloc and cudaFree, of the software driver. Prints the pairs of a pass.
// `busy`: some work is always under way on the device, and what was submitted before it gets done.
//
//     driver_pairs <driver | runtime> <idle | busy> <workload> <passes>
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "named_workload.h"
#include "standin.h"

namespace {

void must(CUresult result, const char* what) {
  if (result != CUDA_SUCCESS) {
    throw std::runtime_error(std::string(what) + " answers " +
                             std::to_string(static_cast<int>(result)));
  }
}

// Two streams, of which one at least is held at any time.
class Work {
 public:
  explicit Work(bool busy) : busy_(busy) {
    if (busy_) {
      for (CUstream& stream : streams_) {
        must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
      }
      must(cuMemAlloc(&worked_on_, 4096), "cuMemAlloc");
      hold(streams_[0]);
    }
  }
  ~Work() {
    if (busy_) {
      standin_release_stream(streams_[held_]);
    }
  }
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  // What was under way gets done, something else is.
  void goes_on() {
    if (busy_ && ++calls_ % kLasts == 0) {
      hold(streams_[1 - held_]);
      standin_release_stream(streams_[held_]);
      must(cuStreamSynchronize(streams_[held_]), "cuStreamSynchronize");
      held_ = 1 - held_;
    }
  }

 private:
  void hold(CUstream stream) const {
    standin_hold_stream(stream);
    must(cuMemsetD8Async(worked_on_, 1, 4096, stream), "cuMemsetD8Async");
  }

  static constexpr unsigned kLasts = 128;  // calls
  const bool busy_;
  CUdeviceptr worked_on_ = 0;
  std::array<CUstream, 2> streams_{};
  unsigned held_ = 0;
  unsigned calls_ = 0;
};

struct Driver {
  static bool allocate(void** block, std::size_t bytes) {
    return cuMemAlloc(reinterpret_cast<CUdeviceptr*>(block), bytes) == CUDA_SUCCESS;
  }
  static bool free(void* block) {
    return cuMemFree(reinterpret_cast<CUdeviceptr>(block)) == CUDA_SUCCESS;
  }
};

struct Runtime {
  static bool allocate(void** block, std::size_t bytes) {
    return cudaMalloc(block, bytes) == cudaSuccess;
  }
  static bool free(void* block) { return cudaFree(block) == cudaSuccess; }
};

template <typename Api>
void play_passes(const cubfc::bench::Workload& workload, Work& work, int passes) {
  std::vector<void*> blocks(workload.slots);
  for (int pass = 0; pass < passes; ++pass) {
    for (const cubfc::bench::Op& op : workload.ops) {
      if (!(op.bytes == 0 ? Api::free(blocks[op.slot])
                          : Api::allocate(&blocks[op.slot], op.bytes))) {
        throw std::runtime_error("an allocation or a free has failed");
      }
      work.goes_on();
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string api = argc == 5 ? argv[1] : "";
  if (api != "driver" && api != "runtime") {
    std::fprintf(stderr,
                 "usage: driver_pairs <driver | runtime> <idle | busy> <workload> <passes>\n");
    return 2;
  }
  try {
    const cubfc::bench::Workload workload = cubfc::bench::named_workload(argv[3]);
    must(cuInit(0), "cuInit");
    CUcontext context = nullptr;
    must(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
    must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    Work work(std::string(argv[2]) == "busy");
    const int passes = std::atoi(argv[4]);
    if (api == "driver") {
      play_passes<Driver>(workload, work, passes);
    } else {
      play_passes<Runtime>(workload, work, passes);
    }
    std::printf("%llu\n", static_cast<unsigned long long>(workload.allocations));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "driver_pairs: %s\n", error.what());
    return 1;
  }
}
