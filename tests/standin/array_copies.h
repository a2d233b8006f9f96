// Copies where one side may be an array, for the functions that also copy rows of plain memory.
#pragma once

#include "copies.h"

namespace standin {

enum class Wait { kForHost, kNever };

CUresult CopyBox(const CUDA_MEMCPY3D* copy, CUstream stream, Wait wait, By by = By::kStreamsDevice);
CUresult CopyRectangle(const CUDA_MEMCPY2D& copy, CUstream stream, Wait wait);

}  // namespace standin
