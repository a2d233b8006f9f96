// The bytes that copies and sets touch, checked.
#pragma once

#include "state.h"

namespace standin {

// Whether [address, address + bytes) lies in one allocation or mapping. Wants state().mutex held.
bool IsDeviceRange(CUdeviceptr address, std::size_t bytes);

// Who does a copy: the stream's device, which has to reach both ends, or, as for cuMemcpyPeer, each
// end's own device.
enum class By { kStreamsDevice, kEachSidesDevice };

// Whether who does the copy reaches both ends; else the error of the call. What cuMemAlloc gave,
// and the host's memory, every device reaches; mapped memory only a device with access to it
// (cuMemSetAccess), and memory of a pool, too. Wants state().mutex held.
struct Range {
  CUdeviceptr address;
  std::size_t bytes;
};
CUresult CheckReach(const Stream& stream, By by, const Range& to, const Range& from);

// Whether the driver knows the host memory as pinned. Wants state().mutex held.
bool IsPinned(const void* address);

// Whether the host can read the memory: it is pinned, or managed. Wants state().mutex held.
bool IsReadByHost(CUdeviceptr address);

// cuMemcpyAsync, without state().mutex.
CUresult CopyAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream);

}  // namespace standin
