// How many GPUs this machine has, where only the driver knows.
#pragma once

namespace cubfc::cli::check {

// For `cubfc run`. A child of this command asks the driver (child.h). 0 where there is no driver,
// or where it does not answer within half a minute. Throws Failure.
unsigned count_gpus_of_driver();

}  // namespace cubfc::cli::check
