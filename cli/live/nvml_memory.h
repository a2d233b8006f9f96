// The child of `cubfc top` that asks NVML: see gpu_memory.h.
#pragma once

namespace cubfc::live {

// Has a folder for each GPU of the kernel's driver, named by the GPU's place on the bus. Reading
// there wakes no GPU.
inline constexpr const char* kGpusOfDriver = "/proc/driver/nvidia/gpus";

// Reads lines from stdin until it ends. A line has UUIDs with blanks between them. The answer to a
// line is a line for each UUID (read_gpu_memories()) and an empty line. Opens GPUs by their places
// on the bus, since NVML may look at other GPUs when it is given a UUID (nvml.h,
// nvmlDeviceGetHandleByUUID).
void tell_gpu_memory();

}  // namespace cubfc::live
