// The id by which processes know that they use the same GPU.
#pragma once

#include <array>

namespace cubfc {

using DeviceId = std::array<char, 16>;  // its UUID, the same in every process; zeros: unknown

}  // namespace cubfc
