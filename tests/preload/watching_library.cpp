// Watches allocations as UCX's memory hooks do: replaces the beginning of driver functions in
// memory by a jump to its own, and runs what stood there from elsewhere.
#include <cuda.h>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>

namespace {

constexpr std::size_t kMoved = 15;
// movabs $address, %r11; jmp *%r11
constexpr std::size_t kJump = 13;

int allocations = 0;
int frees = 0;
CUresult (*moved_allocate)(CUdeviceptr*, std::size_t) = nullptr;
CUresult (*moved_free)(CUdeviceptr) = nullptr;

CUresult watch_allocate(CUdeviceptr* address, std::size_t bytes) {
  ++allocations;
  return moved_allocate(address, bytes);
}
CUresult watch_free(CUdeviceptr address) {
  ++frees;
  return moved_free(address);
}

void put_jump(unsigned char* at, const void* target) {
  const unsigned char code[kJump] = {0x49, 0xbb, 0, 0, 0, 0, 0, 0, 0, 0, 0x41, 0xff, 0xe3};
  std::memcpy(at, code, sizeof(code));
  std::memcpy(at + 2, &target, sizeof(target));
}

// The function's old beginning, elsewhere; nullptr if it has instructions that cannot be moved.
void* replace(unsigned char* function, const void* by) {
  for (std::size_t i = 0; i < kMoved; i += 5) {  // movl $number, %eax
    if (function[i] != 0xb8) {
      return nullptr;
    }
  }
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const int all = PROT_READ | PROT_WRITE | PROT_EXEC;
  void* const moved = mmap(nullptr, page, all, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  auto* const start = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(function) & -page);
  if (moved == MAP_FAILED || mprotect(start, 2 * page, all) != 0) {
    return nullptr;
  }
  std::memcpy(moved, function, kMoved);
  put_jump(static_cast<unsigned char*>(moved) + kMoved, function + kMoved);
  put_jump(function, by);
  return moved;
}

template <typename Function>
bool watch(void* handle, const char* name, Function hook, Function& moved) {
  auto* const function = static_cast<unsigned char*>(dlsym(handle, name));
  moved = function == nullptr
              ? nullptr
              : reinterpret_cast<Function>(replace(function, reinterpret_cast<void*>(hook)));
  return moved != nullptr;
}

}  // namespace

// The functions are looked up in the driver itself, or behind whatever else defines them.
extern "C" __attribute__((visibility("default"))) bool watch_driver(bool behind_others) {
  void* const handle = behind_others ? RTLD_NEXT : dlopen("libcuda.so.1", RTLD_LAZY);
  return watch(handle, "cuMemAlloc_v2", &watch_allocate, moved_allocate) &&
         watch(handle, "cuMemFree_v2", &watch_free, moved_free);
}
extern "C" __attribute__((visibility("default"))) void print_watched() {
  std::printf("seen: %d allocations, %d frees\n", allocations, frees);
}
