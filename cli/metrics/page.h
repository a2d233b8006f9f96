// What `cubfc metrics` writes: Prometheus's text format, version 0.0.4. Knows nothing of files.
#pragma once

#include <string>

#include "cli/live/processes.h"
#include "cli/metrics/names.h"

namespace cubfc::cli {

// Every sample has labels of its own, whatever the processes say of themselves. What several
// processes have together, a GPU or a group's limit, is there once: sums over any label count
// nothing twice.
std::string metrics_text(const live::Processes& processes, const Names& names);

}  // namespace cubfc::cli
