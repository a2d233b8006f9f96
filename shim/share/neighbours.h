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

// Whether these are figures, and of the device of that UUID.
bool are_of(const figures::DeviceFigures& device, const std::array<char, 16>& uuid) noexcept;

// Calls `look` with the figures of each that this user may see and that uses the device of that
// UUID, and its figures of that device. Reads files. Throws std::bad_alloc. `own`: the figures of
// this process, which is none of them; nullptr where it has none.
void for_each_neighbour(const std::array<char, 16>& uuid, const figures::ProcessFigures* own,
                        const std::function<void(const figures::ProcessFigures& process,
                                                 const figures::DeviceFigures& device)>& look);

// Those that this user may see, on the device of that UUID, whoever has taken most first. Reads
// files; for reports. Throws std::bad_alloc.
// `own`: the figures of this process, which is none of them.
std::vector<OutOfMemory::Neighbour> neighbours_on(const std::array<char, 16>& uuid,
                                                  const figures::ProcessFigures& own);

}  // namespace cubfc
