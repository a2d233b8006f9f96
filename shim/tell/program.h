// The program that cubfc is in, for people: its command line, its host.
#pragma once

#include <cstddef>
#include <string>

namespace cubfc {

// Its arguments with spaces between, without control characters; cut, with "..." then, when longer
// than so many bytes. "?" where Linux does not tell. Throws std::bad_alloc.
std::string command_line(std::size_t most_bytes);

std::string host_name();

// "rank 3" of a job of several processes, by what torchrun, Open MPI, MPICH or Slurm says in the
// environment; empty for a process that is alone.
std::string rank_of_process();

// The path with %p and %h replaced by process id and host.
std::string expanded_path(const std::string& path);

// Of a path that is relative to the working directory as it is now; as it is where nobody can tell.
std::string absolute_path(const std::string& path);

}  // namespace cubfc
