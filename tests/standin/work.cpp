#include "work.h"

#include <algorithm>

#include "behaviour.h"
#include "capture.h"

namespace standin {
namespace {

bool Idle(const Stream& stream) {
  return !stream.tail || stream.tail->done;
}

void Delay(std::chrono::nanoseconds delay) {
  if (delay.count() > 0) std::this_thread::sleep_for(delay);
}

void RunQueue(StreamPtr stream) {
  Lock lock(state().mutex);
  for (;;) {
    stream->wake.wait(lock, [&] { return !stream->queue.empty() || stream->closing; });
    if (stream->queue.empty()) return;
    Work work = std::move(stream->queue.front());
    stream->queue.pop_front();
    state().changed.wait(lock, [&] { return !stream->held && AllDone(work.after); });
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

FencePtr Enqueue(Stream& stream, std::function<void()> run, Fences after) {
  AddImplicitDependencies(stream, after);
  auto fence = std::make_shared<Fence>();
  stream.queue.push_back({std::move(run), std::move(after), fence});
  stream.tail = fence;
  if (!stream.started) {
    stream.started = true;
    for (const StreamPtr& owned : stream.context->streams) {
      if (owned.get() == &stream) std::thread(RunQueue, owned).detach();
    }
  }
  stream.wake.notify_one();
  return fence;
}

CUresult Submit(Stream& stream, std::function<void()> run, FencePtr* fence) {
  if (const CUresult error = CheckLegacyUse(stream)) return error;
  FencePtr added = Enqueue(stream, std::move(run));
  if (fence) *fence = std::move(added);
  return CUDA_SUCCESS;
}

bool AllDone(const Fences& fences) {
  return std::all_of(fences.begin(), fences.end(),
                     [](const FencePtr& fence) { return fence->done; });
}

void WaitFor(Lock& lock, const Fences& fences) {
  if (AllDone(fences)) return;
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
