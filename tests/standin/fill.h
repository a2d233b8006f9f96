// What a set writes: rows of one value.
#pragma once

#include <cuda.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace standin {

// The first value, then twice as many each time: a copy is fast however this is compiled, and
// ThreadSanitizer checks it as a whole, not value by value.
template <typename Value>
void FillRow(Value* start, std::size_t count, Value value) {
  if (count == 0) return;
  *start = value;
  for (std::size_t done = 1; done < count; done += std::min(done, count - done)) {
    std::memcpy(start + done, start, std::min(done, count - done) * sizeof(Value));
  }
}

// `pitch`: bytes from one row to the next.
template <typename Value>
void FillRows(CUdeviceptr to, std::size_t pitch, Value value, std::size_t width,
              std::size_t height) {
  for (std::size_t row = 0; row < height; ++row) {
    FillRow(reinterpret_cast<Value*>(to + row * pitch), width, value);
  }
}

}  // namespace standin
