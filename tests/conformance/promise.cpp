#include "promise.h"

#include <cstdio>
#include <cstdlib>

#include "patience.h"

namespace conformance {

programs::Driver cu;
CUcontext primary = nullptr;
bool broken = false;

std::vector<Promise>& promises() {
  static std::vector<Promise> all;
  return all;
}

void holds(std::string_view what, bool truth) {
  programs::print_truth(what, truth);
  broken = broken || !truth;
}

void grants(std::string_view what, CUresult result) {
  sees(what, result);
  broken = broken || result != CUDA_SUCCESS;
}

void refuses(std::string_view what, CUresult result) {
  sees(what, result);
  broken = broken || result == CUDA_SUCCESS;
}

void refuses(std::string_view what, CUresult result, CUresult documented) {
  sees(what, result);
  broken = broken || result != documented;
}

void sees(std::string_view what, CUresult result) {
  programs::print_result(cu, what, result);
}

void sees(std::string_view what, long long number) {
  std::printf("%.*s: %lld\n", static_cast<int>(what.size()), what.data(), number);
}

void sees_wait(std::string_view what, bool waited) {
  std::printf("%.*s: %s\n", static_cast<int>(what.size()), what.data(),
              waited ? "after a wait" : "at once");
}

void has_pattern(std::string_view what, CUdeviceptr block, std::size_t bytes, std::uint32_t seed) {
  const std::size_t wrong = programs::count_mismatches(cu, block, bytes, seed);
  std::printf("%.*s: %zu wrong bytes\n", static_cast<int>(what.size()), what.data(), wrong);
  broken = broken || wrong > 0;
}

void lacks(std::string_view what) {
  std::printf("this machine has no %.*s\n", static_cast<int>(what.size()), what.data());
  std::exit(77);
}

void ok(CUresult result, const char* file, int line) {
  if (result != CUDA_SUCCESS) {
    const std::string name = programs::name_of(cu, result);
    std::printf("could not go on: %s\n", name.c_str());
    std::fprintf(stderr, "%s:%d: %s\n", file, line, name.c_str());
    std::exit(1);
  }
}

CUdeviceptr allocate(std::size_t bytes) {
  CUdeviceptr block = 0;
  ok(cu.cuMemAlloc(&block, bytes));
  return block;
}

CUdeviceptr allocate(std::size_t bytes, std::uint32_t seed) {
  const CUdeviceptr block = allocate(bytes);
  programs::write_pattern(cu, block, bytes, seed);
  return block;
}

void free_all(const std::vector<CUdeviceptr>& blocks) {
  for (const CUdeviceptr block : blocks) {
    ok(cu.cuMemFree(block));
  }
}

Memory memory_info() {
  Memory memory;
  ok(cu.cuMemGetInfo(&memory.free, &memory.total));
  return memory;
}

CUcontext new_context(CUdevice device) {
  CUcontext context = nullptr;
  ok(cu.create_context(&context, 0, device));
  return context;
}

CUcontext second_device() {
  int devices = 0;
  ok(cu.cuDeviceGetCount(&devices));
  if (devices < 2) {
    lacks("second device");
  }
  CUcontext context = nullptr;
  ok(cu.cuDevicePrimaryCtxRetain(&context, 1));
  return context;
}

void keep_busy(CUstream stream) {
  const auto take_time = [](void*) {
    programs::Patience time(std::chrono::milliseconds(20));
    while (time.lasts()) {
    }
  };
  ok(cu.cuLaunchHostFunc(stream, take_time, nullptr));
}

Successors::Successors(std::size_t bytes) : bytes_(bytes), blocks_(4) {
  const Stream stream;
  for (std::uint32_t i = 0; i < blocks_.size(); ++i) {
    blocks_[i] = allocate(bytes);
    programs::write_pattern(cu, blocks_[i], bytes, 1000 + i, stream);
  }
}

void Successors::are_left_alone() const {
  ok(cu.cuCtxSynchronize());
  for (std::uint32_t i = 0; i < blocks_.size(); ++i) {
    has_pattern("what came after", blocks_[i], bytes_, 1000 + i);
  }
}

}  // namespace conformance
