// cuCheckpoint*, cuLogs*: no process is ever locked or checkpointed here, and nothing is logged.
#include <csignal>
#include <cstdio>

#include "entry_point.h"
#include "state.h"

using namespace standin;

#if CUDA_VERSION >= 12080
namespace standin {
namespace {

bool IsThere(int pid) {
  return pid > 0 && kill(pid, 0) == 0;
}

// Of a call that is for a process that is locked or checkpointed already.
CUresult RefuseRunning(int pid) {
  return IsThere(pid) ? CUDA_ERROR_ILLEGAL_STATE : CUDA_ERROR_OPERATING_SYSTEM;
}

}  // namespace
}  // namespace standin

ENTRY(cuCheckpointProcessGetState, (int pid, CUprocessState* out), (pid, out)) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (!IsThere(pid)) return CUDA_ERROR_OPERATING_SYSTEM;
  *out = CU_PROCESS_STATE_RUNNING;
  return CUDA_SUCCESS;
}

ENTRY(cuCheckpointProcessGetRestoreThreadId, (int pid, int* out), (pid, out)) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (!IsThere(pid)) return CUDA_ERROR_OPERATING_SYSTEM;
  *out = pid;  // the main thread
  return CUDA_SUCCESS;
}

ENTRY(cuCheckpointProcessCheckpoint, (int pid, CUcheckpointCheckpointArgs* arguments),
      (pid, arguments)) {
  (void)arguments;
  return RefuseRunning(pid);
}
ENTRY(cuCheckpointProcessRestore, (int pid, CUcheckpointRestoreArgs* arguments), (pid, arguments)) {
  (void)arguments;
  return RefuseRunning(pid);
}
ENTRY(cuCheckpointProcessUnlock, (int pid, CUcheckpointUnlockArgs* arguments), (pid, arguments)) {
  (void)arguments;
  return RefuseRunning(pid);
}
#endif

#if CUDA_VERSION >= 12090
namespace standin {
namespace {

// Guarded by state().mutex.
std::set<void*>& log_callbacks() {
  static auto* const instance = new std::set<void*>;
  return *instance;
}

}  // namespace
}  // namespace standin

ENTRY(cuLogsCurrent, (CUlogIterator * out, unsigned flags), (out, flags)) {
  if (!out || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  *out = 0;
  return CUDA_SUCCESS;
}

ENTRY(cuLogsDumpToFile, (CUlogIterator * from, const char* path, unsigned flags),
      (from, path, flags)) {
  (void)from;
  if (!path || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  std::FILE* const file = std::fopen(path, "w");
  if (!file) return CUDA_ERROR_OPERATING_SYSTEM;
  std::fclose(file);
  return CUDA_SUCCESS;
}

ENTRY(cuLogsDumpToMemory, (CUlogIterator * from, char* buffer, size_t* bytes, unsigned flags),
      (from, buffer, bytes, flags)) {
  (void)from;
  if (!buffer || !bytes || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  *bytes = 0;
  return CUDA_SUCCESS;
}

ENTRY(cuLogsRegisterCallback, (CUlogsCallback callback, void* data, CUlogsCallbackHandle* out),
      (callback, data, out)) {
  (void)data;
  if (!callback || !out) return CUDA_ERROR_INVALID_VALUE;
  const Lock lock(state().mutex);
  *out = reinterpret_cast<CUlogsCallbackHandle>(new char);
  log_callbacks().insert(*out);
  return CUDA_SUCCESS;
}

ENTRY(cuLogsUnregisterCallback, (CUlogsCallbackHandle handle), (handle)) {
  const Lock lock(state().mutex);
  if (log_callbacks().erase(handle) == 0) return CUDA_ERROR_INVALID_VALUE;
  delete reinterpret_cast<char*>(handle);
  return CUDA_SUCCESS;
}
#endif
