// Copies where one side may be an array, for the functions that also copy rows of plain memory.
#pragma once

#include <optional>

#include "copies.h"

namespace standin {

enum class Wait { kForHost, kNever };

// `between`: contexts whose work it stands between.
CUresult CopyBox(const CUDA_MEMCPY3D* copy, CUstream stream, Wait wait, By by = By::kStreamsDevice,
                 const std::optional<std::vector<CUcontext>>& between = std::nullopt);
CUresult CopyRectangle(const CUDA_MEMCPY2D& copy, CUstream stream, Wait wait);

}  // namespace standin
