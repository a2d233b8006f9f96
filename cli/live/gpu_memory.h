// What all processes together hold of a GPU's memory, as NVML tells it. A child of this command
// asks NVML (`cubfc top --child=gpu-memory`, nvml_memory.h): NVML may hang, as the driver may, and
// must be loaded without what is preloaded into this process. Makes no CUDA context. Only GPUs that
// a process uses are asked about, which are awake.
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
  std::uint64_t total_bytes;  // from driver 510 on without what the driver reserves
  std::uint64_t used_bytes;   // of total_bytes; contexts and modules included
};

struct GpuMemories {
  std::map<std::string, GpuMemory> known;      // by UUID, as figures::uuid_text() has it
  std::map<std::string, std::string> unknown;  // by UUID: why not
};

// For one thread.
class GpuMemoryAsker {
 public:
  GpuMemoryAsker() = default;
  GpuMemoryAsker(const GpuMemoryAsker&) = delete;
  GpuMemoryAsker& operator=(const GpuMemoryAsker&) = delete;
  ~GpuMemoryAsker();

  // What is known of each of these GPUs, or why that is not known. Starts the child at the first
  // call. Waits for its answer once, for `patience`; while a late answer has not come, further
  // calls only look whether it has. Without GPUs, asks nothing.
  GpuMemories ask(const std::vector<std::string>& uuids, std::chrono::milliseconds patience);

 private:
  bool start();
  void send(const std::vector<std::string>& uuids);
  bool has_answer(std::chrono::milliseconds patience);

  pid_t child_ = -1;
  Descriptor socket_;
  bool was_started_ = false;
  bool is_asked_ = false;
  std::string came_;  // the part of an answer that has come
};

// Reads an answer of the child's: lines "UUID TOTAL USED", or "UUID - WHY". Other lines are left
// out.
GpuMemories read_gpu_memories(const std::string& answer);

}  // namespace cubfc::live
