// The program that `cubfc demo` runs: what a training does with GPU memory, step by step, on CUDA's
// driver API. It computes nothing and knows nothing of cubfc. Its mistakes are of the usual kind:
// one batch is longer than the others, and a tensor of each step is kept for a figure that nobody
// draws.
#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <vector>

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kLayers = 24;
constexpr std::size_t kBytesOfLayer = 8 * kMiB;
constexpr std::size_t kBytesOfEmbedding = 64 * kMiB;
// What the steps are given, in thousands of tokens.
constexpr std::array<std::size_t, 10> kBatches{8, 12, 8, 16, 12, 8, 40, 12, 16, 8};

using Tensors = std::vector<CUdeviceptr>;

void must(CUresult result) {
  if (result != CUDA_SUCCESS) {
    throw std::runtime_error("out of GPU memory");
  }
}

// Adds a tensor. Returns where its address is to be written.
CUdeviceptr* one_more(Tensors& tensors) {
  return &tensors.emplace_back(0);
}

void free_last(Tensors& tensors) {
  cuMemFree(tensors.back());
  tensors.pop_back();
}

// Not inlined, so that stacks show the functions below.
[[gnu::noinline]] void load_model(Tensors& weights) {
  must(cuMemAlloc(one_more(weights), kBytesOfEmbedding));
  for (std::size_t layer = 0; layer < kLayers; ++layer) {
    must(cuMemAlloc(one_more(weights), kBytesOfLayer));
  }
}

[[gnu::noinline]] void make_optimizer(Tensors& moments) {
  must(cuMemAlloc(one_more(moments), 2 * kBytesOfEmbedding));
  for (std::size_t layer = 0; layer < kLayers; ++layer) {
    must(cuMemAlloc(one_more(moments), 2 * kBytesOfLayer));
  }
}

[[gnu::noinline]] void forward(std::size_t thousands_of_tokens, Tensors& activations) {
  for (std::size_t layer = 0; layer < kLayers; ++layer) {
    Tensors workspace;
    must(cuMemAlloc(one_more(workspace), 16 * kMiB));
    must(cuMemAlloc(one_more(activations), thousands_of_tokens * kMiB));
    free_last(workspace);
  }
}

[[gnu::noinline]] void backward(Tensors& activations, Tensors& gradients) {
  must(cuMemAlloc(one_more(gradients), kBytesOfEmbedding));
  while (!activations.empty()) {
    must(cuMemAlloc(one_more(gradients), kBytesOfLayer));
    free_last(activations);
  }
}

[[gnu::noinline]] void keep_logits(Tensors& kept) {
  must(cuMemAlloc(one_more(kept), 24 * kMiB));
}

[[gnu::noinline]] void train() {
  Tensors weights;
  Tensors moments;
  Tensors kept;
  load_model(weights);
  make_optimizer(moments);
  for (std::size_t step = 0; step < kBatches.size(); ++step) {
    std::printf("training: step %zu of %zu, %zu,000 tokens\n", step + 1, kBatches.size(),
                kBatches[step]);
    std::fflush(stdout);
    Tensors activations;
    Tensors gradients;
    forward(kBatches[step], activations);
    keep_logits(kept);
    backward(activations, gradients);
    while (!gradients.empty()) {
      free_last(gradients);
    }
  }
}

}  // namespace

int main() {
  CUcontext context = nullptr;
  if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
      cuCtxSetCurrent(context) != CUDA_SUCCESS) {
    std::fprintf(stderr, "training: there is no GPU\n");
    return EXIT_FAILURE;
  }
  try {
    train();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "training: %s\n", error.what());
    return EXIT_FAILURE;
  }
  std::printf("training: done\n");
  std::fflush(stdout);
}
