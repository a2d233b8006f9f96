// Plays a recorded trace through cuMemAlloc and cuMemFree, with a pattern of its own in every byte
// of every block, verified before the block is freed and, for what is left, at the end.
//
//   play_trace [options] trace.csv        play_trace [options] --synthetic N [--seed S]
//     --scale N        divide sizes by N (at least one byte is left)
//     --limit-ops N    play the first N operations only
//     --no-data        do not write and verify: for timing, and for traces as large as the device
//     --time           the time spent in allocation calls, on stderr
//     --quiet          no line for failures
//
// Ends with 0, with 1 if a byte was wrong, with 2 for a bad argument or trace, with 3 if an
// allocation failed.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "driver.h"
#include "pattern.h"
#include "trace.h"

namespace {

using programs::Driver;
using programs::Trace;
using programs::TraceOp;

struct Options {
  std::string file;
  std::uint64_t scale = 1;
  std::uint64_t limit_ops = UINT64_MAX;
  std::uint64_t synthetic = 0;
  std::uint64_t seed = 1;
  bool data = true;
  bool time = false;
  bool quiet = false;
};

[[noreturn]] void refuse(const std::string& text) {
  std::fprintf(stderr, "play_trace: %s\n", text.c_str());
  std::exit(2);
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const auto number = [&] {
      ++i;
      return programs::number_argument(argument, i < argc ? argv[i] : nullptr);
    };
    if (argument == "--scale") {
      options.scale = number();
    } else if (argument == "--limit-ops") {
      options.limit_ops = number();
    } else if (argument == "--synthetic") {
      options.synthetic = number();
    } else if (argument == "--seed") {
      options.seed = number();
    } else if (argument == "--no-data") {
      options.data = false;
    } else if (argument == "--time") {
      options.time = true;
    } else if (argument == "--quiet") {
      options.quiet = true;
    } else if (argument.starts_with("--") || !options.file.empty()) {
      refuse(std::string(argument) + " is not an option");
    } else {
      options.file = argument;
    }
  }
  if (options.scale == 0) {
    refuse("--scale must be at least 1");
  }
  if (options.file.empty() == (options.synthetic == 0)) {
    refuse("either a trace or --synthetic N is wanted");
  }
  return options;
}

Trace load(const Options& options) {
  if (options.file.empty()) {
    return programs::synthetic_trace(options.synthetic, options.seed);
  }
  try {
    return programs::read_trace(options.file);
  } catch (const std::runtime_error& bad) {
    refuse(bad.what());
  }
}

class Player {
 public:
  Player(const Driver& driver, const Options& options, std::uint32_t blocks)
      : driver_(driver), options_(options), blocks_(blocks) {}

  void play(const TraceOp& op) {
    ++ops_;
    if (op.action == TraceOp::Action::kAllocate) {
      allocate(op.block, std::max<std::uint64_t>(op.bytes / options_.scale, 1));
    } else {
      free(op.block);
    }
  }

  void finish() {
    for (std::uint32_t block = 0; block < blocks_.size(); ++block) {
      free(block);
    }
  }

  int report(const Trace& trace) const {
    std::printf(
        "%zu ops, peak %llu bytes, %llu mismatches, %llu failures, not played: %llu recorded "
        "failures and %llu frees of unknown blocks\n",
        ops_, static_cast<unsigned long long>(peak_), static_cast<unsigned long long>(mismatches_),
        static_cast<unsigned long long>(failures_),
        static_cast<unsigned long long>(trace.recorded_failures),
        static_cast<unsigned long long>(trace.unknown_frees));
    if (options_.time) {
      std::fprintf(stderr, "%lld ns in %zu allocation calls\n",
                   static_cast<long long>(spent_.count()), calls_);
    }
    if (mismatches_ > 0) {
      return 1;
    }
    return failures_ > 0 ? 3 : 0;
  }

 private:
  struct Block {
    CUdeviceptr address = 0;
    std::uint64_t bytes = 0;  // 0: not live
  };

  // The call's result, its time counted.
  template <class Call>
  CUresult timed(const Call& call) {
    const auto start = std::chrono::steady_clock::now();
    const CUresult result = call();
    spent_ += std::chrono::steady_clock::now() - start;
    ++calls_;
    return result;
  }

  void allocate(std::uint32_t index, std::uint64_t bytes) {
    CUdeviceptr address = 0;
    const CUresult result = timed([&] { return driver_.cuMemAlloc(&address, bytes); });
    if (result != CUDA_SUCCESS) {
      ++failures_;
      if (!options_.quiet) {
        std::fprintf(stderr, "operation %zu, %llu bytes: %s\n", ops_,
                     static_cast<unsigned long long>(bytes),
                     programs::name_of(driver_, result).c_str());
      }
      return;
    }
    blocks_[index] = {address, bytes};
    in_use_ += bytes;
    peak_ = std::max(peak_, in_use_);
    if (options_.data) {
      programs::write_pattern(driver_, address, bytes, index);
    }
  }

  void free(std::uint32_t index) {
    Block& block = blocks_[index];
    if (block.bytes == 0) {
      return;
    }
    if (options_.data) {
      mismatches_ += programs::count_mismatches(driver_, block.address, block.bytes, index);
    }
    programs::must(driver_, "cuMemFree", timed([&] { return driver_.cuMemFree(block.address); }));
    in_use_ -= block.bytes;
    block = {};
  }

  const Driver& driver_;
  const Options& options_;
  std::vector<Block> blocks_;
  std::size_t ops_ = 0;
  std::size_t calls_ = 0;
  std::uint64_t in_use_ = 0;
  std::uint64_t peak_ = 0;
  std::uint64_t mismatches_ = 0;
  std::uint64_t failures_ = 0;
  std::chrono::nanoseconds spent_{0};
};

}  // namespace

int main(int argc, char** argv) {
  const Driver driver = programs::open_driver(programs::take_via(argc, argv));
  const Options options = parse(argc, argv);
  const Trace trace = load(options);
  programs::use_device(driver, 0);
  Player player(driver, options, trace.blocks);
  std::uint64_t played = 0;
  for (const TraceOp& op : trace.ops) {
    if (played++ == options.limit_ops) {
      break;
    }
    player.play(op);
  }
  player.finish();
  return player.report(trace);
}
