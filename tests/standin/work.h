// How queued work runs: a thread per stream, started with its first work, which takes one piece
// after the other once what it depends on is done. All functions want state().mutex held.
#pragma once

#include "state.h"

namespace standin {

// A stream of the context, listed there. Not in state().streams.
StreamPtr NewStream(Context& context, unsigned flags, int priority);

// Queues work behind the stream's earlier work and behind what the legacy stream's rules demand.
FencePtr Enqueue(Stream& stream, std::function<void()> run, Fences after = {});

// Enqueues, unless a capture forbids it. For a stream that does not capture. `fence` may be null.
CUresult Submit(Stream& stream, std::function<void()> run, FencePtr* fence = nullptr);

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
