// The devices of processes, and the labels of their samples: chosen so that sums over any label are
// right, and so that no label changes from scrape to scrape. Knows nothing of what is measured.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/live/processes.h"
#include "cli/metrics/names.h"

namespace cubfc::cli {

// A device of a process, with its figures and its labels. Labels are text:
// name="value",name="value".
struct Row {
  const live::Process& process;
  const figures::DeviceFigures& device;
  figures::Sums sums;
  std::string device_labels;  // the same in every process that uses the device, and in no other row
  std::string group_labels;   // device_labels, the user and the group; empty without a group
  std::string labels;         // of this row alone
};

// Rows refer to `processes`, which must outlive them.
std::vector<Row> rows_of(const live::Processes& processes, const Names& names);

// A label's value, as the text format wants it between quotes.
std::string escaped(std::string_view text);

}  // namespace cubfc::cli
