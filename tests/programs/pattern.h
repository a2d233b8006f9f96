// Every byte of a block of device memory, written with what belongs to that block and that place
// alone, and read back. Knows the driver's copies and nothing else.
#pragma once

#include <cstddef>
#include <cstdint>

#include "driver.h"

namespace programs {

/// Writes the pattern of `seed` into all `bytes` bytes. Ends the program if a copy fails.
void write_pattern(const Driver& driver, CUdeviceptr block, std::size_t bytes, std::uint32_t seed);

/// The same in the order of a stream; returns when it is done.
void write_pattern(const Driver& driver, CUdeviceptr block, std::size_t bytes, std::uint32_t seed,
                   CUstream stream);

/// How many of the `bytes` bytes are not what write_pattern wrote.
std::size_t count_mismatches(const Driver& driver, CUdeviceptr block, std::size_t bytes,
                             std::uint32_t seed);

}  // namespace programs
