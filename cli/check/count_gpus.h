// How many GPUs this machine has, where only the driver knows.
#pragma once

namespace cubfc::cli::check {

// As many as the driver shows, asked by a child of this command (see child.h), for `cubfc run`: 0
// where there is no driver, or it does not answer within half a minute. Throws Failure.
unsigned count_gpus_of_driver();

}  // namespace cubfc::cli::check
