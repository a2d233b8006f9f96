// The devices of processes, and the labels by which samples name them: so that a sum over any label
// is right, and no scrape changes one. Knows nothing of what is measured.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/live/processes.h"
#include "cli/metrics/names.h"

namespace cubfc::cli {

// A device of a process, with what is said of it. Labels are text: name="value",name="value".
struct Row {
  const live::Process& process;
  const figures::DeviceFigures& device;
  figures::Sums sums;
  std::string device_labels;  // the same in every process that uses the device, and in no other row
  std::string group_labels;   // those, the group, and whose it is; empty without a group
  std::string labels;         // of this row alone
};

// They live no longer than the processes do.
std::vector<Row> rows_of(const live::Processes& processes, const Names& names);

// Of a label's value, as the text format wants it between quotes.
std::string escaped(std::string_view text);

}  // namespace cubfc::cli
