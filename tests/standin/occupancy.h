// The size of the devices' processors.
#pragma once

#include <cstddef>

namespace standin {

inline constexpr unsigned kMultiprocessors = 132;

// How many blocks of so many threads and bytes of shared memory run on a multiprocessor at once.
int BlocksAtOnce(int block_size, std::size_t shared);

}  // namespace standin
