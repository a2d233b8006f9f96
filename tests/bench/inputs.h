// Which workloads a run measures: the recorded traces of a folder and the made-up ones.
#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "workload.h"

namespace cubfc::bench {

// A trace that cannot be read; what() names the file and the line.
class BadTrace : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A trace whose name contains "static" counts as a planner's lifetimes, any other as a training
// trace. Throws BadTrace, also when nothing is allocated in it.
Workload recorded_input(const std::filesystem::path& file);

// Every *.csv in `folder`, in the order of their names; none when `folder` is empty. Throws
// BadTrace.
std::vector<Workload> recorded_inputs(const std::string& folder);

// `quick` leaves out those that take seconds a pass.
std::vector<Workload> synthetic_inputs(bool quick);

}  // namespace cubfc::bench
