// The other processes under cubfc that use a device, by the figures that they share.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "shim/tell/figures.h"
#include "shim/tell/out_of_memory_text.h"

namespace cubfc {

// Those that this user may see, on the device of that UUID, whoever has taken most first. Reads
// files; for reports. Throws std::bad_alloc.
// `own`: the figures of this process, which is none of them.
std::vector<OutOfMemory::Neighbour> neighbours_on(const std::array<char, 16>& uuid,
                                                  const figures::ProcessFigures& own);

}  // namespace cubfc
