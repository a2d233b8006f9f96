// The command line of arena_bench.
#pragma once

#include <string>
#include <variant>

namespace cubfc::bench {

struct Arguments {
  bool quick = false;
  bool help = false;
  int rounds = 9;
  int jitter = 6;
  std::string json_file;  // empty: none
  std::string only;       // a part of an input's name, or a section; empty: everything
};

inline constexpr const char* kUsage =
    R"(usage: arena_bench [--quick] [--only NAME] [--rounds N] [--jitter K] [--json FILE] [--help]

Measures the arena beside the floor of the same run (two lock-unlock pairs and nearly nothing else)
and beside other allocators: time, latency, memory needed, threads, regions.

  --quick       some seconds: fewer rounds, no input that takes long
  --only NAME   only inputs whose name contains NAME; or one section: jitter, threads, regions
  --rounds N    how often everything timed is repeated (9; with --quick 3)
  --jitter K    variants of each trace for the jittered mean (6; with --quick 1)
  --json FILE   also writes all figures to FILE
  --help        this text

CUBFC_TRACES=FOLDER   also plays the allocation traces (*.csv, the format of RMM's log) in FOLDER.
                      "static" in a trace's name marks a planner's lifetimes: no training trace.

Exit status: 0; 1 when a block was handed out twice, a trace cannot be read or FILE not be written;
2 for a wrong argument.
)";

// The arguments, or what is wrong with them.
std::variant<Arguments, std::string> parse_arguments(int count, const char* const* values);

}  // namespace cubfc::bench
