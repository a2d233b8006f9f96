// Figures of two processes, written over with what is made up.
#include "../live/made_up_figures.h"

#include <cstdlib>

#include "cli/report/wording.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cubfc;
  const std::span<const std::uint8_t> bytes(data, size);
  live::Processes processes;
  for (const int pid : {1, 2}) {
    live::Process process = cli::top::made_up(pid);
    cli::top::add_device(process, 0, 0, 7, 1000);
    process.figures->num_callers = 3;
    process.figures->arenas[0].device = 1;
    cli::top::write_over(*process.figures, pid == 1 ? bytes : bytes.first(size / 2));
    processes.all.push_back(std::move(process));
  }
  const std::string all = cli::top::everything_of(std::move(processes), size % 150);
  if (report::printable(all, true) != all) {
    std::abort();
  }
  return 0;
}
