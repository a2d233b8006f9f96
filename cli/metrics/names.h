// The names of users and the numbers of GPUs that the system has, for `cubfc metrics`: a process's
// figures have neither.
#pragma once

#include <sys/types.h>

#include <map>
#include <set>
#include <string>

#include "cli/live/processes.h"

namespace cubfc::cli {

struct Names {
  std::map<uid_t, std::string> users;
  // By UUID, "GPU-7374616e-...", the number that nvidia-smi gives the GPU. A process that sees only
  // some of the GPUs counts these from 0. Has no MIG instances.
  std::map<std::string, int> gpu_numbers;
  std::set<std::string> gpus_asked_for;
};

// Adds the users and GPUs of these processes that are not known yet. Does not ask again for those
// that are: the system's list of users may be far away, and the driver busy with a GPU.
void learn(Names& names, const live::Processes& processes);

// The numbers of Names::gpu_numbers, from the driver's folder /proc/driver/nvidia/gpus, which has a
// folder for each GPU. Empty where there is no such folder.
std::map<std::string, int> gpu_numbers_in(const std::string& folder);

}  // namespace cubfc::cli
