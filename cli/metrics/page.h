// What `cubfc metrics` writes: Prometheus's text format, version 0.0.4. Knows nothing of files.
#pragma once

#include <string>

#include "cli/live/processes.h"
#include "cli/metrics/names.h"

namespace cubfc::cli {

// No two samples of a name have the same labels, whatever the processes say of themselves. What
// several processes share, a GPU or a group's limit, is there once, so that sums over any label
// count nothing twice.
std::string metrics_text(const live::Processes& processes, const Names& names);

}  // namespace cubfc::cli
