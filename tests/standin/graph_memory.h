// The memory of allocation nodes: addresses from the node's creation on, physical memory from the
// first upload or launch on. All functions want state().mutex held.
#pragma once

#include "graph.h"

namespace standin {

// Addresses, and bytes of the host that cost nothing before they are written.
class GraphAddresses {
 public:
  // Check address() for failure.
  explicit GraphAddresses(std::size_t bytes);
  ~GraphAddresses();
  GraphAddresses(const GraphAddresses&) = delete;
  GraphAddresses& operator=(const GraphAddresses&) = delete;

  CUdeviceptr address() const { return address_; }
  void Forget();  // the bytes

 private:
  CUdeviceptr address_ = 0;
  std::size_t bytes_;
  void* map_;
  std::size_t room_;
};

constexpr int kNoDevice = -1;

// What one allocation node allocates. cuda.h, cuGraphAddMemAllocNode: the address is the same in
// all launches.
struct GraphBlock {
  std::shared_ptr<GraphAddresses> range;
  CUdeviceptr base;
  std::size_t bytes;             // rounded as the device rounds
  int device;                    // kNoDevice: memory of the host, which no device counts
  CUgraph owner;                 // the graph that has the node
  unsigned holders = 1;          // the graph and its executable graph, while they are there
  bool freed_by_owner = false;   // by a free node there
  bool freed_by_others = false;  // by a free node of another graph
  bool allocated = false;        // from a launch to a free, as the host sees it
  bool mapped = false;           // has physical memory
  bool gone = false;             // with its context
  Fences busy = {};              // work that may still use it
  Id last_stream = 0;            // that used it
};

// Of the context's device, if it is of a device (Kind::kGraph).
CUresult NewGraphBlock(const Context& context, Kind kind, std::size_t bytes, CUgraph owner,
                       std::shared_ptr<GraphBlock>& out);
std::shared_ptr<GraphBlock> FindGraphBlock(CUdeviceptr base);

// Whether a free node for the block may be added to the graph, by the rules of cuda.h for
// cuGraphAddMemFreeNode. Notes that it is.
CUresult AddFreeOf(GraphBlock& block, const Graph& graph);

// An executable graph holds the blocks of its allocation nodes, from now on or no more.
void HoldBlocks(const ExecGraph& graph);
void LetGoOfBlocks(const ExecGraph& graph);

// The graph or executable graph that held the block is destroyed. Memory that is allocated stays
// so.
void LetGo(GraphBlock& block);

// Gives all blocks physical memory for work in this stream, which comes after `after`. Memory of
// graphs that have ended, or end before in the same stream, is taken first, then what the device
// has free, then that of graphs that still run, which the work has to wait for.
CUresult MapBlocks(const std::vector<GraphBlock*>& blocks, const Stream& stream, Fences& after);

// cuMemAllocAsync and cuMemFreeAsync in a stream that captures.
CUresult AllocateCaptured(Stream& stream, CUdeviceptr* out, std::size_t bytes);
CUresult FreeCaptured(Stream& stream, CUdeviceptr base);

// cuMemFree and cuMemFreeAsync of a graph's memory, in a stream that does not capture.
CUresult FreeGraphMemory(CUdeviceptr base);
CUresult FreeGraphMemoryAsync(CUdeviceptr base, Stream& stream);

// Its context is destroyed.
void EndGraphBlock(CUdeviceptr base);

// The blocks of an executable graph's allocation and free nodes, those of child graphs too.
void CollectBlocks(const ExecGraph& graph, std::vector<GraphBlock*>& allocated,
                   std::vector<GraphBlock*>& freed);

}  // namespace standin
