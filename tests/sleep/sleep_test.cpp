// A program that sleeps and wakes, on one device of 512 MiB.
#include "sleep/sleeping.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>

// Newer headers declare only the newest form.
extern "C" CUresult CUDAAPI cuCtxCreate_v2(CUcontext* context, unsigned flags, CUdevice device);

using namespace sleeping;

TEST_CASE("a program that sleeps has no memory, and wakes with its bytes at their addresses",
          "[plain]") {
  const OwnContext context;
  const Blocks blocks;
  for (int i = 0; i < 3; ++i) {
    put_to_sleep();
    CHECK(held() == 0);
    CHECK(blocks.are_whole());
    CHECK(held() > blocks.bytes());
  }
  put_to_sleep();
  CHECK(wake().is_done);
  CHECK(held() > blocks.bytes());
  CHECK(blocks.are_whole());
}

TEST_CASE("what a sleeping program does without its memory does not wake it", "[plain]") {
  const OwnContext context;
  Blocks blocks;
  put_to_sleep();
  must(cuMemFree(blocks.all.back().address));
  blocks.all.pop_back();
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  must(cuMemGetInfo(&free_bytes, &total_bytes));
  CHECK(free_bytes <= total_bytes - blocks.bytes());  // what is to come back is not free
  CHECK(free_bytes >= total_bytes - asleep());
  CUmemorytype type{};
  CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                              reinterpret_cast<CUdeviceptr>(&type)) == CUDA_ERROR_INVALID_VALUE);
  CUstream stream = nullptr;
  must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  must(cuStreamSynchronize(stream));
  must(cuStreamDestroy(stream));
  must(cuCtxSynchronize());
  CHECK(held() == 0);
  CHECK(sleep().is_done);
  CHECK(blocks.are_whole());
}

TEST_CASE("each call that needs the memory wakes the program first", "[plain]") {
  const OwnContext context;
  const Blocks blocks;
  const CUdeviceptr at = blocks.all[0].address;
  CUstream stream = nullptr;
  must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CUgraph graph = nullptr;
  CUgraphExec program = nullptr;
  must(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  must(cuMemsetD8Async(at, blocks.all[0].fill, 10, stream));
  must(cuStreamEndCapture(stream, &graph));
  must(cuGraphInstantiate(&program, graph, 0));
  std::vector<unsigned char> host(10, blocks.all[0].fill);
  std::size_t bytes = 0;
  CUdeviceptr base = 0;
  CUcontext owner = nullptr;
  const std::vector<std::pair<const char*, std::function<CUresult()>>> calls{
      {"cuMemsetD8", [&] { return cuMemsetD8(at, blocks.all[0].fill, 10); }},
      {"cuMemsetD8Async", [&] { return cuMemsetD8Async(at, blocks.all[0].fill, 10, stream); }},
      {"cuMemcpyHtoD", [&] { return cuMemcpyHtoD(at, host.data(), 10); }},
      {"cuMemcpyDtoH", [&] { return cuMemcpyDtoH(host.data(), at, 10); }},
      {"cuMemcpyDtoD", [&] { return cuMemcpyDtoD(at, at + 50, 10); }},
      {"cuMemcpyAsync", [&] { return cuMemcpyAsync(at, at + 50, 10, stream); }},
      {"cuGraphLaunch", [&] { return cuGraphLaunch(program, stream); }},
      {"cuLaunchHostFunc",
       [&] {
         return cuLaunchHostFunc(
             stream, [](void*) {}, nullptr);
       }},
      {"cuPointerGetAttribute",
       [&] { return cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, at); }},
      {"cuMemGetAddressRange", [&] { return cuMemGetAddressRange(&base, &bytes, at); }},
      {"cuMemAlloc",
       [&] {
         CUdeviceptr block = 0;
         const CUresult result = cuMemAlloc(&block, 1000);
         cuMemFree(block);
         return result;
       }},
      {"cuStreamBeginCapture",
       [&] {
         CUgraph other = nullptr;
         must(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
         must(cuStreamEndCapture(stream, &other));
         return cuGraphDestroy(other);
       }},
  };
  for (const auto& [name, each] : calls) {
    INFO(name);
    must(cuStreamSynchronize(stream));
    put_to_sleep();
    REQUIRE(held() == 0);
    CHECK(each() == CUDA_SUCCESS);
    CHECK(held() > 0);
    must(cuStreamSynchronize(stream));
    CHECK(blocks.are_whole());
  }
  must(cuGraphExecDestroy(program));
  must(cuGraphDestroy(graph));
  must(cuStreamDestroy(stream));
}

TEST_CASE("several threads that call a sleeping program's functions wake it once", "[plain]") {
  const OwnContext context;
  const Blocks blocks;
  put_to_sleep();
  std::vector<std::thread> threads;
  std::atomic<int> whole{0};
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      cuCtxSetCurrent(context.handle);
      whole += blocks.are_whole() ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(whole == 8);
}

TEST_CASE("a page takes at most four driver calls on its way out, and four on its way back",
          "[plain]") {
  const OwnContext context;
  const Blocks blocks(8);
  put_to_sleep();  // the buffer for the copies is made now
  REQUIRE(wake().is_done);
  const std::uint64_t page_bytes = 2 << 20;
  const std::uint64_t pages = held() / page_bytes;
  const auto calls = [](std::initializer_list<const char*> names) {
    std::uint64_t sum = 0;
    for (const char* const name : names) {
      sum += standin_calls(name);
    }
    return sum;
  };
  standin_reset_calls();
  put_to_sleep();
  CHECK(calls({"cuMemcpyDtoH_v2_ptds", "cuMemUnmap", "cuMemRelease"}) <= 4 * pages);
  CHECK(standin_calls("cuMemRelease") == pages);
  standin_reset_calls();
  REQUIRE(wake().is_done);
  CHECK(calls({"cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemcpyHtoD_v2_ptds"}) <= 4 * pages);
  CHECK(standin_calls("cuMemCreate") == pages);
  CHECK(blocks.are_whole());
}

TEST_CASE("blocks that others may reach stay where they are, and all else sleeps", "[plain]") {
  const OwnContext context;
  Blocks blocks;
  const Blocks::Block shared = blocks.all[0];
  CUipcMemHandle handle{};
  cuIpcGetMemHandle(&handle,
                    shared.address);  // refused by the driver, and taken for granted all the same
  put_to_sleep();
  CHECK(held() > 0);
  CHECK(held() == 2 << 20);
  CHECK(blocks.are_whole());
}

TEST_CASE(
    "a program whose device is full when it wakes gets that as an answer, and its bytes later",
    "[plain]") {
  const OwnContext context;
  const Blocks blocks;
  put_to_sleep();
  standin_fail("cuMemCreate", CUDA_ERROR_OUT_OF_MEMORY, 0, UINT64_MAX);  // as if it were full
  unsigned char byte = 0;
  for (int i = 0; i < 2; ++i) {
    CHECK(cuMemcpyDtoH(&byte, blocks.all[0].address, 1) == CUDA_ERROR_OUT_OF_MEMORY);
    const Told told = wake();
    CHECK_FALSE(told.is_done);
    CHECK(told.text.find("sleeps on") != std::string::npos);
    CHECK(held() == 0);
  }
  standin_fail("cuMemCreate", CUDA_ERROR_OUT_OF_MEMORY, 0, 0);
  CHECK(blocks.are_whole());
}

TEST_CASE("blocks that are freed while the program sleeps need no memory when it wakes",
          "[plain]") {
  const OwnContext context;
  Blocks blocks(0);
  for (unsigned char i = 1; i <= 10; ++i) {
    blocks.add(8 << 20, i);
  }
  put_to_sleep();
  const std::uint64_t away = asleep();
  while (blocks.all.size() > 2) {
    must(cuMemFree(blocks.all[1].address));
    blocks.all.erase(blocks.all.begin() + 1);
  }
  constexpr std::uint64_t kPages = 2 * (8 + 2) / 2;  // of 2 MiB; the blocks begin anywhere in one
  standin_fail("cuMemCreate", CUDA_ERROR_OUT_OF_MEMORY, kPages, UINT64_MAX);
  const Told told = wake();
  standin_fail("cuMemCreate", CUDA_ERROR_OUT_OF_MEMORY, 0, 0);
  INFO(told.text);
  CHECK(told.is_done);
  CHECK(held() <= kPages * (2 << 20));
  CHECK(asleep() == 0);
  CHECK(blocks.are_whole());
  for (unsigned char i = 11; i <= 19; ++i) {
    blocks.add(8 << 20, i);
  }
  put_to_sleep();
  CHECK(asleep() >= away);
  CHECK(blocks.are_whole());
}

TEST_CASE("a context that ends while the program wakes fails no call in another", "[plain]") {
  const OwnContext context;
  const Blocks blocks;
  CUcontext other = nullptr;
  must(cuCtxCreate_v2(&other, 0, context.device));
  CUdeviceptr block = 0;
  must(cuMemAlloc(&block, 20 << 20));
  must(cuCtxSynchronize());
  must(cuCtxSetCurrent(context.handle));
  for (const bool is_slow : {true, false}) {
    put_to_sleep();
    standin_latency("cuCtxDestroy_v2", is_slow ? 200'000'000 : 0);
    const std::uint64_t ends = standin_calls("cuCtxDestroy_v2");
    std::thread end([&] { cuCtxDestroy(other); });
    while (standin_calls("cuCtxDestroy_v2") == ends) {
      std::this_thread::yield();
    }
    CHECK(blocks.are_whole());
    end.join();
    CHECK(blocks.are_whole());
    must(cuCtxCreate_v2(&other, 0, context.device));
    must(cuMemAlloc(&block, 20 << 20));
    must(cuCtxSetCurrent(context.handle));
  }
  standin_latency("cuCtxDestroy_v2", 0);
  must(cuCtxDestroy(other));
}

TEST_CASE("what lies behind a call's arguments is not taken for one of them", "[plain]") {
  const OwnContext context;
  const Blocks blocks;
  CUipcMemHandle handle{};
  using WithMore = CUresult(CUipcMemHandle*, CUdeviceptr, std::uintptr_t);
  const auto call = reinterpret_cast<WithMore*>(reinterpret_cast<void*>(&cuIpcGetMemHandle));
  call(&handle, blocks.all[0].address, ~std::uintptr_t{0});
  put_to_sleep();
  CHECK(held() == 2 << 20);
  CHECK(blocks.are_whole());
}

#if defined(__x86_64__)
// As a fiber's first function may, whose stack has nothing above it.
TEST_CASE("a gate reads nothing above the stack of its caller", "[plain]") {
  const OwnContext context;
  const Blocks blocks;
  constexpr std::size_t kStack = 1 << 20;
  auto* const memory = static_cast<char*>(
      mmap(nullptr, kStack + 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  REQUIRE(mprotect(memory, kStack, PROT_READ | PROT_WRITE) == 0);
  unsigned char byte = 0;
  CUresult result = CUDA_ERROR_UNKNOWN;
  for (int i = 0; i < 2; ++i) {
    __asm__ volatile("movq %%rsp, %%rbx\n movq %[end], %%rsp\n call *%[call]\n movq %%rbx, %%rsp\n"
                     : "=a"(result)
                     : [end] "r"(memory + kStack), [call] "r"(&cuMemcpyDtoH), "D"(&byte),
                       "S"(blocks.all[0].address), "d"(std::size_t{1})
                     : "rbx", "rcx", "r8", "r9", "r10", "r11", "cc", "memory");
    CHECK(result == CUDA_SUCCESS);
    CHECK(byte == blocks.all[0].fill);
    put_to_sleep();  // then through a stopped gate
  }
  munmap(memory, kStack + 4096);
}
#endif

TEST_CASE("the memory of all devices sleeps, and is reached by all of them again", "[plain]") {
  const OwnContext first;
  const Blocks blocks;
  CUdevice second = 0;
  CUcontext other = nullptr;
  must(cuDeviceGet(&second, 1));
  must(cuDevicePrimaryCtxRetain(&other, second));
  must(cuCtxSetCurrent(other));
  {
    const Blocks of_second;
    put_to_sleep();
    CHECK(standin_live_bytes(0) == 0);
    CHECK(standin_live_bytes(1) == 0);
    // A copy between the devices, and by the stream of one of them.
    must(cuMemcpy(of_second.all[0].address, blocks.all[0].address, blocks.all[0].bytes));
    must(cuMemsetD8(of_second.all[0].address, of_second.all[0].fill, of_second.all[0].bytes));
    CHECK(standin_live_bytes(0) > 0);
    CHECK(standin_live_bytes(1) > 0);
    CHECK(blocks.are_whole());
    CHECK(of_second.are_whole());
  }
  must(cuCtxSetCurrent(first.handle));
  must(cuDevicePrimaryCtxReset(second));
  must(cuDevicePrimaryCtxRelease(second));
}

TEST_CASE("a child that is forked while its parent sleeps ends, and the parent has its bytes",
          "[plain]") {
  const OwnContext context;
  const Blocks blocks;
  put_to_sleep();
  const pid_t child = fork();
  if (child == 0) {
    unsigned char byte = 0;
    _exit(cuMemcpyDtoH(&byte, blocks.all[0].address, 1) == CUDA_SUCCESS ? 1 : 0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(held() == 0);
  CHECK(blocks.are_whole());
}

TEST_CASE("a context that ends while its program sleeps takes its memory along", "[plain]") {
  {
    const OwnContext context;
    const Blocks blocks;
    put_to_sleep();
  }
  CHECK(held() == 0);
  CHECK(asleep() == 0);
  const OwnContext context;
  const Blocks blocks;
  CHECK(blocks.are_whole());
  put_to_sleep();
  CHECK(blocks.are_whole());
}
