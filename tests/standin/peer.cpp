// A second process for the tests. Prints one line.
//   free                    what cuMemGetInfo says is free
//   allocate BYTES          the result of cuMemAlloc
//   exchange HANDLE VALUE   the first word behind an IPC handle (in hex), which it then overwrites
//   open-twice HANDLE       of two openings and three closings: the results, and the first word
//   open-in-two-contexts HANDLE   the results
//   query-event HANDLE      the result of cuEventQuery
//   record-event HANDLE     "held" once it has recorded the event behind held work; then the result
//                           of cuEventSynchronize after it let go
//   read-after-event EVENT HANDLE   "waiting" once its stream waits for the event; then the first
//                           word
//   import FD DATA VALUE    of an imported pool and an allocation of it: the results, that of an
//                           allocation from it, the first word, which is overwritten, and of a free
//   devices                 the result of cuInit, and each device's address on its bus
//   use-no-stream           dies of a stream that the driver never gave
#include <cuda.h>

#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "standin.h"

namespace {

template <typename Handle>
Handle FromHexadecimal(const std::string& text) {
  Handle handle;
  for (std::size_t i = 0; i < sizeof(handle) && 2 * i < text.size(); ++i) {
    const unsigned long byte = std::strtoul(text.substr(2 * i, 2).c_str(), nullptr, 16);
    handle.reserved[i] = static_cast<char>(byte);
  }
  return handle;
}

CUresult Open(CUdeviceptr* out, const std::string& text) {
  return cuIpcOpenMemHandle_v2(out, FromHexadecimal<CUipcMemHandle>(text),
                               CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
}

// No event where that fails, which the functions that get it then say.
CUevent OpenEvent(const std::string& text) {
  CUevent event = nullptr;
  cuIpcOpenEventHandle(&event, FromHexadecimal<CUipcEventHandle>(text));
  return event;
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

void Say(const char* line) {
  std::printf("%s\n", line);
  std::fflush(stdout);
}

void RecordEvent(const std::string& text) {
  const CUevent event = OpenEvent(text);
  standin_hold_stream(nullptr);
  cuEventRecord(event, nullptr);
  Say("held");
  std::getchar();  // when the other process has asked
  standin_release_stream(nullptr);
  std::printf("%d\n", cuEventSynchronize(event));
}

void ReadAfterEvent(const std::string& event, const std::string& handle) {
  CUdeviceptr memory = 0;
  unsigned word = 0;
  Open(&memory, handle);
  cuStreamWaitEvent(nullptr, OpenEvent(event), 0);
  std::atomic<bool> done{false};
  std::thread watching([&] {
    while (standin_waiting_calls() == 0 && !done) std::this_thread::yield();
    Say(done ? "not waiting" : "waiting");
  });
  cuMemcpyDtoHAsync_v2(&word, memory, sizeof(word), nullptr);
  cuStreamSynchronize(nullptr);
  done = true;
  watching.join();
  std::printf("%u\n", word);
}

void Import(int fd, const std::string& text, unsigned value) {
  CUmemoryPool pool = nullptr;
  CUresult result = cuMemPoolImportFromShareableHandle(
      &pool, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)),
      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  std::printf("%d", result);
  CUdeviceptr memory = 0;
  auto data = FromHexadecimal<CUmemPoolPtrExportData>(text);
  if (result == CUDA_SUCCESS) {
    result = cuMemPoolImportPointer(&memory, pool, &data);
    std::printf(" %d", result);
  }
  if (result == CUDA_SUCCESS) {
    CUdeviceptr more = 0;
    const CUresult allocated = cuMemAllocFromPoolAsync(&more, 512, pool, nullptr);
    const unsigned before = WordAt(memory);
    cuMemcpyHtoD_v2(memory, &value, sizeof(value));
    std::printf(" %d %u %d", allocated, before, cuMemFreeAsync(memory, nullptr));
    cuCtxSynchronize();
  }
  std::printf("\n");
}

// By the signal itself, and without a file of what was in memory.
void UseNoStream() {
  const rlimit none{};
  setrlimit(RLIMIT_CORE, &none);
  std::signal(SIGSEGV, SIG_DFL);
  cuStreamQuery(reinterpret_cast<CUstream>(0x5a5a5a5a));
}

void ShowDevices() {
  int count = 0;
  std::printf("%d", cuInit(0));
  cuDeviceGetCount(&count);
  for (int i = 0; i < count; ++i) {
    char id[20] = {};
    CUdevice found = -1;
    cuDeviceGetPCIBusId(id, sizeof id, i);
    cuDeviceGetByPCIBusId(&found, id);
    std::printf(" %s%s", id, found == i ? "" : " (another)");
  }
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "devices") == 0) {
    ShowDevices();
    return 0;
  }
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
  } else if (what == "query-event" && argc == 3) {
    std::printf("%d\n", cuEventQuery(OpenEvent(argv[2])));
  } else if (what == "record-event" && argc == 3) {
    RecordEvent(argv[2]);
  } else if (what == "read-after-event" && argc == 4) {
    ReadAfterEvent(argv[2], argv[3]);
  } else if (what == "import" && argc == 5) {
    Import(std::atoi(argv[2]), argv[3], static_cast<unsigned>(std::strtoul(argv[4], nullptr, 10)));
  } else if (what == "use-no-stream") {
    UseNoStream();
  } else {
    return 1;
  }
  return 0;
}
