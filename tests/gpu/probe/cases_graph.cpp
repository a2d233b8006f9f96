// What the device's memory for graphs takes when graphs that allocate run one after the other, and
// at the same time.
#include <string>
#include <utility>
#include <vector>

#include "cases.h"
#include "json.h"

namespace probe {
namespace {

constexpr std::size_t kBytes = std::size_t{64} << 20U;
// What it does there: longer, on a GPU, than the launches of all take.
constexpr std::size_t kSetBytes = std::size_t{2} << 20U;
constexpr int kSets = 150;

std::int64_t reserved(Session& s) {
  cuuint64_t bytes = 0;
  s.cu.cuDeviceGetGraphMemAttribute(s.device(), CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &bytes);
  return static_cast<std::int64_t>(bytes);
}

// A graph that takes memory, works in it and gives it back; nullptr where that is refused.
CUgraphExec make_graph(Session& s, CUstream stream) {
  CUgraph graph = nullptr;
  CUgraphExec made = nullptr;
  CUdeviceptr block = 0;
  if (s.cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED) != CUDA_SUCCESS) {
    return nullptr;
  }
  if (s.cu.cuMemAllocAsync(&block, kBytes, stream) == CUDA_SUCCESS) {
    for (int i = 0; i < kSets; ++i) {
      s.cu.cuMemsetD8Async(block, 1, kSetBytes, stream);
    }
    s.cu.cuMemFreeAsync(block, stream);
  }
  if (s.cu.cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS) {
    s.cu.cuGraphInstantiateWithFlags(&made, graph, 0);
    s.cu.cuGraphDestroy(graph);
  }
  return made;
}

// So many graphs, each in a stream of its own.
class Graphs {
 public:
  Graphs(Session& session, int count) : s_(session) {
    for (int i = 0; i < count; ++i) {
      CUstream stream = nullptr;
      s_.cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
      all_.emplace_back(stream, make_graph(s_, stream));
    }
  }
  Graphs(const Graphs&) = delete;
  Graphs& operator=(const Graphs&) = delete;
  ~Graphs() {
    for (const auto& [stream, graph] : all_) {
      s_.cu.cuStreamSynchronize(stream);
      if (graph != nullptr) {
        s_.cu.cuGraphExecDestroy(graph);
      }
      s_.cu.cuStreamDestroy(stream);
    }
    s_.cu.cuDeviceGraphMemTrim(s_.device());
  }

  // What is taken when all have been launched, and whether the first was still at work then.
  std::string launched() {
    CUresult result = CUDA_SUCCESS;
    for (const auto& [stream, graph] : all_) {
      const CUresult one =
          graph == nullptr ? CUDA_ERROR_NOT_SUPPORTED : s_.cu.cuGraphLaunch(graph, stream);
      result = result == CUDA_SUCCESS ? one : result;
    }
    const bool works = s_.cu.cuStreamQuery(all_.front().first) == CUDA_ERROR_NOT_READY;
    JsonObject row;
    row.add("graphs", static_cast<std::int64_t>(all_.size()))
        .add("bytes_of_each", static_cast<std::int64_t>(kBytes))
        .add("launches", result)
        .add("reserved", reserved(s_))
        .add("first_still_works", works ? 1 : 0);
    s_.cu.cuCtxSynchronize();
    return row.add("reserved_when_done", reserved(s_)).text();
  }

 private:
  Session& s_;
  std::vector<std::pair<CUstream, CUgraphExec>> all_;
};

Answer graphs_at_once(Session& s) {
  std::vector<std::string> rows;
  for (const int count : {1, 2, 8}) {
    rows.push_back(Graphs(s, count).launched());
  }
  return answer_json(list_of(rows));
}

}  // namespace

void add_graph_cases(Cases& cases) {
  cases.push_back({"graphs_at_once", graphs_at_once, Begins::kInContext, Kind::kMeasurement});
}

}  // namespace probe
