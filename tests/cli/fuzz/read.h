// What the fuzzers do with their bytes: a reader may refuse them, and nothing else may happen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "cli/recordings/input.h"

namespace cubfc::recordings {

template <typename Reader>
void read_fuzzed(const std::uint8_t* data, std::size_t size, Reader reader) {
  try {
    Input input("fuzzed", {reinterpret_cast<const char*>(data), size});
    reader(input);
  } catch (const BadRecording&) {
  }
}

}  // namespace cubfc::recordings
