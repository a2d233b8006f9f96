// An equal share of a GPU for each process of a job: `cubfc run --share`.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace cubfc::cli {

struct Share {
  unsigned processes = 1;  // that share a GPU, or share `shards` of it
  unsigned shards = 1;     // how many the job has
  unsigned of_shards = 1;  // how many a GPU has
  std::string because;     // for people: how the figures were found out
  // The share of one process, as CUBFC_MEM_FRACTION takes it. Rounded down: all processes together
  // get no more than the GPU.
  std::string fraction() const;
};

// Reads --share. `text`: a number, or "auto" for what the job's launcher says in the environment:
// Slurm, Open MPI, torchrun, MPICH's and Intel's. Processes are taken to be spread evenly over the
// GPUs. Where a job has Slurm's shards, they are of one GPU, and the job's processes on a node
// share them. `count_gpus`: the GPUs that this process could use; called where the environment does
// not say how many there are. Throws Failure.
using GetVariable = std::function<const char*(const char* name)>;
Share read_share_of(const std::string& text, const GetVariable& get,
                    const std::function<unsigned()>& count_gpus);

// How many tasks run on the node of this number, counted from 0. `list`: a value of
// SLURM_TASKS_PER_NODE, such as "4(x2),3". Nothing where it does not say.
std::optional<unsigned> tasks_on_node(const std::string& list, unsigned node);

// How many GPUs of this machine the kernel's driver shows, in /dev.
unsigned count_gpus_of_machine();

}  // namespace cubfc::cli
