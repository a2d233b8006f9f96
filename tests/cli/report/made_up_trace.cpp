// Writes a made-up recording as a trace: made_up_trace training|crowd|nonsense|hostile EVENTS SEED
// FILE
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>

#include "cli/recordings/trace_writer.h"
#include "tests/cli/report/made_up.h"

int main(int count, char** words) {
  if (count != 5) {
    std::fputs("usage: made_up_trace training|crowd|nonsense|hostile EVENTS SEED FILE\n", stderr);
    return 2;
  }
  try {
    const std::string kind = words[1];
    const auto events = static_cast<std::uint32_t>(std::stoul(words[2]));
    const std::uint64_t seed = std::stoull(words[3]);
    cubfc::recordings::Recording recording = kind == "nonsense" ? made_up::nonsense(events, seed)
                                             : kind == "crowd"  ? made_up::crowd(events, seed)
                                                                : made_up::training(events, seed);
    if (kind == "hostile") {
      made_up::make_hostile(recording);
    }
    // A trace has names for all that it numbers.
    std::erase_if(recording.events, [&](const cubfc::recordings::Event& event) {
      return event.place >= recording.places.size() || event.thread >= recording.threads.size() ||
             event.caller >= recording.callers.size() ||
             (event.kind > cubfc::trace::Kind::kClose &&
              event.kind != cubfc::trace::Kind::kOutOfMemory);
    });
    for (cubfc::recordings::Event& event : recording.events) {
      if (event.text >= recording.texts.size()) {
        event.text = cubfc::recordings::kNone;
      }
    }
    cubfc::recordings::write_trace(words[4], recording);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "made_up_trace: %s\n", error.what());
    return 1;
  }
}
