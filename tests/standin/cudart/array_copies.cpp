// cudaMemcpy3D, and copies to and from arrays.
#include <algorithm>

#include "convert.h"
#include "forward.h"

using namespace cudart;

namespace {

// One side of a copy of a rectangle. An array's row is as long as its elements; a pointer's bytes
// lie one behind the other.
struct Place {
  cudaArray_const_t array = nullptr;
  const void* pointer = nullptr;
  size_t pitch = 0;
  size_t x = 0;
  size_t y = 0;
  size_t row = 0;
};

CUDA_MEMCPY2D Between(const Place& to, const Place& from, size_t width, size_t height) {
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = from.array ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED;
  copy.srcArray = Array(from.array);
  copy.srcDevice = Device(from.pointer);
  copy.srcPitch = from.pitch;
  copy.srcXInBytes = from.x;
  copy.srcY = from.y;
  copy.dstMemoryType = to.array ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED;
  copy.dstArray = Array(to.array);
  copy.dstDevice = Device(to.pointer);
  copy.dstPitch = to.pitch;
  copy.dstXInBytes = to.x;
  copy.dstY = to.y;
  copy.WidthInBytes = width;
  copy.Height = height;
  return copy;
}

// Copies at once, or in a stream.
struct AtOnce {
  CUresult operator()(const Driver& driver, const CUDA_MEMCPY2D& copy) const {
    return driver.cuMemcpy2DUnaligned_v2(&copy);
  }
};
struct InStream {
  cudaStream_t stream;
  CUresult operator()(const Driver& driver, const CUDA_MEMCPY2D& copy) const {
    return driver.cuMemcpy2DAsync_v2(&copy, stream);
  }
};

template <typename Move>
cudaError_t CopyRectangle(const Place& to, const Place& from, size_t width, size_t height,
                          cudaMemcpyKind kind, Move move) {
  return WithContext([&](const Driver& driver) {
    if (!IsKind(kind)) return cudaErrorInvalidMemcpyDirection;
    return ToRuntime(move(driver, Between(to, from, width, height)));
  });
}

cudaError_t MeasureRow(const Driver& driver, Place& place) {
  if (!place.array) return cudaSuccess;
  size_t element = 0;
  const cudaError_t error = Measure(driver, Array(place.array), element, place.row);
  return error == cudaSuccess && place.x > place.row ? cudaErrorInvalidValue : error;
}

void Advance(Place& place, size_t bytes) {
  if (!place.array) {
    place.pointer = static_cast<const char*>(place.pointer) + bytes;
  } else if ((place.x += bytes) == place.row) {
    place.x = 0;
    ++place.y;
  }
}

// Bytes in the order of memory, which go on in an array's next row.
template <typename Move>
cudaError_t CopyBytes(Place to, Place from, size_t bytes, cudaMemcpyKind kind, Move move) {
  return WithContext([&](const Driver& driver) {
    if (!IsKind(kind)) return cudaErrorInvalidMemcpyDirection;
    for (Place* const place : {&to, &from}) {
      if (const cudaError_t error = MeasureRow(driver, *place)) return error;
    }
    while (bytes > 0) {
      size_t piece = bytes;
      for (const Place& place : {to, from}) {
        if (place.array) piece = std::min(piece, place.row - place.x);
      }
      if (piece == 0) return cudaErrorInvalidValue;
      if (const CUresult error = move(driver, Between(to, from, piece, 1))) {
        return ToRuntime(error);
      }
      Advance(to, piece);
      Advance(from, piece);
      bytes -= piece;
    }
    return cudaSuccess;
  });
}

// Runs body(driver, box) for what the runtime's description says.
template <typename Box, typename Copy, typename Body>
cudaError_t WithBox(const Copy* copy, Body body) {
  return WithContext([&](const Driver& driver) {
    if (!copy) return cudaErrorInvalidValue;
    Box box{};
    if (const cudaError_t error = ToBox(driver, *copy, box)) return error;
    return ToRuntime(body(driver, &box));
  });
}

}  // namespace

CUDART_API cudaMemcpy3D(const cudaMemcpy3DParms* copy) {
  return WithBox<CUDA_MEMCPY3D>(copy, [](const Driver& driver, const CUDA_MEMCPY3D* box) {
    return driver.cuMemcpy3D_v2(box);
  });
}

CUDART_API cudaMemcpy3DAsync(const cudaMemcpy3DParms* copy, cudaStream_t stream) {
  return WithBox<CUDA_MEMCPY3D>(copy, [&](const Driver& driver, const CUDA_MEMCPY3D* box) {
    return driver.cuMemcpy3DAsync_v2(box, stream);
  });
}

CUDART_API cudaMemcpy3DPeer(const cudaMemcpy3DPeerParms* copy) {
  return WithBox<CUDA_MEMCPY3D_PEER>(copy, [](const Driver& driver, const CUDA_MEMCPY3D_PEER* box) {
    return driver.cuMemcpy3DPeer(box);
  });
}

CUDART_API cudaMemcpy3DPeerAsync(const cudaMemcpy3DPeerParms* copy, cudaStream_t stream) {
  return WithBox<CUDA_MEMCPY3D_PEER>(copy,
                                     [&](const Driver& driver, const CUDA_MEMCPY3D_PEER* box) {
                                       return driver.cuMemcpy3DPeerAsync(box, stream);
                                     });
}

CUDART_API cudaMemcpy2DToArray(cudaArray_t to, size_t x, size_t y, const void* from, size_t pitch,
                               size_t width, size_t height, cudaMemcpyKind kind) {
  return CopyRectangle({.array = to, .x = x, .y = y}, {.pointer = from, .pitch = pitch}, width,
                       height, kind, AtOnce{});
}

CUDART_API cudaMemcpy2DToArrayAsync(cudaArray_t to, size_t x, size_t y, const void* from,
                                    size_t pitch, size_t width, size_t height, cudaMemcpyKind kind,
                                    cudaStream_t stream) {
  return CopyRectangle({.array = to, .x = x, .y = y}, {.pointer = from, .pitch = pitch}, width,
                       height, kind, InStream{stream});
}

CUDART_API cudaMemcpy2DFromArray(void* to, size_t pitch, cudaArray_const_t from, size_t x, size_t y,
                                 size_t width, size_t height, cudaMemcpyKind kind) {
  return CopyRectangle({.pointer = to, .pitch = pitch}, {.array = from, .x = x, .y = y}, width,
                       height, kind, AtOnce{});
}

CUDART_API cudaMemcpy2DFromArrayAsync(void* to, size_t pitch, cudaArray_const_t from, size_t x,
                                      size_t y, size_t width, size_t height, cudaMemcpyKind kind,
                                      cudaStream_t stream) {
  return CopyRectangle({.pointer = to, .pitch = pitch}, {.array = from, .x = x, .y = y}, width,
                       height, kind, InStream{stream});
}

CUDART_API cudaMemcpy2DArrayToArray(cudaArray_t to, size_t to_x, size_t to_y,
                                    cudaArray_const_t from, size_t from_x, size_t from_y,
                                    size_t width, size_t height, cudaMemcpyKind kind) {
  return CopyRectangle({.array = to, .x = to_x, .y = to_y},
                       {.array = from, .x = from_x, .y = from_y}, width, height, kind, AtOnce{});
}

CUDART_API cudaMemcpyToArray(cudaArray_t to, size_t x, size_t y, const void* from, size_t bytes,
                             cudaMemcpyKind kind) {
  return CopyBytes({.array = to, .x = x, .y = y}, {.pointer = from}, bytes, kind, AtOnce{});
}

CUDART_API cudaMemcpyToArrayAsync(cudaArray_t to, size_t x, size_t y, const void* from,
                                  size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return CopyBytes({.array = to, .x = x, .y = y}, {.pointer = from}, bytes, kind, InStream{stream});
}

CUDART_API cudaMemcpyFromArray(void* to, cudaArray_const_t from, size_t x, size_t y, size_t bytes,
                               cudaMemcpyKind kind) {
  return CopyBytes({.pointer = to}, {.array = from, .x = x, .y = y}, bytes, kind, AtOnce{});
}

CUDART_API cudaMemcpyFromArrayAsync(void* to, cudaArray_const_t from, size_t x, size_t y,
                                    size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return CopyBytes({.pointer = to}, {.array = from, .x = x, .y = y}, bytes, kind, InStream{stream});
}

CUDART_API cudaMemcpyArrayToArray(cudaArray_t to, size_t to_x, size_t to_y, cudaArray_const_t from,
                                  size_t from_x, size_t from_y, size_t bytes, cudaMemcpyKind kind) {
  return CopyBytes({.array = to, .x = to_x, .y = to_y}, {.array = from, .x = from_x, .y = from_y},
                   bytes, kind, AtOnce{});
}
