// Who there is to serve a device's requests: an arena over regions, an arena over mapped pages, a
// pool of the driver's, and the driver itself.
#pragma once

#include "shim/device/server.h"

namespace cubfc {

// By CUBFC_ALLOCATOR, or an arena over regions where the device cannot do what is asked, which is
// said in the log.
std::unique_ptr<Server> choose_server(const DriverFunctions& driver, const config::Policy& policy,
                                      Device& device);

}  // namespace cubfc
