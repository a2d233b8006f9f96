// For the child of `cubfc top` that asks NVML: see gpu_memory.h.
#pragma once

namespace cubfc::live {

// A folder for each GPU of the kernel's driver, by its place on the bus. To read there wakes none.
inline constexpr const char* kGpusOfDriver = "/proc/driver/nvidia/gpus";

// Answers each line of stdin, UUIDs with blanks between, with a line for each of them and an empty
// one, until stdin ends. By its place on the bus NVML opens a GPU without a look at others, which
// it may do when it is given the UUID (nvml.h, nvmlDeviceGetHandleByUUID).
void tell_gpu_memory();

}  // namespace cubfc::live
