// The functions of standin.h.
#include "standin.h"

#include "entry_point.h"
#include "settings.h"
#include "state.h"

using namespace standin;

namespace {

const DeviceMemory* MemoryOf(int device) {
  Device* found = nullptr;
  return FindDevice(device, found) == CUDA_SUCCESS ? &found->memory : nullptr;
}

int Hold(CUstream handle, bool held) {
  const Lock lock(state().mutex);
  StreamPtr stream;
  if (FindStream(handle, stream) != CUDA_SUCCESS) return 0;
  stream->held = held;
  state().changed.notify_all();
  return 1;
}

}  // namespace

int standin_configure(const char* name, const char* value) {
  return !IsInitialized() && name && value && Apply(settings(), name, value) ? 1 : 0;
}

uint64_t standin_calls(const char* symbol) {
  const EntryPoint* const entry = EntryPoint::Find(symbol);
  return entry ? entry->calls() : 0;
}

void standin_reset_calls() {
  EntryPoint::ResetCalls();
}

int standin_fail(const char* symbol, int error, uint64_t after, uint64_t times) {
  EntryPoint* const entry = EntryPoint::Find(symbol);
  if (!entry) return 0;
  entry->set_failure(static_cast<CUresult>(times > 0 ? error : 0), entry->total_calls() + after + 1,
                     times);
  return 1;
}

int standin_latency(const char* symbol, uint64_t ns) {
  EntryPoint* const entry = EntryPoint::Find(symbol);
  if (!entry) return 0;
  entry->set_latency(ns);
  return 1;
}

void standin_work_delay(uint64_t ns) {
  settings().work_delay = std::chrono::nanoseconds(ns);
  const Lock lock(state().mutex);
  state().work_delay = std::chrono::nanoseconds(ns);
}

uint64_t standin_live_bytes(int device) {
  const Lock lock(state().mutex);
  const DeviceMemory* const memory = MemoryOf(device);
  return memory ? memory->live() : 0;
}

uint64_t standin_peak_bytes(int device) {
  const Lock lock(state().mutex);
  const DeviceMemory* const memory = MemoryOf(device);
  return memory ? memory->peak() : 0;
}

int standin_device_memory(int device, uint64_t* total, uint64_t* used) {
  const Lock lock(state().mutex);
  Device* found = nullptr;
  if (FindDevice(device, found) != CUDA_SUCCESS) return 0;
  *total = found->memory.total();
  *used = *total - found->memory.free();
  return 1;
}

uint64_t standin_device_limit(int device) {
  const Lock lock(state().mutex);
  Device* found = nullptr;
  if (FindDevice(device, found) != CUDA_SUCCESS) return 0;
  const std::size_t withheld = settings().withheld_of(found->number);
  return withheld == 0 ? 0 : found->memory.total() - withheld;
}

int standin_hold_stream(CUstream stream) {
  return Hold(stream, true);
}
int standin_release_stream(CUstream stream) {
  return Hold(stream, false);
}

void standin_answer_reads(const uint64_t* numbers, size_t count) {
  thread_state().answers.assign(std::reverse_iterator(numbers + count),
                                std::reverse_iterator(numbers));
}

uint64_t standin_waiting_calls() {
  const Lock lock(state().mutex);
  return state().waiting_calls;
}

int standin_break_context(CUcontext handle, int error) {
  const Lock lock(state().mutex);
  Context* context = nullptr;
  ContextOrCurrent(handle, context);  // finds a broken one, too
  if (!context) return 0;
  context->lasting_error = static_cast<CUresult>(error);
  return 1;
}

void standin_watch(standin_watcher watcher) {
  EntryPoint::Watch(watcher);
}
