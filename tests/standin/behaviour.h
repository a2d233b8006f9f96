// What the driver answers in each corner case. The answers are data (tests/gpu/behaviour), so that
// a real GPU's answers can take their place; no error code of a misuse is written in the code.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace standin {

// The result of the case `id`. An id that the file lacks ends the process: the file must cover all.
CUresult Behaviour(std::string_view id);

// Whether a stream's capture goes on after the case `id`; true where the file does not say.
bool CaptureSurvives(std::string_view id);

std::size_t BehaviourSize(std::string_view id);
bool BehaviourFlag(std::string_view id);

}  // namespace standin
