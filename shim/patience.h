// How long cubfc waits, and how often it tries: all such numbers of the library, each with what it
// was chosen by.
//
// Without bound it waits for the program's work, where without cubfc cuMemFree would have waited
// for it: for what the program has freed (DeviceFrees::wait_for_any), for an idle region that goes
// back (UnusedMemory::release), for the streams of a pool (UnusedMemory::drain_pools).
//
// (An arena waits for another of its threads as kForDriverCall says; arena/ knows no file of the
// library's, and has the number in source_calls.h.)
#pragma once

#include <chrono>

namespace cubfc::patience {

// ---- Another thread of this process that is inside the driver. A hook of somebody else's may stop
// it there until it gets a lock, which the thread that waits for it may hold. So the wait ends.
//
// Eight times as long as the longest call seen on an H200, which makes a context (250 ms). Used by
// Preallocation, by an exit, by whoever may end a context, and where another thread has taken an
// epoch of freed blocks to ask the driver about it (DeviceFrees).
inline constexpr std::chrono::seconds kForDriverCall{2};
// Blocks that only cuMemFreeAsync has freed: their stream may be waiting for the thread that asks
// for memory, and the driver would have refused that thread at once.
inline constexpr std::chrono::seconds kForStreamOrder{2};
// After so long a wait for freed blocks, which has no bound, a line says so, once.
inline constexpr std::chrono::seconds kUntilTold{5};

// ---- A request that lacks memory: source/search.h, source/time_left.h. Each of the two times is
// counted from when something of its kind is first waited for.
//
// Other threads and processes that give back and take, provided that there is enough in all: one
// time for everything of that kind. With it, of ten processes that begin at once on an H200, which
// makes their contexts one after the other, none is refused. A request that fails in the end fails
// by so much later.
inline constexpr std::chrono::seconds kForOthers{2};
inline constexpr std::chrono::milliseconds kNapForOthers{1};  // an H200 takes back 4 GiB in it
// A process that gives back all that it has because it ends, or whose memory the driver takes back.
// An H200 takes up to 0.13 s for one that has preallocated 105 GiB, and the driver may have others
// before it. New ones may begin and end all the time, so this ends, too. A second more than
// kUntilTakenBack, for which a group goes on saying that it has lost a member.
inline constexpr std::chrono::seconds kForEnding{6};
inline constexpr std::chrono::milliseconds kNapForEnding{10};  // an end takes 50 ms
// Passes over all sources in which something was brought and the request failed all the same:
// threads and processes take what is given back. In the tests of that no request needs more than
// 22. A thousand would have another reason than lack of memory. Not counted are those whose wait
// has an end of its own (Source::Waited::kUncounted).
inline constexpr int kMostPasses = 1000;
// Each pass asks for twice as much as the one before: threads that go on allocating take it as fast
// as it is given back. The last one asks for a million times as much as the first.
inline constexpr int kMostDoublings = 20;
// The driver said that it had enough, and refused: others see that, too, and may be quicker. When
// that has happened so often in a row, the refusal has another reason than lack of memory.
inline constexpr int kMostRefusedWithEnough = 3;

// ---- Other processes of the user: meet/.
//
// For an answer, or another part of what was asked for: who gives back 4 GiB takes 1 ms, and says
// so for each GiB. A process that was stopped does not answer.
inline constexpr std::chrono::seconds kForAnswer{1};
inline constexpr std::chrono::seconds kForAllAnswers{30};
// How old another process's answer may be that cuMemGetInfo counts by, if it has changed since:
// who asks all the time wakes it no oftener than that.
inline constexpr std::chrono::milliseconds kOldestAnswer{10};
// And if it has said that nothing has: there may be what it does not know of, such as an error of
// the device's.
inline constexpr std::chrono::milliseconds kOldestLastingAnswer{1000};
// Between two looks whether those who are waited for are alive.
inline constexpr std::chrono::milliseconds kLookForDead{20};
// Within this time the driver has taken back what a killed member of a group had.
inline constexpr std::chrono::seconds kUntilTakenBack{5};
// For another process that clears a group's dead members at this moment, which it does without a
// driver call: 5 s in all, for a machine with much to do.
inline constexpr int kMostNapsForClearing = 50'000;
inline constexpr std::chrono::microseconds kNapForClearing{100};

// ---- Work on the device, looked at again and again while it is waited for: wait/. From the first
// to the last each pause is twice as long as the one before.
inline constexpr std::chrono::microseconds kShortestPause{20};
inline constexpr std::chrono::microseconds kLongestPause{1000};

// ---- Another thread that writes a part of the trace to its file, or has a place in it and no
// record there yet (TraceRecorder). First by giving up the processor, then by naps, since a thread
// of a lower priority may never get a processor else: 5 s in all, as naps are (170 us). A disk that
// takes longer for 256 KiB has failed.
inline constexpr int kYieldsForTrace = 100;
inline constexpr int kMostNapsForTrace = 30'000;
inline constexpr std::chrono::microseconds kNapForTrace{100};

// ---- Captures: driver/captures.h. A thread that is about to block in the driver is in it after
// so long, also when there are too few processors.
inline constexpr std::chrono::milliseconds kTimeToEnter{250};
// Nothing else that a WaitPermit is for lasts as long: each is one driver call.
inline constexpr std::chrono::seconds kLongestPermit{2};

// ---- The process's end: background/.
//
// What is preallocated goes back; an H200 takes 80 ms for 105 GiB.
inline constexpr std::chrono::seconds kForGivingBackAtExit{1};

}  // namespace cubfc::patience
