// What `cubfc metrics` writes: Prometheus's text format, version 0.0.4. Knows nothing of files.
#pragma once

#include <string>

#include "cli/live/processes.h"

namespace cubfc::cli {

// Every sample has labels of its own, whatever the processes say of themselves.
std::string metrics_text(const live::Processes& processes);

}  // namespace cubfc::cli
