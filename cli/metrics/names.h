// By what names the system knows users and GPUs, for `cubfc metrics`: a process's figures have
// neither.
#pragma once

#include <sys/types.h>

#include <map>
#include <set>
#include <string>

#include "cli/live/processes.h"

namespace cubfc::cli {

struct Names {
  std::map<uid_t, std::string> users;
  // By "GPU-7374616e-...", the number that nvidia-smi gives it; a process that sees some of the
  // GPUs counts these from 0. Not of MIG instances.
  std::map<std::string, int> gpu_numbers;
  std::set<std::string> gpus_asked_for;
};

// Adds what these processes have and is not known yet. What is known is not asked for again: the
// system's list of users may be far away, and the driver busy with a GPU.
void learn(Names& names, const live::Processes& processes);

// What the driver tells in /proc/driver/nvidia/gpus: a folder for each GPU, named by its place on
// the bus. Nothing where there is no such folder.
std::map<std::string, int> gpu_numbers_in(const std::string& folder);

}  // namespace cubfc::cli
