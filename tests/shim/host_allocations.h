// The host's memory, which a test lets run out.
#pragma once

namespace cubfc::test {

// Asked before this thread's allocations, those of the software driver, a library of its own,
// apart: `false` makes one throw std::bad_alloc. Nobody is asked as long as it is nullptr.
extern thread_local bool (*may_allocate)();

}  // namespace cubfc::test
