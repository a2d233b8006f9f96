// User objects: counted references, of the program, of graphs and of executable graphs.
#include <atomic>

#include "graph_test.h"

using namespace standin_test;

namespace {

struct Destroyed {
  std::atomic<int> count{0};
  static void Note(void* self) {
    auto& count = static_cast<Destroyed*>(self)->count;
    ++count;
    count.notify_all();
  }
  // Waits for so many. Callbacks come on a thread of the driver's.
  bool Becomes(int wanted) const {
    for (int now = count; now < wanted; now = count) count.wait(now);
    return count == wanted;
  }
};

CUuserObject NewObject(Destroyed& destroyed, unsigned count = 1) {
  CUuserObject object = nullptr;
  Must(cuUserObjectCreate(&object, &destroyed, Destroyed::Note, count,
                          CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  return object;
}

}  // namespace

TEST_CASE("a user object ends with the last reference of program, graphs and executable graphs") {
  const Device device;
  Destroyed destroyed;
  const CUgraph graph = NewGraph();
  AddEmpty(graph);
  const CUuserObject object = NewObject(destroyed);
  Must(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
  CHECK(cuUserObjectRelease(object, 1) == CUDA_ERROR_INVALID_VALUE);  // the graph's, by now
  CUgraph clone = nullptr;
  Must(cuGraphClone(&clone, graph));
  const CUgraphExec exec = Instantiate(clone);
  Must(cuGraphDestroy(graph));
  Must(cuGraphDestroy(clone));
  CHECK(destroyed.count == 0);
  const CUstream stream = NewStream();
  standin_hold_stream(stream);
  Must(cuGraphLaunch(exec, stream));
  // What is destroyed is told of in order: this one behind the graph's, if that were, too.
  Destroyed another;
  Must(cuGraphExecDestroy(exec));
  Must(cuUserObjectRelease(NewObject(another), 1));
  CHECK(another.Becomes(1));
  CHECK(destroyed.count == 0);
  standin_release_stream(stream);
  CHECK(destroyed.Becomes(1));
  CHECK(cuUserObjectRetain(object, 1) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("references are counted, and not more are released than there are") {
  const Device device;
  Destroyed destroyed;
  const CUgraph graph = NewGraph();
  const CUuserObject object = NewObject(destroyed, 2);
  CHECK(cuGraphRetainUserObject(graph, object, 3, CU_GRAPH_USER_OBJECT_MOVE) ==
        CUDA_ERROR_INVALID_VALUE);
  Must(cuGraphRetainUserObject(graph, object, 2, 0));
  Must(cuUserObjectRetain(object, 1));
  CHECK(cuUserObjectRelease(object, 4) == CUDA_ERROR_INVALID_VALUE);
  Must(cuUserObjectRelease(object, 3));
  CHECK(cuGraphReleaseUserObject(graph, object, 3) == CUDA_ERROR_INVALID_VALUE);
  Must(cuGraphReleaseUserObject(graph, object, 1));
  CHECK(destroyed.count == 0);
  Must(cuGraphReleaseUserObject(graph, object, 1));
  CHECK(destroyed.Becomes(1));
  CUuserObject none = nullptr;
  CHECK(cuUserObjectCreate(&none, nullptr, nullptr, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cuUserObjectCreate(&none, nullptr, Destroyed::Note, 0, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cuUserObjectCreate(&none, nullptr, Destroyed::Note, 1, 0) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("an update exchanges the references of an executable graph, when its launches are done") {
  const Device device;
  Destroyed before;
  Destroyed after;
  const CUgraph old_graph = NewGraph();
  const CUgraph new_graph = NewGraph();
  AddEmpty(old_graph);
  AddEmpty(new_graph);
  Must(cuGraphRetainUserObject(old_graph, NewObject(before), 1, CU_GRAPH_USER_OBJECT_MOVE));
  Must(cuGraphRetainUserObject(new_graph, NewObject(after), 1, CU_GRAPH_USER_OBJECT_MOVE));
  const CUgraphExec exec = Instantiate(old_graph);
  Must(cuGraphDestroy(old_graph));
  const CUstream stream = NewStream();
  standin_hold_stream(stream);
  Must(cuGraphLaunch(exec, stream));
  CUgraphExecUpdateResultInfo result{};
  Must(cuGraphExecUpdate_v2(exec, new_graph, &result));
  Must(cuGraphDestroy(new_graph));
  CHECK(before.count == 0);  // the launch that waits needs it
  standin_release_stream(stream);
  Must(cuStreamSynchronize(stream));
  CHECK(before.Becomes(1));
  CHECK(after.count == 0);
  Must(cuGraphExecDestroy(exec));
  CHECK(after.Becomes(1));
}
