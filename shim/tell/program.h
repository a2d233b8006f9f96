// The program that cubfc is in, for people: its command line, its host, its rank; and paths for its
// files.
#pragma once

#include <cstddef>
#include <string>

namespace cubfc {

// Its arguments with spaces between, without control characters. If they are longer than so many
// bytes, they are cut, with "..." at the end. "?" if Linux does not tell. Throws std::bad_alloc.
std::string command_line(std::size_t most_bytes);

std::string host_name();

// "rank 3" in a job of several processes, by the variables of torchrun, Open MPI, MPICH or Slurm;
// empty for a process that is alone.
std::string rank_of_process();

// The path with %p and %h replaced by process id and host.
std::string expanded_path(const std::string& path);

// The path, made absolute by the working directory of now; unchanged if that cannot be found out.
std::string absolute_path(const std::string& path);

}  // namespace cubfc
