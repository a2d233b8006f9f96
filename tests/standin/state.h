// What the driver knows: devices, contexts, streams, events, captures, allocations. One mutex
// guards all of it. Plain data and look-ups; the rules are in the files named after the functions.
#pragma once

#include <cuda.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "device_memory.h"
#include "usage.h"

namespace standin {

using Clock = std::chrono::steady_clock;
using Lock = std::unique_lock<std::mutex>;
using Id = unsigned long long;

// The end of one piece of queued work.
struct Fence {
  bool done = false;
  bool asked = false;  // somebody waits for it, or has looked whether it is done
  Clock::time_point when;
  std::shared_ptr<Fence> launch;  // the end of the graph's launch in which this is marked, if it is
};
using FencePtr = std::shared_ptr<Fence>;
using Fences = std::vector<FencePtr>;

struct Work {
  std::function<void()> run;  // without the lock; may be empty
  Fences after;
  FencePtr fence;
};

// As CUgraphEdgeData, which CUDA has from 12.3 on.
struct EdgeData {
  unsigned char from_port = 0;
  unsigned char to_port = 0;
  unsigned char type = 0;
  unsigned char reserved[5] = {};
  bool operator==(const EdgeData&) const = default;
};

// Nodes of a graph on which another is to depend, each once, and the data of the edges to it.
struct DependencySet {
  std::vector<CUgraphNode> nodes = {};
  std::vector<EdgeData> edges = {};

  void Add(CUgraphNode node, const EdgeData& edge = {}) {
    if (std::find(nodes.begin(), nodes.end(), node) != nodes.end()) return;
    nodes.push_back(node);
    edges.push_back(edge);
  }
  void Add(const DependencySet& others) {
    for (std::size_t i = 0; i < others.nodes.size(); ++i) Add(others.nodes[i], others.edges[i]);
  }
  void clear() { *this = {}; }
};

struct Graph;  // graph.h
struct GraphNode;
struct GraphExec;

class SharedEvent;  // event_sharing.h

struct Context;
struct Stream;

struct Capture {
  CUstreamCaptureMode mode;
  Id id;
  std::thread::id thread;
  Stream* origin;
  bool valid = true;
  std::shared_ptr<Graph> graph;
};

struct Stream {
  Context* context = nullptr;  // null once the context is gone
  unsigned flags = 0;
  int priority = 0;
  Id id = 0;
  bool legacy = false;

  std::deque<Work> queue;
  FencePtr tail;  // of the work that was queued last
  bool held = false;
  bool started = false;
  bool closing = false;
  std::condition_variable wake;

  std::shared_ptr<Capture> capture;
  DependencySet capture_after;  // on which the next captured work depends

  bool blocking() const { return !legacy && (flags & CU_STREAM_NON_BLOCKING) == 0; }
};
using StreamPtr = std::shared_ptr<Stream>;

struct Event {
  Context* context = nullptr;
  unsigned flags = 0;
  bool recorded = false;
  Fences fences;
  std::shared_ptr<SharedEvent> shared;  // with other processes, or null
  // Set when the event was last recorded in a capturing stream.
  std::shared_ptr<Capture> capture;
  DependencySet capture_after;
};

struct Context {
  CUcontext handle = nullptr;
  Id id = 0;
  int device = 0;
  unsigned flags = 0;
  unsigned references = 1;  // cuCtxAttach
  bool primary = false;
  Context* primary_of_green = nullptr;  // of a green context: where its memory is
  unsigned multiprocessors = 0;         // of a green context
  StreamPtr legacy;
  std::map<std::thread::id, StreamPtr> per_thread;
  std::vector<StreamPtr> streams;  // all of them, those being destroyed too
  FencePtr barrier;                // all work that is queued from now on comes after it
  std::map<CUlimit, std::size_t> limits;
  std::set<CUcontext> peers;
  CUresult lasting_error = CUDA_SUCCESS;  // of a kernel: every call in the context answers it
};

enum class Kind {
  kDevice,
  kVariable,  // of a module
  kManaged,
  kPool,
  kHostPool,
  kImportedPool,  // of a pool of another process
  kGraph,
  kGraphHost,
  kGraphManaged,
  kHost,
  kRegistered,
  kReserved,
  kIpc
};

inline bool IsOfGraph(Kind kind) {
  return kind == Kind::kGraph || kind == Kind::kGraphHost || kind == Kind::kGraphManaged;
}
inline bool IsManaged(Kind kind) {
  return kind == Kind::kManaged || kind == Kind::kGraphManaged;
}
// Pinned, and known to the driver.
inline bool IsHost(Kind kind) {
  return kind == Kind::kHost || kind == Kind::kRegistered || kind == Kind::kHostPool ||
         kind == Kind::kGraphHost;
}

struct Allocation {
  Kind kind;
  CUdeviceptr base;
  std::size_t bytes;
  int device;
  CUcontext context;
  Id context_id;
  Id buffer_id;
  unsigned flags = 0;
  CUmemoryPool pool = nullptr;
  bool freeing = false;  // being freed, and no use to the program any more
  FencePtr freed = {};   // done when cuMemFreeAsync is
  Id freed_in = 0;       // the stream in whose order it is freed
  bool sync_memops = false;
};

struct Device {
  Device(int number, Usage& usage);
  const int number;  // among the machine's: CUDA_VISIBLE_DEVICES gives it another in the process
  DeviceMemory memory;
  std::shared_ptr<Context> primary;  // null while inactive
  unsigned primary_references = 0;
  unsigned primary_flags = 0;
};

template <typename Handle, typename Object>
using Registry = std::unordered_map<Handle, std::shared_ptr<Object>>;

struct State {
  std::mutex mutex;
  std::condition_variable changed;  // a fence is done or asked for, a hold has ended
  std::unique_ptr<Usage> usage;
  std::vector<std::unique_ptr<Device>> devices;
  Registry<CUcontext, Context> contexts;
  Registry<CUstream, Stream> streams;
  Registry<CUevent, Event> events;
  std::set<const void*> destroyed;  // handles of contexts, streams and events that nothing new has
  Registry<CUgraph, Graph> graphs;
  Registry<CUgraphExec, GraphExec> graph_execs;
  std::map<CUdeviceptr, Allocation> allocations;
  std::vector<std::shared_ptr<Capture>> captures;  // begun and not ended
  std::chrono::nanoseconds work_delay{0};
  std::uint64_t waiting_calls = 0;  // calls of the program's that wait for work
  Id last_context_id = 0;
  Id last_stream_id = 0;
  Id last_buffer_id = 0;
  Id last_capture_id = 0;
};

// Never destroyed: threads of streams may run until the process is gone.
State& state();

// The stack of a thread's current contexts. Without a destructor: a thread's objects are destroyed
// before the exit handlers run, which may still use the driver.
class ContextStack {
 public:
  bool empty() const { return depth_ == 0; }
  CUcontext& back() { return contexts_[depth_ - 1]; }
  CUcontext back() const { return contexts_[depth_ - 1]; }
  void push_back(CUcontext context) {
    if (depth_ == contexts_.size()) std::abort();  // no program nests contexts so deep
    contexts_[depth_++] = context;
  }
  void pop_back() { --depth_; }

 private:
  std::array<CUcontext, 256> contexts_{};
  std::size_t depth_ = 0;
};

struct ThreadState {
  ContextStack contexts;
  std::vector<std::uint64_t> answers;  // of standin_answer_reads(), the next one last
  CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
};
ThreadState& thread_state();

// The functions below want state().mutex held.

// The current context, or the error of a call that has none, which is the case `no_context`.
CUresult CurrentContext(Context*& out, std::string_view no_context = "any.no_context");
CUresult FindContext(CUcontext handle, Context*& out);
// The context that memory allocated in this one belongs to.
const Context& MemoryOf(const Context& context);
// A context given as an argument where null means the current one.
CUresult ContextOrCurrent(CUcontext handle, Context*& out);
CUresult FindStream(CUstream handle, StreamPtr& out);
CUresult FindEvent(CUevent handle, std::shared_ptr<Event>& out);
CUresult FindDevice(CUdevice device, Device*& out);

// Whether the hardware lets one device, by its number in the process, reach another's memory.
bool ArePeers(int one, int other);

// Forgets a stream or an event; its handle is known as a destroyed one from now on.
void Forget(CUstream handle);
void Forget(CUevent handle);

// The allocation that contains `address`, or null.
Allocation* FindAllocation(CUdeviceptr address);
Allocation& AddAllocation(Kind kind, CUdeviceptr base, std::size_t bytes, const Context& context);

template <typename Handle, typename Object>
Handle AddTo(Registry<Handle, Object>& registry, std::shared_ptr<Object> object) {
  const auto handle = reinterpret_cast<Handle>(object.get());
  registry[handle] = std::move(object);
  state().destroyed.erase(handle);
  return handle;
}

}  // namespace standin
