// What a test may ask of the software driver beyond CUDA's own functions. A test links to
// standin_cuda, or finds these with dlsym in a libcuda.so.1 that may be the real one.
// All are thread safe except standin_configure.
#pragma once

#include <stddef.h>  // NOLINT(modernize-deprecated-headers)
#include <stdint.h>  // NOLINT(modernize-deprecated-headers): a C header, too

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;
struct CUctx_st;

// Sets one environment variable of README.md ("STANDIN_MEMORY", "8GiB") before cuInit. 0 if the
// name or the value is not valid, or if it is too late.
int standin_configure(const char* name, const char* value);

// How often the function of this symbol ("cuMemAlloc_v2") was called since the last reset.
// 0 for a symbol that there is not.
uint64_t standin_calls(const char* symbol);
void standin_reset_calls(void);

// Makes calls fail with `error`: those after the next `after` ones, `times` of them, UINT64_MAX for
// ever; times 0 ends it. 0 if there is no such symbol.
int standin_fail(const char* symbol, int error, uint64_t after, uint64_t times);

// What each call takes before it does its work. 0 if there is no such symbol.
int standin_latency(const char* symbol, uint64_t ns);

// What each piece of work takes in its stream before it is done.
void standin_work_delay(uint64_t ns);

// Device memory that this process holds.
uint64_t standin_live_bytes(int device);
uint64_t standin_peak_bytes(int device);

// The whole of a device: what it has, and what all processes use. 0 if there is no such device.
int standin_device_memory(int device, uint64_t* total, uint64_t* used);

// What a driver from 615 on gives of the device to this process at most (STANDIN_LIMIT); 0: it does
// not limit it.
uint64_t standin_device_limit(int device);

// Keeps the stream from beginning any work until it is released. The stream 0 is the legacy stream
// of the current context. 0 if there is no such stream.
int standin_hold_stream(struct CUstream_st* stream);
int standin_release_stream(struct CUstream_st* stream);

// The calling thread's next copies from the device to the host bring these numbers instead of what
// is there: a copy of at most 8 bytes brings one, in as many bytes as are copied; a copy of k times
// 8 bytes brings k of them, if so many are left. The driver computes nothing, and so knows no
// number that a kernel should have computed; the caller does. What an earlier call has left is
// forgotten.
void standin_answer_reads(const uint64_t* numbers, size_t count);

// How many calls wait at this moment for work that is not done: cuMemFree, cuCtxSynchronize and all
// others that do. With a held stream a test waits for this instead of a while.
uint64_t standin_waiting_calls(void);

// What a kernel does that accesses memory wrongly: from now on every call in the context answers
// `error`, a CUresult; 0 ends it. 0 if there is no such context. The current one if it is NULL.
int standin_break_context(struct CUctx_st* context, int error);

// A call of a driver function, as it begins and as it ends.
struct standin_call {     // NOLINT(readability-identifier-naming): as all names here
  const char* symbol;     // "cuMemAlloc_v2"; stays for ever
  const int* result;      // a CUresult; NULL as the call begins
  uint64_t* correlation;  // the watcher's own, from the beginning to the end; 0 at first
  uint64_t number;        // of the call among those that are watched, from 1
};

// Is told of every call that begins from now on, on the thread that makes it, also when it is made
// to fail. NULL ends that; of the calls that are under way then, the ends are still told.
typedef void (*standin_watcher)(const struct standin_call* call);
void standin_watch(standin_watcher watcher);

#ifdef __cplusplus
}
#endif
