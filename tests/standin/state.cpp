#include "state.h"

#include <pthread.h>

#include <csignal>
#include <cstdio>

#include "behaviour.h"
#include "entry_point.h"
#include "settings.h"
#include "work.h"

namespace standin {

Device::Device(int ordinal, Usage& usage)
    : number(ordinal),
      memory(ordinal, settings().memory_of(ordinal), settings().reserved_of(ordinal), usage) {}

State& state() {
  static State* const instance = new State;
  return *instance;
}

namespace {

// What a real driver does with a handle that it never gave out: it reads what lies there.
[[noreturn]] void CrashOn(const char* what, const void* handle) {
  std::fprintf(stderr, "standin: %p is no %s and never was one\n", handle, what);
  std::raise(SIGSEGV);
  std::abort();
}

CUresult NoStream(CUstream handle) {
  if (state().destroyed.contains(handle)) return Behaviour("any.destroyed_stream");
  if (BehaviourFlag("any.bad_stream.crashes")) CrashOn("stream", handle);
  return CUDA_ERROR_INVALID_HANDLE;
}

}  // namespace

// Not itself a thread-local: those of a library that is loaded late have little room. It is there
// as long as the thread, for the first one until the process is gone, whatever calls the driver
// while it ends.
ThreadState& thread_state() {
  static const pthread_key_t key = [] {
    pthread_key_t made{};
    pthread_key_create(&made, [](void* state) { delete static_cast<ThreadState*>(state); });
    return made;
  }();
  void* state = pthread_getspecific(key);
  if (state == nullptr) {
    state = new ThreadState;
    pthread_setspecific(key, state);
  }
  return *static_cast<ThreadState*>(state);
}

CUresult FindContext(CUcontext handle, Context*& out) {
  const auto found = state().contexts.find(handle);
  if (found == state().contexts.end()) return Behaviour("any.destroyed_context");
  out = found->second.get();
  return out->lasting_error;
}

CUresult CurrentContext(Context*& out, std::string_view no_context) {
  const auto& stack = thread_state().contexts;
  if (stack.empty() || !stack.back()) return Behaviour(no_context);
  return FindContext(stack.back(), out);
}

const Context& MemoryOf(const Context& context) {
  return context.primary_of_green ? *context.primary_of_green : context;
}

CUresult ContextOrCurrent(CUcontext handle, Context*& out) {
  return handle ? FindContext(handle, out) : CurrentContext(out);
}

CUresult FindStream(CUstream handle, StreamPtr& out) {
  const bool zero = handle == nullptr;
  const bool per_thread = handle == CU_STREAM_PER_THREAD ||
                          (zero && EntryPoint::default_stream() == DefaultStream::kPerThread);
  if (zero || per_thread || handle == CU_STREAM_LEGACY) {
    Context* context = nullptr;
    if (const CUresult error = CurrentContext(context)) return error;
    if (!per_thread) {
      out = context->legacy;
      return CUDA_SUCCESS;
    }
    StreamPtr& stream = context->per_thread[std::this_thread::get_id()];
    if (!stream) stream = NewStream(*context, CU_STREAM_DEFAULT, 0);
    out = stream;
    return CUDA_SUCCESS;
  }
  const auto found = state().streams.find(handle);
  if (found == state().streams.end()) return NoStream(handle);
  out = found->second;
  return out->context ? out->context->lasting_error : CUDA_SUCCESS;
}

CUresult FindEvent(CUevent handle, std::shared_ptr<Event>& out) {
  const auto found = state().events.find(handle);
  if (found == state().events.end()) {
    return Behaviour(state().destroyed.contains(handle) ? "any.destroyed_event" : "any.bad_event");
  }
  out = found->second;
  return CUDA_SUCCESS;
}

bool ArePeers(int one, int other) {
  Device* first = nullptr;
  Device* second = nullptr;
  return FindDevice(one, first) == CUDA_SUCCESS && FindDevice(other, second) == CUDA_SUCCESS &&
         settings().are_peers(first->number, second->number);
}

void Forget(CUstream handle) {
  if (state().streams.erase(handle) > 0) state().destroyed.insert(handle);
}
void Forget(CUevent handle) {
  if (state().events.erase(handle) > 0) state().destroyed.insert(handle);
}

CUresult FindDevice(CUdevice device, Device*& out) {
  if (device < 0 || static_cast<std::size_t>(device) >= state().devices.size()) {
    return Behaviour("any.bad_device");
  }
  out = state().devices[static_cast<std::size_t>(device)].get();
  return CUDA_SUCCESS;
}

Allocation* FindAllocation(CUdeviceptr address) {
  auto& allocations = state().allocations;
  auto after = allocations.upper_bound(address);
  if (after == allocations.begin()) return nullptr;
  Allocation& found = std::prev(after)->second;
  return address - found.base < found.bytes ? &found : nullptr;
}

Allocation& AddAllocation(Kind kind, CUdeviceptr base, std::size_t bytes, const Context& context) {
  const Context& owner = MemoryOf(context);
  Allocation& added = state().allocations[base];
  added = Allocation{.kind = kind,
                     .base = base,
                     .bytes = bytes,
                     .device = context.device,
                     .context = owner.handle,
                     .context_id = owner.id,
                     .buffer_id = ++state().last_buffer_id};
  return added;
}

}  // namespace standin
