// cuBLASLt: descriptors, and a heuristic that finds one algorithm, which needs no workspace. Status
// 0 is CUBLAS_STATUS_SUCCESS, 7 _INVALID_VALUE, 13 _EXECUTION_FAILED.
#include <cstring>

#include "library.h"

using namespace standin_library;

namespace {

// cublasLtMatmulHeuristicResult_t
struct Result {
  std::uint64_t algorithm[8];
  std::size_t workspace_bytes;
  int status;
  float waves;
  int reserved[4];
};

int create(void** out) {
  if (!out) return 7;
  *out = new char[1];
  return 0;
}

int destroy(void* object) {
  delete[] static_cast<char*>(object);
  return 0;
}

}  // namespace

STANDIN_EXPORT int cublasLtCreate(void** out) {
  return create(out);
}
STANDIN_EXPORT int cublasLtDestroy(void* object) {
  return destroy(object);
}
STANDIN_EXPORT std::size_t cublasLtGetVersion() {
  const Version have = version("STANDIN_CUBLAS_VERSION", {13, 0, 0});
  return static_cast<std::size_t>(have.major * 10000 + have.minor * 100 + have.patch);
}
STANDIN_EXPORT int cublasLtMatmulDescCreate(void** out) {
  return create(out);
}
STANDIN_EXPORT int cublasLtMatmulDescDestroy(void* object) {
  return destroy(object);
}
STANDIN_EXPORT int cublasLtMatmulDescSetAttribute() {
  return 0;
}
STANDIN_EXPORT int cublasLtMatrixLayoutCreate(void** out) {
  return create(out);
}
STANDIN_EXPORT int cublasLtMatrixLayoutDestroy(void* object) {
  return destroy(object);
}
STANDIN_EXPORT int cublasLtMatrixLayoutSetAttribute() {
  return 0;
}
STANDIN_EXPORT int cublasLtMatmulPreferenceCreate(void** out) {
  return create(out);
}
STANDIN_EXPORT int cublasLtMatmulPreferenceDestroy(void* object) {
  return destroy(object);
}
STANDIN_EXPORT int cublasLtMatmulPreferenceSetAttribute() {
  return 0;
}

STANDIN_EXPORT int cublasLtMatmulAlgoGetHeuristic(void* handle, void* operation, void* a, void* b,
                                                  void* c, void* d, void* preference, int asked,
                                                  Result* results, int* found) {
  (void)handle, (void)operation, (void)a, (void)b, (void)c, (void)d, (void)preference;
  if (!results || !found || asked < 1) return 7;
  std::memset(results, 0, sizeof(*results));
  results->waves = 1;
  *found = 1;
  return 0;
}

STANDIN_EXPORT int cublasLtMatmul(void* handle, void* operation, const void* alpha, const void* a,
                                  void* a_layout, const void* b, void* b_layout, const void* beta,
                                  const void* c, void* c_layout, void* d, void* d_layout,
                                  const void* algorithm, void* workspace, std::size_t bytes,
                                  void* stream) {
  (void)handle, (void)operation, (void)alpha, (void)a_layout, (void)b_layout, (void)beta;
  (void)c_layout, (void)d_layout, (void)algorithm, (void)bytes;
  const void* const arguments[] = {a, b, c, d, workspace};
  return launch(stream, arguments) == 0 ? 0 : 13;
}

namespace {

constexpr const char* kLibrary = "cuBLASLt";
constexpr int kNotSupported = 15;

}  // namespace

#include "functions/cublasLt.inc"
