// Copies where one side may be an array, for the functions that also copy rows of plain memory.
#pragma once

#include "state.h"

namespace standin {

enum class Wait { kForHost, kNever };

CUresult CopyBox(const CUDA_MEMCPY3D* copy, CUstream stream, Wait wait);
CUresult CopyRectangle(const CUDA_MEMCPY2D& copy, CUstream stream, Wait wait);

}  // namespace standin
