// What a run needed of a GPU's memory, by its recordings and by PyTorch's own statistics.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/fit/program_run.h"

namespace cubfc::cli::fit {

// In bytes, each the most at once. Of the process with the largest `device`, where nothing else is
// said. NVIDIA's libraries are left out: Gpu::context_bytes has what they take.
struct Need {
  std::uint64_t allocated = 0;       // by tensors and other blocks, as they were asked for
  std::uint64_t reserved = 0;        // ProcessNotes::reserved, of `process`
  std::uint64_t device = 0;          // by the segments of PyTorch's cache and other blocks
  std::optional<std::uint64_t> bfc;  // the least limit under cubfc that would do; none: not found
  std::optional<std::uint64_t> vmm;
  std::uint64_t peak_ns = 0;  // when `allocated` was reached, since the recording began
  std::string line;           // the line of the request that reached it; empty: not known
  // The lines that held most at the peak, the most first.
  struct Held {
    std::string line;
    std::uint64_t bytes = 0;
  };
  std::vector<Held> holders;
  bool ran_out = false;  // a request of any process did not get its memory
  // What other processes of the program took of the same GPU, each at its own peak, and how many
  // such processes there are.
  std::uint64_t beside = 0;
  std::size_t processes_beside = 0;
  // Index in Run::processes: of this process, or, if it has no notes, of the one with the largest
  // `reserved`.
  std::size_t process = 0;
  std::string trace;
};

// The most bytes that tensors and other blocks held at once in a recording, such as a snapshot of
// PyTorch's. Throws recordings::BadRecording.
std::uint64_t recorded_peak(const std::string& path);

// Writes the page of `cubfc report` about Need::trace. Throws report::CannotWrite
// and recordings::BadRecording.
void write_page_of(const Need& need, const std::string& path);

// Reads what the run has recorded. Nothing where no process allocated. Throws
// recordings::BadRecording.
std::optional<Need> need_of(const Run& run);

}  // namespace cubfc::cli::fit
