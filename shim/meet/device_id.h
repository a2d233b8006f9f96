// By what processes know that they speak of the same GPU.
#pragma once

#include <array>

namespace cubfc {

using DeviceId = std::array<char, 16>;  // its UUID, the same in every process; zeros: unknown

}  // namespace cubfc
