// How long cubfc waits for what may never come, and how often it tries: all such numbers of the
// library, each with what it was chosen by. The program's own work is not among them: without
// cubfc its cuMemFree would have waited for it, and so it is waited for as long as it takes.
// (An arena waits for another of its threads as kForDriverCall says; arena/ knows no file of the
// library's, and has the number in source_calls.h.)
#pragma once

#include <chrono>

namespace cubfc::patience {

// ---- Another thread of this process that is inside the driver. There a hook of somebody else's
// may make it wait for a lock that this thread holds, so it is not waited for without end.
//
// The longest call seen on an H200 makes a context, in 250 ms; this is eight times as long. By
// Preallocation, by an exit and by whoever may end a context; and for epochs in another's hand.
inline constexpr std::chrono::seconds kForDriverCall{2};

// ---- A request that lacks memory: source/search.h. Each time is counted from when such a thing is
// first waited for.
//
// Threads and processes that give back and take, as long as there is enough in all. Of ten
// processes that begin at once on an H200, which makes their contexts one after the other, none is
// refused with this. What is not to be had fails so much later, but only where others have enough.
inline constexpr std::chrono::seconds kForOthers{2};
inline constexpr std::chrono::milliseconds kNapForOthers{1};  // an H200 takes back 4 GiB in it
// A process that gives back all that it has, or whose memory the driver takes back. An H200 takes
// up to 0.13 s for one that has preallocated 105 GiB, and others may be ending before it. They may
// end, one after the other, for ever.
inline constexpr std::chrono::seconds kForEnding{6};
inline constexpr std::chrono::milliseconds kNapForEnding{10};  // an end takes 50 ms
// Passes over all sources in which something was brought and the request failed all the same:
// threads and processes take what is given back. In the tests of that no request needs more than
// 22. A thousand would have another reason than lack of memory. Passes that have waited do not
// count: their time ends them.
inline constexpr int kMostPasses = 1000;
// Each pass asks for twice as much as the one before: threads that go on allocating take it as fast
// as it is given back. At last a million times as much.
inline constexpr int kMostDoublings = 20;
// Refusals in a row although the driver said that it had enough: others see that, too, and may be
// quicker. So often: for another reason than lack of memory.
inline constexpr int kMostRefusedWithEnough = 3;

// ---- Other processes of the user: meet/.
//
// For an answer, or another part of what was asked for: who gives back 4 GiB takes 1 ms, and says
// so for each GiB. A process that was stopped does not answer.
inline constexpr std::chrono::seconds kForAnswer{1};
inline constexpr std::chrono::seconds kForAllAnswers{30};
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
