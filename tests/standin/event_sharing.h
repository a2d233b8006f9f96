// Events of several processes (CU_EVENT_INTERPROCESS): two counters in memory that all of them map.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>

namespace standin {

// How often an event was recorded, and up to which recording the work before it is done. May be
// used by all threads and processes at once, without state().mutex.
class SharedEvent {
 public:
  // A new one; null when there is no memory for it.
  static std::shared_ptr<SharedEvent> Make();
  // The one of another process, by that process's file; null when the process is gone for example.
  static std::shared_ptr<SharedEvent> Open(pid_t owner, int fd);

  SharedEvent(const SharedEvent&) = delete;
  SharedEvent& operator=(const SharedEvent&) = delete;
  ~SharedEvent();

  // Counts a recording and says which it is. Complete is called once the work before it is done.
  std::uint64_t Record();
  void Complete(std::uint64_t recording);

  std::uint64_t last_recording() const;
  bool IsComplete() const;  // the last recording, or there was none
  // Sleeps and looks again until the recording is complete. Not with state().mutex held.
  void Wait(std::uint64_t recording) const;

  int fd() const { return fd_; }

 private:
  struct Counters {
    std::atomic<std::uint64_t> recorded;
    std::atomic<std::uint64_t> complete;
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

  SharedEvent(int fd, Counters* counters) : fd_(fd), counters_(counters) {}
  static std::shared_ptr<SharedEvent> Map(int fd);

  const int fd_;
  Counters* const counters_;
};

}  // namespace standin
