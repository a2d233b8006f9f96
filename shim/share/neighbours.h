// The other processes under cubfc that use a device, by the figures that they share.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "shim/tell/figures.h"
#include "shim/tell/out_of_memory_text.h"

namespace cubfc {

// Whether these are published figures, and of the device of that UUID.
bool are_of(const figures::DeviceFigures& device, const std::array<char, 16>& uuid) noexcept;

// Calls `look` for each other process that this user may see and that uses the device of that UUID,
// with the process's figures and with those of the device among them. `own`: the figures of this
// process, which is left out; nullptr if it has none. Reads files. Throws std::bad_alloc.
void for_each_neighbour(const std::array<char, 16>& uuid, const figures::ProcessFigures* own,
                        const std::function<void(const figures::ProcessFigures& process,
                                                 const figures::DeviceFigures& device)>& look);

// The other processes that this user may see on the device of that UUID; the one that has taken
// most comes first. For reports. `own`: the figures of this process, which is left out. Reads
// files. Throws std::bad_alloc.
std::vector<OutOfMemory::Neighbour> neighbours_on(const std::array<char, 16>& uuid,
                                                  const figures::ProcessFigures& own);

}  // namespace cubfc
