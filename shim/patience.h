// How long cubfc waits, and how often it tries: all such numbers of the library, each with the
// reason for its size.
//
// These waits for the program's work have no bound, because without cubfc cuMemFree would have
// waited for the same work: for what the program has freed (DeviceFrees::wait_for_any), for an idle
// region that goes back to the driver (UnusedMemory::release), for the streams of a pool
// (UnusedMemory::drain_pools).
//
// (A thread that must grow an arena waits for another such thread as long as kForDriverCall says.
// The number is in arena/source_calls.h, since arena/ includes no file of shim/.)
#pragma once

#include <chrono>

namespace cubfc::patience {

// ---- Another thread of this process is inside the driver. There a hook of another library may
// make the other thread wait for a lock that the waiting thread holds. So the wait must end.
//
// Eight times as long as the longest driver call seen on an H200, which makes a context (250 ms).
// Preallocation and Ipc wait for other threads' calls; a ContextEnd and a ContextUse wait for each
// other; an exit waits for threads of our own; DeviceFrees waits for a thread that has taken an
// epoch to ask the driver about it.
inline constexpr std::chrono::seconds kForDriverCall{2};
// For blocks that were freed in the order of a stream, when nothing else is left to wait for. The
// stream may be waiting for the thread that asks for memory; without cubfc the driver would have
// refused that thread's request at once.
inline constexpr std::chrono::seconds kForStreamOrder{2};
// A wait for freed blocks has no bound. After so long a log line says that a thread waits, once for
// each device.
inline constexpr std::chrono::seconds kUntilTold{5};

// ---- A request lacks memory: source/search.h, source/time_left.h. Each of the next two times
// begins when the request first waits for something of that kind.
//
// For all other threads and processes that give memory back or take memory, provided that there is
// enough in all. With this time, of ten processes that begin at once on an H200, which makes their
// contexts one after the other, none is refused. A request that fails all the same fails that much
// later.
inline constexpr std::chrono::seconds kForOthers{2};
// The nap before such a request is tried again. An H200 takes back 4 GiB in that time.
inline constexpr std::chrono::milliseconds kNapForOthers{1};
// For processes that give back all that they have because they end, or whose memory the driver is
// taking back. An H200 takes up to 0.13 s for a process that has preallocated 105 GiB, and others
// may come before that one. New processes may begin and end all the time, so the wait must end. One
// second more than kUntilTakenBack, during which a group says that it has just lost a member.
inline constexpr std::chrono::seconds kForEnding{6};
inline constexpr std::chrono::milliseconds kNapForEnding{10};  // the end of a process takes 50 ms
// The most passes over all sources that bring something without the request succeeding, because
// other threads and processes take what is given back. In the tests with such threads and processes
// no request needs more than 22 passes. A request that failed a thousand times would fail for
// another reason. Passes whose wait has an end of its own are not counted
// (Source::Waited::kUncounted).
inline constexpr int kMostPasses = 1000;
// Each pass asks for twice as much as the one before, since other threads that go on allocating may
// take memory as fast as it is given back. After so many doublings, a million times as much as in
// the first pass, the amount stays the same.
inline constexpr int kMostDoublings = 20;
// A driver that says that it has enough memory may refuse a request all the same, because another
// process was quicker. When that has happened so often in a row, the refusal has another reason
// than lack of memory.
inline constexpr int kMostRefusedWithEnough = 3;

// ---- Other processes of the user answer or die: meet/.
//
// For an answer, or for the next part of the memory that was asked for. A process that gives back 4
// GiB takes 1 ms for it, and reports each GiB. A process that is stopped does not answer.
inline constexpr std::chrono::seconds kForAnswer{1};
inline constexpr std::chrono::seconds kForAllAnswers{30};  // for all parts of all answers together
// cuMemGetInfo counts what other processes have answered last. If what a process can give has
// changed since its answer, the answer is used until it is so old. So a program that calls
// cuMemGetInfo all the time wakes another process no more often than that.
inline constexpr std::chrono::milliseconds kOldestAnswer{10};
// If a process has reported no change since its answer, the answer is used until it is so old.
// After that it must be renewed, because there are changes that a process does not notice, such as
// an error of the device.
inline constexpr std::chrono::milliseconds kOldestLastingAnswer{1000};
// Between two checks whether a process that is waited for is alive.
inline constexpr std::chrono::milliseconds kLookForDead{20};
// Within this time the driver has taken back the memory of a killed member of a group.
inline constexpr std::chrono::seconds kUntilTakenBack{5};
// For another process that is clearing a group's dead members, which it does without a driver call.
// 5 s in all, long enough for a machine with much to do.
inline constexpr int kMostNapsForClearing = 50'000;
inline constexpr std::chrono::microseconds kNapForClearing{100};

// ---- Work on the device is polled while a thread waits for it: wait/. Each pause is twice as long
// as the one before, from the shortest to the longest.
inline constexpr std::chrono::microseconds kShortestPause{20};
inline constexpr std::chrono::microseconds kLongestPause{1000};

// ---- Another thread is writing a part of the trace to its file, or has reserved a place in the
// trace and not filled it yet (TraceRecorder). The waiting thread first yields the processor so
// often, then naps: a thread of lower priority may get no processor while others only yield. The
// naps are 5 s in all, since each takes 170 us. A disk that takes longer for 256 KiB has failed.
inline constexpr int kYieldsForTrace = 100;
inline constexpr int kMostNapsForTrace = 30'000;
inline constexpr std::chrono::microseconds kNapForTrace{100};
// When the trace is flushed, such a thread is waited for with fewer naps: what it has not filled by
// then is missing in the file until the buffer is full, and nothing else is lost.
inline constexpr int kMostNapsForFlush = 1000;

// ---- A capture begins: driver/captures.h. A thread that has announced a blocking driver call is
// inside the driver after so long, also when there are too few processors.
inline constexpr std::chrono::milliseconds kTimeToEnter{250};
// The most that a capture waits in all until it begins. Apart from blocking calls, a WaitPermit is
// held for single driver calls, which do not take as long.
inline constexpr std::chrono::seconds kLongestPermit{2};

// ---- The program is put to sleep: sleep/.
//
// For its work on the devices and its calls of the driver to end. After so long it is not idle.
inline constexpr std::chrono::seconds kForSleep{5};
// The longest pause between two looks whether that work is done.
inline constexpr std::chrono::milliseconds kLongestPauseForSleep{250};

// ---- The process ends: background/.
//
// For giving unused memory back to the device; an H200 takes 80 ms for 105 GiB.
inline constexpr std::chrono::seconds kForGivingBackAtExit{1};
// How often a thread of cubfc's looks whether the program's own threads have all ended, which takes
// a read of /proc. A process whose threads have ended stays so much longer at most.
inline constexpr std::chrono::milliseconds kLookForEnd{900};

}  // namespace cubfc::patience
