// An equal share of a GPU for each process of a job: `cubfc run --share`.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace cubfc::cli {

struct Share {
  unsigned processes = 1;  // on each GPU, or on the shards that their job has of one
  unsigned shards = 1;     // that the job has
  unsigned of_shards = 1;  // that a GPU has
  std::string because;     // for people: how that was found out
  // As CUBFC_MEM_FRACTION takes it, rounded down: all together are not more than the GPU.
  std::string fraction() const;
};

// `text`: a number, or "auto" for what the launcher of the job says in the environment: Slurm, Open
// MPI, torchrun, MPICH's and Intel's. Processes are taken to be spread over the GPUs evenly. A job
// with Slurm's shards has these of one GPU, and its processes on a node share them.
// `count_gpus`: those that this process could use, where neither says. Throws Failure.
using GetVariable = std::function<const char*(const char* name)>;
Share read_share_of(const std::string& text, const GetVariable& get,
                    const std::function<unsigned()>& count_gpus);

// "4(x2),3" of SLURM_TASKS_PER_NODE: how many on the node of that number, from 0.
std::optional<unsigned> tasks_on_node(const std::string& list, unsigned node);

// The GPUs of this machine that the kernel's driver shows.
unsigned count_gpus_of_machine();

}  // namespace cubfc::cli
