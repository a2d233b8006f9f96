// What the runtime and the driver have in different forms: places in memory, copies, arrays'
// formats.
#pragma once

#include <cstddef>

#include "runtime.h"

namespace cudart {

inline CUdeviceptr Device(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}
inline CUdeviceptr* Device(void** pointer) {
  return reinterpret_cast<CUdeviceptr*>(pointer);
}
inline void* Pointer(CUdeviceptr address) {
  return reinterpret_cast<void*>(address);
}
inline CUarray Array(cudaArray_const_t array) {
  return reinterpret_cast<CUarray>(const_cast<cudaArray_t>(array));
}

CUmemLocation Location(const cudaMemLocation& location);
CUmemPoolProps PoolProperties(const cudaMemPoolProps& properties);

// The channels of an array's elements. Errors: cudaErrorInvalidChannelDescriptor for what the
// driver has no plain format of.
struct Format {
  CUarray_format format;
  unsigned channels;
};
cudaError_t ToFormat(const cudaChannelFormatDesc& description, Format& out);
cudaChannelFormatDesc ToDescription(CUarray_format format, unsigned channels);
// An array's elements and rows in bytes.
cudaError_t Measure(const Driver& driver, CUarray array, std::size_t& element, std::size_t& row);

// A copy of a box. The runtime counts its width in an array's elements where there is an array.
cudaError_t ToBox(const Driver& driver, const cudaMemcpy3DParms& copy, CUDA_MEMCPY3D& out);
cudaError_t ToBox(const Driver& driver, const cudaMemcpy3DPeerParms& copy, CUDA_MEMCPY3D_PEER& out);
cudaError_t FromBox(const Driver& driver, const CUDA_MEMCPY3D& box, cudaMemcpy3DParms& out);

inline bool IsKind(cudaMemcpyKind kind) {
  return kind >= cudaMemcpyHostToHost && kind <= cudaMemcpyDefault;
}

// A row of bytes as a box.
CUDA_MEMCPY3D Row(void* to, const void* from, std::size_t bytes);

}  // namespace cudart
