// What all processes together hold of a GPU's memory, as NVML tells it. A child of this command
// asks it (`cubfc top --child=gpu-memory`, nvml_memory.h): NVML may hang as the driver may, and is
// to be loaded without what is preloaded here. No CUDA context is made, and no GPU is asked about
// but those that a process uses, which are awake.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "shim/meet/descriptor.h"

namespace cubfc::live {

struct GpuMemory {
  std::uint64_t total_bytes;  // without what the driver keeps for itself, where it tells that
  std::uint64_t used_bytes;   // of that, by contexts and modules, too
};

struct GpuMemories {
  std::map<std::string, GpuMemory> known;      // by UUID, as figures::uuid_text() has it
  std::map<std::string, std::string> unknown;  // why not
};

// Not for several threads.
class GpuMemoryAsker {
 public:
  GpuMemoryAsker() = default;
  GpuMemoryAsker(const GpuMemoryAsker&) = delete;
  GpuMemoryAsker& operator=(const GpuMemoryAsker&) = delete;
  ~GpuMemoryAsker();

  // Of each of these GPUs it is told what is known, or why that is not. Waits so long for an
  // answer, but only once: while none has come, later calls look whether it has. Without GPUs
  // nobody is asked.
  GpuMemories ask(const std::vector<std::string>& uuids, std::chrono::milliseconds patience);

 private:
  bool start();
  void send(const std::vector<std::string>& uuids);
  bool has_answer(std::chrono::milliseconds patience);

  pid_t child_ = -1;
  Descriptor socket_;
  bool was_started_ = false;
  bool is_asked_ = false;
  std::string came_;  // of an answer, so far
};

// An answer of the child's: lines "UUID TOTAL USED", or "UUID - WHY". Texts that are neither are
// left out.
GpuMemories read_gpu_memories(const std::string& answer);

}  // namespace cubfc::live
