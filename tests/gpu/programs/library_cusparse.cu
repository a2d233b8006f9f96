// cuSPARSE: a band of five diagonals times a vector, by the algorithm that repeats its results.
#include <cuda_runtime.h>
#include <cusparse.h>

#include <cstdint>
#include <string>
#include <vector>

#include "device_array.h"

int main() {
  need_device();
  cusparseHandle_t handle{};
  must(cusparseCreate(&handle));
  for (const int rows : {1000, 100'000}) {
    std::vector<int> starts{0};
    std::vector<int> columns;
    for (int row = 0; row < rows; ++row) {
      for (int column = row - 2; column <= row + 2; ++column) {
        if (column >= 0 && column < rows) {
          columns.push_back(column);
        }
      }
      starts.push_back(static_cast<int>(columns.size()));
    }
    const DeviceArray<int> row_starts(starts);
    const DeviceArray<int> column_indices(columns);
    const DeviceArray<float> values(pseudo_random<float>(columns.size(), 6));
    const DeviceArray<float> x(pseudo_random<float>(rows, 7));
    DeviceArray<float> y(rows);
    cusparseSpMatDescr_t matrix{};
    cusparseDnVecDescr_t x_vector{};
    cusparseDnVecDescr_t y_vector{};
    must(cusparseCreateCsr(&matrix, rows, rows, static_cast<std::int64_t>(columns.size()),
                           row_starts.data(), column_indices.data(), values.data(),
                           CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO,
                           CUDA_R_32F));
    must(cusparseCreateDnVec(&x_vector, rows, x.data(), CUDA_R_32F));
    must(cusparseCreateDnVec(&y_vector, rows, y.data(), CUDA_R_32F));
    const float one = 1;
    const float zero = 0;
    std::size_t bytes = 0;
    must(cusparseSpMV_bufferSize(handle, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, matrix, x_vector,
                                 &zero, y_vector, CUDA_R_32F, CUSPARSE_SPMV_CSR_ALG2, &bytes));
    DeviceArray<unsigned char> buffer(bytes + 1);
    must(cusparseSpMV(handle, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, matrix, x_vector, &zero,
                      y_vector, CUDA_R_32F, CUSPARSE_SPMV_CSR_ALG2, buffer.data()));
    print("product " + std::to_string(rows), y.read());
    must(cusparseDestroyDnVec(x_vector));
    must(cusparseDestroyDnVec(y_vector));
    must(cusparseDestroySpMat(matrix));
  }
  must(cusparseDestroy(handle));
  return 0;
}
