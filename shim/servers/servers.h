// The servers that a device may have: an arena over regions, an arena over mapped pages, a pool of
// the driver's, and the driver itself.
#pragma once

#include "shim/device/server.h"

namespace cubfc {

// Makes the server that CUBFC_ALLOCATOR names. If the device does not support that one, says so in
// the log and makes an arena over regions. Throws std::bad_alloc.
std::unique_ptr<Server> choose_server(const DriverFunctions& driver, const config::Policy& policy,
                                      Device& device);

}  // namespace cubfc
