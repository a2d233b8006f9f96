// Answers that a real card gave, an RTX 3060, as tables of a call and its result.
#pragma once

#include <cuda.h>

#include <functional>
#include <vector>

#include "catch.h"

namespace standin_test {

struct Answer {
  const char* call;
  CUresult result;
  std::function<CUresult()> make;
};

// Also of what cuda.h has no name for.
template <typename Enum>
Enum Numbered(int number) {
  return static_cast<Enum>(number);
}

// Makes the calls in their order.
inline void CheckAnswers(const std::vector<Answer>& answers) {
  for (const Answer& answer : answers) {
    INFO(answer.call);
    CHECK(answer.make() == answer.result);
  }
}

constexpr CUresult kFine = CUDA_SUCCESS;
constexpr CUresult kValue = CUDA_ERROR_INVALID_VALUE;
constexpr CUresult kHandle = CUDA_ERROR_INVALID_HANDLE;
constexpr CUresult kDevice = CUDA_ERROR_INVALID_DEVICE;
constexpr CUresult kContext = CUDA_ERROR_INVALID_CONTEXT;
constexpr CUresult kUnserved = CUDA_ERROR_NOT_SUPPORTED;

}  // namespace standin_test
