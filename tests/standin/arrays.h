// CUDA arrays, for what copies to and from them and for textures.
#pragma once

#include <memory>

#include "state.h"

namespace standin {

struct Array {
  Id context_id = 0;
  int device = 0;
  std::size_t counted_bytes = 0;  // on the device
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  std::vector<CUarray> levels = {};      // of a mipmapped array; they go with it
  const void* mipmapped = nullptr;       // of a level
  std::shared_ptr<std::byte> data = {};  // of a plain one, from its first use on

  std::size_t element_bytes() const;
  std::size_t pitch() const { return shape.Width * element_bytes(); }
  std::size_t height() const { return shape.Height == 0 ? 1 : shape.Height; }
  std::size_t depth() const { return shape.Depth == 0 ? 1 : shape.Depth; }
  // Zero until they are written: rows without gaps, layer by layer. Null where there is no memory.
  std::byte* bytes();
};

// The functions below want state().mutex held.

// A CUarray or a CUmipmappedArray; `mipmapped` is which one is wanted.
CUresult FindArray(const void* handle, bool mipmapped, std::shared_ptr<Array>& out);

}  // namespace standin
