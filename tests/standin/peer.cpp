// A second process for the tests. Prints one line.
//   free                    what cuMemGetInfo says is free
//   allocate BYTES          the result of cuMemAlloc
//   exchange HANDLE VALUE   the first word behind an IPC handle (in hex), which it then overwrites
//   open-twice HANDLE       of two openings and three closings: the results, and the first word
//   open-in-two-contexts HANDLE   the results
//   use-no-stream           dies of a stream that the driver never gave
#include <cuda.h>

#include <sys/resource.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

CUresult Open(CUdeviceptr* out, const std::string& text) {
  CUipcMemHandle handle;
  for (std::size_t i = 0; i < sizeof(handle); ++i) {
    const unsigned long byte = std::strtoul(text.substr(2 * i, 2).c_str(), nullptr, 16);
    handle.reserved[i] = static_cast<char>(byte);
  }
  return cuIpcOpenMemHandle_v2(out, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
}

unsigned WordAt(CUdeviceptr memory) {
  unsigned word = 0;
  cuMemcpyDtoH_v2(&word, memory, sizeof(word));
  return word;
}

unsigned Exchange(const std::string& text, unsigned value) {
  CUdeviceptr memory = 0;
  if (Open(&memory, text)) return 0;
  const unsigned before = WordAt(memory);
  cuMemcpyHtoD_v2(memory, &value, sizeof(value));
  return cuIpcCloseMemHandle(memory) == CUDA_SUCCESS ? before : 0;
}

void OpenTwice(const std::string& text) {
  CUdeviceptr first = 0;
  CUdeviceptr second = 0;
  const CUresult opened = Open(&first, text);
  const CUresult opened_again = Open(&second, text);
  const unsigned before = WordAt(first);
  const CUresult closed = cuIpcCloseMemHandle(first);
  const unsigned between = WordAt(second);
  const CUresult closed_again = cuIpcCloseMemHandle(second);
  std::printf("%d %d %s, %u %d %u, %d %d\n", opened, opened_again,
              first == second ? "same" : "another", before, closed, between, closed_again,
              cuIpcCloseMemHandle(second));
}

void OpenInTwoContexts(const std::string& text) {
  CUdeviceptr memory = 0;
  CUcontext second = nullptr;
  const CUresult opened = Open(&memory, text);
  cuCtxCreate_v2(&second, 0, 0);
  std::printf("%d %d\n", opened, Open(&memory, text));
}

// By the signal itself, and without a file of what was in memory.
void UseNoStream() {
  const rlimit none{};
  setrlimit(RLIMIT_CORE, &none);
  std::signal(SIGSEGV, SIG_DFL);
  cuStreamQuery(reinterpret_cast<CUstream>(0x5a5a5a5a));
}

}  // namespace

int main(int argc, char** argv) {
  CUcontext context = nullptr;
  if (argc < 2 || cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0)) return 1;
  cuCtxSetCurrent(context);
  const std::string what = argv[1];
  if (what == "free") {
    std::size_t free = 0;
    cuMemGetInfo_v2(&free, nullptr);
    std::printf("%zu\n", free);
  } else if (what == "allocate" && argc == 3) {
    CUdeviceptr memory = 0;
    std::printf("%d\n", cuMemAlloc_v2(&memory, std::strtoull(argv[2], nullptr, 10)));
  } else if (what == "exchange" && argc == 4) {
    const auto value = static_cast<unsigned>(std::strtoul(argv[3], nullptr, 10));
    std::printf("%u\n", Exchange(argv[2], value));
  } else if (what == "open-twice" && argc == 3) {
    OpenTwice(argv[2]);
  } else if (what == "open-in-two-contexts" && argc == 3) {
    OpenInTwoContexts(argv[2]);
  } else if (what == "use-no-stream") {
    UseNoStream();
  } else {
    return 1;
  }
  return 0;
}
