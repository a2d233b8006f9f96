// Recordings with a few bytes changed, cut or repeated, the same ones in each run: each is read or
// refused, and what can be read can be replayed. scripts/fuzz looks further.
#include <array>
#include <string>
#include <vector>

#include "catch.h"
#include "cli/recordings/open_recording.h"
#include "cli/recordings/trace_writer.h"
#include "cli/replay/player.h"
#include "reading.h"

namespace cubfc::recordings {
namespace {

using namespace std::string_literals;
using trace::Kind;

// splitmix64: the same on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::size_t below(std::size_t bound) {
    state_ += 0x9e3779b97f4a7c15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return static_cast<std::size_t>((z ^ (z >> 31U)) % bound);
  }

 private:
  std::uint64_t state_;
};

std::string mutated(std::string bytes, Random& random) {
  constexpr std::array<char, 8> kTelling{'\0', '\1', '\x7f', '\x80', '\xff', '(', '9', '\n'};
  for (std::size_t changes = 1 + random.below(4); changes > 0 && !bytes.empty(); --changes) {
    const std::size_t at = random.below(bytes.size());
    const std::size_t length = 1 + random.below(std::min<std::size_t>(bytes.size() - at, 40));
    switch (random.below(5)) {
      case 0:
        bytes[at] = static_cast<char>(random.below(256));
        break;
      case 1:
        bytes[at] = kTelling.at(random.below(kTelling.size()));
        break;
      case 2:
        bytes.erase(at, length);
        break;
      case 3:
        bytes.insert(random.below(bytes.size()), bytes.substr(at, length));
        break;
      default:
        bytes.resize(at);
        break;
    }
  }
  return bytes;
}

std::string trace_seed() {
  const TemporaryFolder folder;
  Recording recording;
  recording.command_line = {"./app"};
  recording.devices = {{0, "GPU", 1 << 30, ~0ULL, {}, ""}};
  recording.places = {{0, trace::Memory::kArena, 7}, {0, trace::Memory::kArray, 7}};
  recording.callers = {"", "libapp.so"};
  recording.threads = {{}, {4711, "main"}};
  recording.texts = {"out of memory"};
  const std::vector<std::pair<Kind, std::uint32_t>> kinds{
      {Kind::kGrow, 0},    {Kind::kAllocate, 0}, {Kind::kAllocate, 1},    {Kind::kRetire, 0},
      {Kind::kReclaim, 0}, {Kind::kFree, 1},     {Kind::kOutOfMemory, 0}, {Kind::kEndPlace, 0}};
  for (const auto& [kind, place] : kinds) {
    Event event;
    event.kind = kind;
    event.place = place;
    event.address = 0x1000 + 0x1000 * place;
    event.bytes = 5000;
    event.thread = 1;
    event.caller = 1;
    event.text = kind == Kind::kOutOfMemory ? 0 : kNone;
    recording.events.push_back(event);
  }
  write_trace(folder.file("x"), recording);
  return contents_of(folder.file("x"));
}

std::string log_seed() {
  return "Thread,Time,Action,Pointer,Size,Stream\n"
         "1,23:59:59.999999,allocate,0x7f0000000000,1000,0x0\r\n"
         "2,00:00:00.000001,allocate failure,(nil),5000,0x0\n"
         "2,00:00:00.000002,free,0x7f0000000000,1000,0x0\n";
}

std::string snapshot_seed() {
  const std::string entry =
      "}(U\006actionU\005allocU\004addrJ\000\020\000\000U\004sizeM\350\003U\007time_us"
      "K\005U\006frames](}(U\004nameU\001fU\010filenameU\004a.pyU\004lineK\007ueu"s;
  const std::string freed =
      "}(X\006\000\000\000actionX\016\000\000\000free_requested\x8c\004addr\x8a\002\000\020"
      "\x8c\004sizeM\350\003u"s;
  const std::string segment =
      "}(U\006deviceK\000U\007addressK\000U\012total_sizeJ\000\000\040\000U\006blocks](}(U\004size"
      "M\000\002U\005stateU\020active_allocatedueu"s;
  return "\x80\004}q\000(U\010segments]("s + segment + "eU\015device_traces](](" + entry + freed +
         "eeu.";
}

}  // namespace

TEST_CASE("a recording that was damaged is read or refused, and replayed if it was read",
          "[recordings]") {
  constexpr int kRounds = 6000;
  const std::vector<std::string> seeds{trace_seed(), log_seed(), snapshot_seed()};
  Random random(1);
  for (const std::string& seed : seeds) {
    Input whole("whole", seed);
    CHECK(read_recording(whole).events.size() >= 3);
    int refused = 0;
    for (int round = 0; round < kRounds; ++round) {
      const std::string bytes = mutated(seed, random);
      try {
        Input input("x", bytes);
        const Recording recording = read_recording(input);
        const replay::Workload workload =
            replay::make_workload(recording, replay::Requests::kBlocks);
        replay::Conditions conditions;
        conditions.policy.mem_limit.value.others =
            config::Amount{.bytes = std::uint64_t{64} << 20, .share = 0};
        conditions.policy.free_mode.value =
            round % 2 == 0 ? config::FreeMode::kSync : config::FreeMode::kDeferred;
        replay::play(recording, workload, conditions, {});
      } catch (const BadRecording& bad) {
        ++refused;
        if (std::string(bad.what()).rfind("x: ", 0) != 0) {
          FAIL_CHECK(bad.what());
        }
      }
    }
    CHECK(refused > kRounds / 10);
    CHECK(refused < kRounds);
  }
}

}  // namespace cubfc::recordings
