#pragma once

namespace cubfc {

// Whether somebody has replaced the code of this exported driver function: every call is to go
// through it then.
bool is_replaced(const void* thunk) noexcept;

}  // namespace cubfc
