// Tensors of PyTorch's in the place of its cache's segments.
#include "cli/recordings/tensors.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "catch.h"
#include "cli/recordings/several.h"

using namespace cubfc::recordings;
using cubfc::trace::Kind;
using cubfc::trace::Memory;

namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;
constexpr std::uint32_t kArena = 0;
constexpr std::uint32_t kMapped = 1;
constexpr std::uint32_t kOfSecondDevice = 2;
constexpr std::uint8_t kPyTorch = 1;
constexpr std::uint8_t kOther = 2;

Recording begun() {
  Recording recording;
  recording.path = "/run/rank0.cubfc";
  recording.places = {{0, Memory::kArena, 1}, {0, Memory::kMapped, 1}, {1, Memory::kArena, 2}};
  recording.callers = {"", "/torch/lib/libc10_cuda.so", "/usr/lib/libnccl.so.2"};
  recording.threads = {{0, ""}};
  return recording;
}

Event block(Kind kind, std::uint64_t address, std::uint64_t bytes, std::uint32_t place = kArena,
            std::uint8_t caller = kPyTorch) {
  Event event;
  event.kind = kind;
  event.address = address;
  event.bytes = bytes;
  event.place = place;
  event.caller = caller;
  return event;
}

Event tensor(Kind kind, std::uint64_t address, std::uint64_t bytes, std::uint32_t device = 0) {
  Event event = block(kind, address, bytes, kNone, 0);
  event.padding = device;
  return event;
}

struct Shown {
  Kind kind;
  std::uint64_t address;
  std::uint32_t place;
  std::uint8_t caller;
  bool operator==(const Shown&) const = default;
};

std::vector<Shown> shown(const Recording& recording) {
  std::vector<Shown> events;
  for (const Event& event : recording.events) {
    events.push_back({event.kind, event.address, event.place, event.caller});
  }
  return events;
}

}  // namespace

TEST_CASE("tensors take the place of the segment that they lie in, and nothing else goes",
          "[recordings]") {
  Recording recording = begun();
  recording.events = {block(Kind::kGrow, 0, 64 * kMiB),
                      block(Kind::kAllocate, 0, 2 * kMiB),
                      block(Kind::kAllocate, 4 * kMiB, kMiB, kArena, kOther),
                      tensor(Kind::kTensor, 512, 100),
                      tensor(Kind::kTensorFree, 512, 100),
                      block(Kind::kRetire, 0, 2 * kMiB),
                      block(Kind::kReclaim, 0, 2 * kMiB),
                      block(Kind::kFree, 4 * kMiB, kMiB, kArena, kOther)};
  show_tensors(recording);
  CHECK(shown(recording) == std::vector<Shown>{{Kind::kGrow, 0, kArena, kPyTorch},
                                               {Kind::kAllocate, 4 * kMiB, kArena, kOther},
                                               {Kind::kAllocate, 512, kArena, kPyTorch},
                                               {Kind::kFree, 512, kArena, kPyTorch},
                                               {Kind::kFree, 4 * kMiB, kArena, kOther}});
  CHECK(recording.events[2].padding == 0);
  REQUIRE(recording.segments.has_value());
  CHECK(recording.segments->blocks == 1);
  CHECK(recording.segments->peak_bytes == 2 * kMiB);
}

TEST_CASE("a segment ends where it ends, and begins anew", "[recordings]") {
  Recording recording = begun();
  recording.events = {block(Kind::kAllocate, 0, kMiB),        tensor(Kind::kTensor, kMiB - 1, 1),
                      tensor(Kind::kTensorFree, kMiB - 1, 1), block(Kind::kFree, 0, kMiB),
                      block(Kind::kAllocate, 0, kMiB),        block(Kind::kFree, 0, kMiB),
                      tensor(Kind::kTensor, kMiB, 1)};
  show_tensors(recording);
  // The second block there had no tensor; the last tensor lies behind it, in nothing.
  CHECK(shown(recording) == std::vector<Shown>{{Kind::kAllocate, kMiB - 1, kArena, kPyTorch},
                                               {Kind::kFree, kMiB - 1, kArena, kPyTorch},
                                               {Kind::kAllocate, 0, kArena, kPyTorch},
                                               {Kind::kFree, 0, kArena, kPyTorch},
                                               {Kind::kAllocate, kMiB, 3, kPyTorch}});
  CHECK(recording.places.at(3).memory == Memory::kMapped);
  CHECK(recording.segments->blocks == 1);
}

TEST_CASE("physical memory gives way to tensors that lie in no block, on their device alone",
          "[recordings]") {
  Recording recording = begun();
  recording.places.push_back({1, Memory::kMapped, 2});
  recording.events = {block(Kind::kAllocate, 7, 2 * kMiB, kMapped),
                      block(Kind::kAllocate, 7, 2 * kMiB, 3),
                      block(Kind::kAllocate, 8, 2 * kMiB, kMapped, kOther),
                      tensor(Kind::kTensor, 7, 512),  // a number, not the address of that memory
                      tensor(Kind::kTensorFree, 7, 512),
                      tensor(Kind::kTensorFree, 99, 1, 1),  // of something before
                      block(Kind::kFree, 7, 2 * kMiB, kMapped)};
  show_tensors(recording);
  CHECK(shown(recording) == std::vector<Shown>{{Kind::kAllocate, 7, 3, kPyTorch},
                                               {Kind::kAllocate, 8, kMapped, kOther},
                                               {Kind::kAllocate, 7, 4, kPyTorch},
                                               {Kind::kFree, 7, 4, kPyTorch},
                                               {Kind::kFree, 99, 5, 0}});
  CHECK(recording.places.at(4).device == 0);
  CHECK(recording.places.at(5).device == 1);
  CHECK(recording.segments->peak_bytes == 2 * kMiB);
}

TEST_CASE("physical memory gives way where callers were not told apart", "[recordings]") {
  Recording recording = begun();
  recording.callers = {""};
  recording.events = {block(Kind::kAllocate, 7, 2 * kMiB, kMapped, 0),
                      tensor(Kind::kTensor, 4096, 512)};
  show_tensors(recording);
  CHECK(shown(recording) == std::vector<Shown>{{Kind::kAllocate, 4096, 3, 0}});
}

TEST_CASE("a context that ends takes its blocks along", "[recordings]") {
  Recording recording = begun();
  recording.events = {block(Kind::kAllocate, 0, kMiB), tensor(Kind::kTensor, 0, 1),
                      block(Kind::kAllocate, 0, kMiB, kOfSecondDevice),
                      block(Kind::kEndPlace, 0, 0), tensor(Kind::kTensor, 1, 1, 1)};
  show_tensors(recording);
  CHECK(shown(recording) == std::vector<Shown>{{Kind::kAllocate, 0, kArena, kPyTorch},
                                               {Kind::kEndPlace, 0, kArena, kPyTorch},
                                               {Kind::kAllocate, 1, kOfSecondDevice, kPyTorch}});
}

TEST_CASE("recordings without tensors stay as they are, and tensors can be left out",
          "[recordings]") {
  Recording recording = begun();
  recording.events = {block(Kind::kAllocate, 0, kMiB), block(Kind::kFree, 0, kMiB)};
  const std::vector<Shown> before = shown(recording);
  show_tensors(recording);
  leave_out_tensors(recording);
  CHECK(shown(recording) == before);
  CHECK_FALSE(recording.segments.has_value());
  CHECK_FALSE(recording.left_out_tensors);
  recording.events.insert(recording.events.begin() + 1, tensor(Kind::kTensor, 0, 1));
  leave_out_tensors(recording);
  CHECK(shown(recording) == before);
  CHECK(recording.left_out_tensors);
}

TEST_CASE("the segments of several recordings are counted together", "[recordings]") {
  std::vector<Recording> all;
  for (int rank = 0; rank < 3; ++rank) {
    Recording& one = all.emplace_back(begun());
    one.events = {block(Kind::kAllocate, 0, kMiB), tensor(Kind::kTensor, 0, 1)};
    show_tensors(one);
  }
  const Recording whole = merged(std::move(all));
  REQUIRE(whole.segments.has_value());
  CHECK(whole.segments->blocks == 3);
  CHECK(whole.segments->peak_bytes == 3 * kMiB);
}

// Whatever a file says: what comes out has no tensors any more, names places and callers that there
// are, and has all that is not of a segment.
TEST_CASE("events that make no sense are taken as they are", "[recordings]") {
  std::mt19937_64 random(7);
  constexpr std::array kKinds{Kind::kAllocate, Kind::kFree,   Kind::kRetire,     Kind::kReclaim,
                              Kind::kTensor,   Kind::kTensor, Kind::kTensorFree, Kind::kEndPlace,
                              Kind::kGrow,     Kind::kWaited};
  for (int run = 0; run < 2'000; ++run) {
    Recording recording = begun();
    std::size_t tensors = 0;
    std::size_t neither = 0;
    for (int n = 0; n < 60; ++n) {
      Event event =
          block(kKinds.at(random() % kKinds.size()), random() % 6 * 512,
                random() % 3 == 0 ? ~random() : random() % 4 * 512,
                static_cast<std::uint32_t>(random() % 3), static_cast<std::uint8_t>(random() % 3));
      if (event.kind == Kind::kTensor || event.kind == Kind::kTensorFree) {
        event.place = kNone;
        event.padding = static_cast<std::uint32_t>(random() % 2);
        ++tensors;
      } else if (event.kind > Kind::kReclaim) {
        event.place = random() % 4 == 0 ? kNone : event.place;
        ++neither;
      }
      recording.events.push_back(event);
    }
    show_tensors(recording);
    CHECK(recording.events.size() >= tensors + neither);
    for (const Event& event : recording.events) {
      CHECK(event.kind != Kind::kTensor);
      CHECK(event.kind != Kind::kTensorFree);
      CHECK((event.place == kNone || event.place < recording.places.size()));
      CHECK(event.caller < recording.callers.size());
    }
  }
}
