#include "tests/cli/report/made_up.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "tests/cli/report/made_up_place.h"

namespace made_up {
namespace {

using cubfc::recordings::Event;
using cubfc::recordings::Frame;
using cubfc::recordings::kNone;
using cubfc::recordings::Recording;
using cubfc::trace::Kind;
using cubfc::trace::Memory;

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kGiB = 1 << 30;

struct Live {
  std::uint64_t address;
  std::uint64_t held;
  std::uint32_t place;
};

class Training {
 public:
  Training(std::uint32_t events, std::uint64_t seed) : wanted_(events), random_(seed) {
    recording_.format = "made up";
    recording_.path = "made-up";
    recording_.start_unix_ns = 1'700'000'000'000'000'000;
    recording_.pid = 4711;
    recording_.command_line = {"python", "train.py", "--layers", "24"};
    recording_.settings = "CUBFC_FREE=deferred (environment)\nCUBFC_MEM_FRACTION=0.75 (default)\n";
    recording_.devices = {{0, "Software GPU A", 80 * kGiB, 60 * kGiB, {1, 2, 3}, ""},
                          {1, "Software GPU B", 24 * kGiB, ~0ULL, {4, 5, 6}, ""}};
    recording_.places = {{0, Memory::kArena, 7},   {1, Memory::kArena, 8},  {0, Memory::kPool, 0},
                         {0, Memory::kManaged, 0}, {1, Memory::kMapped, 0}, {0, Memory::kArray, 7},
                         {0, Memory::kDirect, 7},  {1, Memory::kOwnPool, 8}};
    recording_.callers = {"",
                          "/opt/torch/lib/libtorch_cuda.so",
                          "/opt/torch/lib/libcudnn_graph.so.9",
                          "/opt/torch/lib/libcublas.so.12",
                          "/opt/torch/lib/libnccl.so.2",
                          "/usr/bin/python3.11"};
    recording_.threads = {{0, ""}, {4711, "python"}, {4720, "autograd"}, {4731, "nccl-watch"}};
    for (const char* function : {"cudaMalloc", "c10::cuda::Allocator::allocate", "at::empty",
                                 "cudnnConvolutionBackward"}) {
      recording_.frames.emplace_back().function = function;
      recording_.frames.back().object = "/opt/torch/lib/libtorch_cuda.so";
    }
    for (const char* function : {"Linear.forward", "Conv2d.backward", "train"}) {
      Frame& frame = recording_.frames.emplace_back();
      frame.kind = Frame::Kind::kPython;
      frame.function = function;
      frame.file = "/home/me/train.py";
      frame.line = static_cast<std::uint32_t>(recording_.frames.size()) * 10;
    }
    recording_.stacks = {{0, 1, 2, 4, 6}, {0, 3, 5, 6}};
    for (std::uint64_t place = 0; place < recording_.places.size(); ++place) {
      spaces_.emplace_back(0x7f0000000000 + (place << 40), place == 1 ? 20 * kGiB : 60 * kGiB);
    }
  }

  Recording make() {
    for (int layer = 0; layer < 24; ++layer) {
      weights_.push_back(allocate(0, 1, scaled(64 * kMiB, 2), 1));
      allocate(1, 1, scaled(16 * kMiB, 2), 1);
    }
    allocate(3, 5, 512 * kMiB, 1);
    allocate(4, 4, 256 * kMiB, 3);
    allocate(5, 5, 12'345'678, 1);
    allocate(6, 4, 128 * kMiB, 3);
    while (recording_.events.size() < wanted_) {
      step();
    }
    add(Kind::kClose, 0, 0, 0);
    recording_.closed = true;
    return std::move(recording_);
  }

 private:
  std::uint64_t below(std::uint64_t end) { return random_() % end; }
  std::uint64_t scaled(std::uint64_t bytes, double spread) {
    const double power = static_cast<double>(below(2001)) / 1000.0 - 1.0;
    return static_cast<std::uint64_t>(static_cast<double>(bytes) * std::pow(2.0, power * spread));
  }

  Event& add(Kind kind, std::uint32_t place, std::uint16_t thread, std::uint8_t caller) {
    now_ns_ += 200 + below(4000);
    Event event;
    event.time_ns = now_ns_;
    event.kind = kind;
    event.place = place;
    event.thread = thread;
    event.caller = caller;
    recording_.events.push_back(event);
    return recording_.events.back();
  }

  Live allocate(std::uint32_t place, std::uint8_t caller, std::uint64_t bytes,
                std::uint16_t thread) {
    const bool in_arena = place <= 1 || place == 7;
    const std::uint64_t held = in_arena ? (bytes + 511) / 512 * 512 : bytes;
    const std::uint64_t slice = place == 1 ? 2 * kMiB : place == 0 ? kGiB : held;
    const std::uint64_t address =
        spaces_[place].allocate(held, slice, [&](std::uint64_t at, std::uint64_t size) {
          Event& grown = add(Kind::kGrow, place, thread, caller);
          grown.address = at;
          grown.bytes = size;
        });
    if (address == 0) {
      fail(place, caller, bytes, thread);
      return {0, 0, place};
    }
    Event& event = add(Kind::kAllocate, place, thread, caller);
    event.address = address;
    event.bytes = bytes;
    event.padding = static_cast<std::uint32_t>(held - bytes);
    event.stack = caller == 1 ? 0 : caller == 2 ? 1 : kNone;
    return {address, held, place};
  }

  void fail(std::uint32_t place, std::uint8_t caller, std::uint64_t bytes, std::uint16_t thread) {
    Event& event = add(Kind::kOutOfMemory, place, thread, caller);
    event.address = bytes;
    event.text = static_cast<std::uint32_t>(recording_.texts.size());
    recording_.texts.push_back("cubfc: out of memory on GPU 0\n  asked     " +
                               std::to_string(bytes) +
                               " bytes by cuMemAlloc\n  cause     over the limit\n");
  }

  void free(const Live& block, std::uint16_t thread) {
    if (block.address == 0) {
      return;
    }
    const bool deferred = block.place == 0;
    Event& event = add(deferred ? Kind::kRetire : Kind::kFree, block.place, thread, 0);
    event.address = block.address;
    event.bytes = block.held;
    if (deferred) {
      retired_.push_back(block);
    } else {
      spaces_[block.place].give(block.address, block.held);
    }
  }

  void reclaim() {
    for (const Live& block : retired_) {
      Event& event = add(Kind::kReclaim, block.place, 0, 0);
      event.address = block.address;
      event.bytes = block.held;
      spaces_[block.place].give(block.address, block.held);
    }
    retired_.clear();
  }

  // Forward, backward, and what libraries do beside.
  void step() {
    std::vector<Live> activations;
    const double breath = 1.0 + 0.5 * std::sin(static_cast<double>(++steps_) / 7.0);
    for (std::size_t layer = 0; layer < 24; ++layer) {
      activations.push_back(allocate(
          0, 1, scaled(static_cast<std::uint64_t>(static_cast<double>(200 * kMiB) * breath), 1.5),
          1));
      const Live workspace = allocate(layer % 3 == 0 ? 1 : 0, 2, scaled(24 * kMiB, 3), 1);
      const Live small = allocate(0, 3, 1 + below(4000), 1);
      const Live pooled = allocate(2, 4, scaled(kMiB, 2), 3);
      free(workspace, 1);
      free(pooled, 3);
      if (layer % 8 == 7) {
        reclaim();
      }
      if (below(40) == 0) {
        kept_.push_back(small);
      } else {
        free(small, 1);
      }
    }
    if (steps_ % 9 == 4) {
      allocate(0, 1, 58 * kGiB, 1);  // what cannot be had
    }
    while (!activations.empty()) {
      const Live gradient = allocate(1, 1, scaled(32 * kMiB, 1), 2);
      free(activations.back(), 2);
      activations.pop_back();
      free(gradient, 2);
    }
    reclaim();
    Event& waited = add(Kind::kWaited, 0, 1, 1);
    waited.bytes = 20'000 + below(100'000);
    spaces_[1].shrink(2 * kMiB, [&](std::uint64_t at, std::uint64_t size) {
      Event& shrunk = add(Kind::kShrink, 1, 1, 0);
      shrunk.address = at;
      shrunk.bytes = size;
    });
    while (kept_.size() > 4000) {
      free(kept_.front(), 1);
      kept_.erase(kept_.begin());
    }
  }

  Recording recording_;
  std::uint32_t wanted_;
  std::mt19937_64 random_;
  std::uint64_t now_ns_ = 0;
  std::uint64_t steps_ = 0;
  std::vector<Space> spaces_;
  std::vector<Live> weights_;
  std::vector<Live> kept_;
  std::vector<Live> retired_;
};

}  // namespace

Recording training(std::uint32_t events, std::uint64_t seed) {
  return Training{events, seed}.make();
}

Recording crowd(std::uint32_t events, std::uint64_t seed) {
  std::mt19937_64 random{seed};
  Recording recording = training(0, seed);
  recording.events.clear();
  Space space{0x7f0000000000, 80 * kGiB};
  std::vector<Live> live;
  const auto add = [&](Kind kind, std::uint64_t address, std::uint64_t bytes) {
    Event event;
    event.kind = kind;
    event.time_ns = recording.events.size() * 1000;
    event.address = address;
    event.bytes = bytes;
    event.caller = static_cast<std::uint8_t>(random() % recording.callers.size());
    event.thread = 1;
    recording.events.push_back(event);
  };
  while (recording.events.size() < events) {
    if (recording.events.size() > events / 2) {
      const std::size_t chosen = random() % live.size();
      add(Kind::kFree, live[chosen].address, live[chosen].held);
      space.give(live[chosen].address, live[chosen].held);
      live[chosen] = live.back();
      live.pop_back();
    }
    const std::uint64_t bytes = 512 * (1 + random() % (random() % 64 + 1));
    const std::uint64_t address =
        space.allocate(bytes, 64 * kMiB,
                       [&](std::uint64_t at, std::uint64_t size) { add(Kind::kGrow, at, size); });
    add(Kind::kAllocate, address, bytes);
    live.push_back({address, bytes, 0});
  }
  return recording;
}

Recording nonsense(std::uint32_t events, std::uint64_t seed) {
  std::mt19937_64 random{seed};
  const auto below = [&](std::uint64_t end) { return random() % end; };
  Recording recording = training(0, seed);
  recording.events.clear();
  constexpr std::array kKinds{Kind::kAllocate, Kind::kAllocate, Kind::kFree,    Kind::kRetire,
                              Kind::kReclaim,  Kind::kGrow,     Kind::kShrink,  Kind::kEpoch,
                              Kind::kWaited,   Kind::kEndPlace, Kind::kNothing, Kind::kOutOfMemory,
                              Kind::kSleep,    Kind::kWake};
  std::uint64_t time = 0;
  for (std::uint32_t n = 0; n < events; ++n) {
    Event event;
    time += below(1000);
    event.time_ns = below(50) == 0 ? random() : time - std::min<std::uint64_t>(time, below(20));
    const std::uint64_t kind = below(100);
    event.kind = kind == 99 ? static_cast<Kind>(below(256))
                            : kKinds.at(kind * kKinds.size() / 99 % kKinds.size());
    if (event.kind == Kind::kEndPlace && below(20) != 0) {
      event.kind = Kind::kAllocate;
    }
    event.address = below(30) == 0 ? random() : below(24) * 256;
    event.bytes = below(30) == 0 ? random() : below(4) * 200;
    event.padding = static_cast<std::uint32_t>(below(60) == 0 ? random() : below(2) * 56);
    event.place =
        static_cast<std::uint32_t>(below(recording.places.size() + (below(20) == 0 ? 3 : 0)));
    event.thread =
        static_cast<std::uint16_t>(below(recording.threads.size() + (below(20) == 0 ? 3 : 0)));
    event.caller =
        static_cast<std::uint8_t>(below(recording.callers.size() + (below(20) == 0 ? 3 : 0)));
    event.stack = static_cast<std::uint32_t>(below(4));
    event.text = static_cast<std::uint32_t>(below(4));
    recording.events.push_back(event);
  }
  return recording;
}

void make_hostile(Recording& recording) {
  const std::string bad =
      "</script><script>document.title='harmed'</script><img src=x "
      "onerror=\"document.title='harmed'\">"
      "&lt;\"'`\xff\xfe\x1b]0;harmed\x07\x1b[31m\xe2\x80\xae\n]]>--><!--";
  for (std::string& caller : recording.callers) {
    caller += bad;
  }
  for (auto& thread : recording.threads) {
    thread.name += bad;
  }
  for (auto& device : recording.devices) {
    device.name += bad;
  }
  for (std::string& text : recording.texts) {
    text += bad;
  }
  for (Frame& frame : recording.frames) {
    frame.function += bad;
    frame.file += bad;
    frame.object += bad;
  }
  recording.command_line.push_back(bad);
  recording.settings += bad;
  recording.path += bad;
  recording.format += bad;
}

}  // namespace made_up
