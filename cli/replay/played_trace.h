// Writes the trace of what is played (`cubfc replay --trace`), as it happens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cli/recordings/trace_writer.h"
#include "cli/replay/conditions.h"
#include "cli/replay/workload.h"

namespace cubfc::replay {

// The names for the TraceWriter: the recording's program, threads and callers, with devices and
// places as they are under the conditions. The places are the workload's groups.
recordings::Recording names_of(const recordings::Recording& recording, const Workload& workload,
                               const Conditions& conditions, const std::string& settings);

// Writes events with the time, the thread and the caller of the recording's event that causes them.
// Does nothing without a writer.
class PlayedTrace {
 public:
  // `writer`: NULL if no trace is wanted. Both must outlive the object.
  PlayedTrace(const recordings::Recording& recording, recordings::TraceWriter* writer)
      : recording_(recording), writer_(writer) {}

  bool is_wanted() const { return writer_ != nullptr; }

  // Says that this event of the recording causes all that is written from now on.
  void set_cause(std::uint32_t event) { cause_ = event; }
  void write(trace::Kind kind, std::uint32_t group, std::uint64_t address, std::uint64_t bytes,
             std::uint64_t padding = 0, std::string_view text = {}) {
    if (is_wanted()) {
      put(kind, group, address, bytes, padding, text);
    }
  }
  // Writes the cause itself, which must be an event of the process as a whole.
  void write_cause();
  // Called at the end of the play: writes a kClose at the time of the last cause.
  void end();

 private:
  void put(trace::Kind kind, std::uint32_t group, std::uint64_t address, std::uint64_t bytes,
           std::uint64_t padding, std::string_view text);

  const recordings::Recording& recording_;
  recordings::TraceWriter* const writer_;
  std::uint32_t cause_ = 0;
};

}  // namespace cubfc::replay
