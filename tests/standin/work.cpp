#include "work.h"

#include <algorithm>
#include <utility>

#include "behaviour.h"
#include "capture.h"
#include "settings.h"

namespace standin {
namespace {

bool Idle(const Stream& stream) {
  return !stream.tail || stream.tail->done;
}

void Delay(std::chrono::nanoseconds delay) {
  if (delay.count() > 0) std::this_thread::sleep_for(delay);
}

// A stream's work is done in its order: who asks for what comes later asks for this, too.
bool IsAskedFor(const Work& next, const Stream& stream) {
  return !settings().works_when_asked || next.fence->asked ||
         std::any_of(stream.queue.begin(), stream.queue.end(),
                     [](const Work& later) { return later.fence->asked; });
}

bool MayBegin(const Work& next, const Stream& stream) {
  if (stream.held || !IsAskedFor(next, stream)) return false;
  Ask(next.after);
  return AllDone(next.after);
}

void RunQueue(StreamPtr its) {
  Lock lock(state().mutex);
  // Let go of under the lock, as everywhere: ThreadSanitizer, which sees locks here and no counts
  // of references, would take the stream's end for a race with whoever used it last.
  const StreamPtr stream = std::move(its);
  for (;;) {
    stream->wake.wait(lock, [&] { return !stream->queue.empty() || stream->closing; });
    if (stream->queue.empty()) return;
    Work work = std::move(stream->queue.front());
    stream->queue.pop_front();
    state().changed.wait(lock, [&] { return MayBegin(work, *stream); });
    const auto delay = state().work_delay;
    lock.unlock();
    Delay(delay);
    if (work.run) work.run();
    work.run = nullptr;  // what it captured may take the lock when it goes
    lock.lock();
    work.fence->done = true;
    work.fence->when = Clock::now();
    state().changed.notify_all();
  }
}

// cuda.h, CU_STREAM_LEGACY: the legacy stream waits for all blocking streams of its context, and
// they wait for it.
void AddImplicitDependencies(const Stream& stream, Fences& after) {
  Context& context = *stream.context;
  if (stream.legacy) {
    for (const StreamPtr& other : context.streams) {
      if (other->blocking() && !Idle(*other)) after.push_back(other->tail);
    }
  } else if (stream.blocking() && !Idle(*context.legacy)) {
    after.push_back(context.legacy->tail);
  }
  if (context.barrier && !context.barrier->done) after.push_back(context.barrier);
}

// The context itself, or the primary one of a green context.
Context* RootOf(Context& context) {
  return context.primary_of_green ? context.primary_of_green : &context;
}

void ForgetEndedStreams(Context& context) {
  std::erase_if(context.streams,
                [](const StreamPtr& stream) { return stream->closing && Idle(*stream); });
}

}  // namespace

StreamPtr NewStream(Context& context, unsigned flags, int priority) {
  auto stream = std::make_shared<Stream>();
  stream->context = &context;
  stream->flags = flags;
  stream->priority = priority;
  stream->id = ++state().last_stream_id;
  ForgetEndedStreams(context);
  context.streams.push_back(stream);
  return stream;
}

FencePtr Enqueue(Stream& stream, std::function<void()> run, Fences after, FencePtr end) {
  AddImplicitDependencies(stream, after);
  stream.queue.push_back({std::move(run), std::move(after), end});
  stream.tail = end;
  if (!stream.started) {
    stream.started = true;
    for (const StreamPtr& owned : stream.context->streams) {
      if (owned.get() == &stream) std::thread(RunQueue, owned).detach();
    }
  }
  stream.wake.notify_one();
  return end;
}

CUresult Submit(Stream& stream, std::function<void()> run, FencePtr* fence) {
  if (const CUresult error = CheckLegacyUse(stream)) return error;
  FencePtr added = Enqueue(stream, std::move(run));
  if (fence) *fence = std::move(added);
  return CUDA_SUCCESS;
}

CUresult SubmitBetween(Stream& stream, std::function<void()> run,
                       const std::vector<CUcontext>& others, FencePtr* fence) {
  if (const CUresult error = CheckLegacyUse(stream)) return error;
  std::set<Context*> contexts = {RootOf(*stream.context)};
  for (const CUcontext handle : others) {
    const auto found = state().contexts.find(handle);
    if (found != state().contexts.end()) contexts.insert(RootOf(*found->second));
  }
  Fences after;
  for (Context* const context : contexts) {
    const Fences pending = PendingOf(*context);
    after.insert(after.end(), pending.begin(), pending.end());
  }
  const FencePtr end = Enqueue(stream, std::move(run), std::move(after));
  for (const auto& [handle, context] : state().contexts) {
    if (!contexts.contains(RootOf(*context))) continue;
    context->barrier = end;
    // Whoever waits for the context waits for this, too.
    if (context->legacy.get() != &stream) Enqueue(*context->legacy, nullptr);
  }
  if (fence) *fence = end;
  return CUDA_SUCCESS;
}

void Ask(const Fences& fences) {
  if (!settings().works_when_asked) return;
  bool any = false;
  for (const FencePtr& fence : fences) {
    any = !std::exchange(fence->asked, true) || any;
    if (fence->launch) any = !std::exchange(fence->launch->asked, true) || any;
  }
  if (any) state().changed.notify_all();
}

bool AllDone(const Fences& fences) {
  return std::all_of(fences.begin(), fences.end(),
                     [](const FencePtr& fence) { return fence->done; });
}

void WaitFor(Lock& lock, const Fences& fences) {
  if (AllDone(fences)) return;
  Ask(fences);
  ++state().waiting_calls;
  state().changed.wait(lock, [&] { return AllDone(fences); });
  --state().waiting_calls;
}

Fences PendingOf(Context& context) {
  Fences pending;
  for (const StreamPtr& stream : context.streams) {
    if (!Idle(*stream)) pending.push_back(stream->tail);
  }
  // cuda.h, cuCtxRecordEvent and cuCtxSynchronize: a primary context's green contexts are included.
  for (const auto& [handle, green] : state().contexts) {
    if (green->primary_of_green != &context) continue;
    const Fences more = PendingOf(*green);
    pending.insert(pending.end(), more.begin(), more.end());
  }
  return pending;
}

Fences PendingOf(const Stream& stream) {
  return Idle(stream) ? Fences{} : Fences{stream.tail};
}

void Close(Stream& stream) {
  stream.closing = true;
  stream.wake.notify_one();
}

void Drain(Lock& lock, Context& context) {
  for (const StreamPtr& stream : context.streams) stream->held = false;
  state().changed.notify_all();
  WaitFor(lock, PendingOf(context));
  for (const StreamPtr& stream : context.streams) {
    Close(*stream);
    stream->context = nullptr;
  }
}

}  // namespace standin
