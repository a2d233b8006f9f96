// What a run needed of a GPU's memory: from its recording, and from PyTorch's own books.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/fit/program_run.h"

namespace cubfc::cli::fit {

struct Need {
  // Of the process that needs most. Bytes: the most at once.
  std::uint64_t allocated = 0;       // tensors and all else, as they were asked for
  std::uint64_t reserved = 0;        // by PyTorch's cache for its tensors
  std::uint64_t device = 0;          // of the device: what PyTorch's cache takes, and all else
  std::optional<std::uint64_t> bfc;  // the least limit under cubfc that would do; none: not found
  std::optional<std::uint64_t> vmm;
  std::uint64_t peak_ns = 0;  // when, since the process began
  std::string line;           // which line's request was the last before it; empty: not known
  // The lines that held most at the peak, the most first.
  struct Held {
    std::string line;
    std::uint64_t bytes = 0;
  };
  std::vector<Held> holders;
  bool ran_out = false;  // a request did not get its memory
  // What other processes of the program's took of the same GPU, each at its own peak, and how many
  // these are.
  std::uint64_t beside = 0;
  std::size_t processes_beside = 0;
  std::size_t process = 0;  // which of Run::processes, if PyTorch was there
  std::string trace;
};

// The most that tensors, and all else, held at once in a recording, such as a snapshot of
// PyTorch's. Throws recordings::BadRecording.
std::uint64_t recorded_peak(const std::string& path);

// The page of `cubfc report`, of the process that needs most. Throws report::CannotWrite.
void write_page_of(const Need& need, const std::string& path);

// Nothing where no process allocated. Throws recordings::BadRecording.
std::optional<Need> need_of(const Run& run);

}  // namespace cubfc::cli::fit
