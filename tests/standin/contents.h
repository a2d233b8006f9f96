// What device memory holds. Where STANDIN_DATA is none that costs the host next to nothing: only
// copies and sets of at most 64 KiB leave their bytes there, everything else leaves zeros, and so
// does a kernel, which may have written anywhere in the blocks that it was given. What holds zeros
// alone has no pages of the host's. Without the setting every byte is there.
//
// Work of streams calls these, without state().mutex, unless another thing is said.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <vector>

#include "fill.h"

namespace standin {

// Whether a copy or a set of so many bytes to that address leaves its bytes there. Wants
// state().mutex held.
bool LeavesItsBytes(CUdeviceptr to, std::size_t bytes);

// A piece of a copy, or all of it; `of`: the bytes of all its pieces.
void MoveBytes(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, std::size_t of);

// Makes it zeros, in whatever state the mutex is.
void Empty(CUdeviceptr start, std::size_t bytes);

// What a set does, for a range of so many bytes; false where FillRows must do it.
bool EmptyInsteadOfSet(CUdeviceptr to, std::size_t pitch, std::size_t row, std::size_t height);

// `pitch`: bytes from one row to the next.
template <typename Value>
void SetRows(CUdeviceptr to, std::size_t pitch, Value value, std::size_t width,
             std::size_t height) {
  if (!EmptyInsteadOfSet(to, pitch, width * sizeof(Value), height)) {
    FillRows(to, pitch, value, width, height);
  }
}

// A kernel that computes nothing has been given these addresses of device memory.
void EmptyBlocksOf(const std::vector<CUdeviceptr>& addresses);

}  // namespace standin
