// How queued work runs: a thread per stream, started with its first work, which takes one piece
// after the other once what it depends on is done. All functions want state().mutex held.
#pragma once

#include "state.h"

namespace standin {

// A stream of the context, listed there. Not in state().streams.
StreamPtr NewStream(Context& context, unsigned flags, int priority);

// Queues work behind the stream's earlier work and behind what the legacy stream's rules demand.
// Returns `end`, which it marks.
FencePtr Enqueue(Stream& stream, std::function<void()> run, Fences after = {},
                 FencePtr end = std::make_shared<Fence>());

// Enqueues, unless a capture forbids it. For a stream that does not capture. `fence` may be null.
CUresult Submit(Stream& stream, std::function<void()> run, FencePtr* fence = nullptr);

// Submits work that comes after all that the stream's context and these others have, and before all
// that they get. Contexts that are not there count for nothing.
CUresult SubmitBetween(Stream& stream, std::function<void()> run,
                       const std::vector<CUcontext>& others, FencePtr* fence);

// Lets all begin that lead to these ends, if work begins only then (STANDIN_WORK=asked). Whoever
// waits for a fence or tells the program whether it is done calls this first.
void Ask(const Fences& fences);

// A call of the program's lets the lock go until all are done (standin_waiting_calls).
void WaitFor(Lock& lock, const Fences& fences);

bool AllDone(const Fences& fences);

// The ends of all work that the context has now, and of one stream's.
Fences PendingOf(Context& context);
Fences PendingOf(const Stream& stream);

// Ends every hold, waits for all work of the context, then lets its threads end.
void Drain(Lock& lock, Context& context);

// Lets the stream's thread end once its queue is empty.
void Close(Stream& stream);

}  // namespace standin
