// INT8 dot-product scan over a dense matrix of embeddings: the arithmetic of
// the semantic look-aside buffer (SLB).
//
// Thread-safe: pure functions. Highway picks the target at run time; the Scalar
// functions are the reference, and every target must agree with it exactly
// (integer arithmetic has no rounding).
#ifndef NEXUS_SIMD_INT8_SCAN_H_
#define NEXUS_SIMD_INT8_SCAN_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace nexus::simd {

// Symmetric quantisation: value ~ scale * int8, scale = max|x| / 127. Returns
// the scale; all-zero (or non-finite) input gives scale 0 and zeros.
float QuantizeInt8(const float* in, size_t n, int8_t* out);
float QuantizeInt8Scalar(const float* in, size_t n, int8_t* out);

// scores[r] = sum_c rows[r * row_stride + c] * query[c], as int32 (|sum| <=
// 127 * 127 * columns, so columns up to 133,000 can't overflow).
// No row byte may be -128 (QuantizeInt8 makes none); the query may hold any.
// Any alignment works; 64-byte aligned rows are fastest. Nothing beyond
// rows[r * row_stride + columns) or query[columns) is read.
void Int8DotScan(const int8_t* rows, size_t row_count, size_t columns,
                 size_t row_stride, const int8_t* query, int32_t* scores);

void Int8DotScanScalar(const int8_t* rows, size_t row_count, size_t columns,
                       size_t row_stride, const int8_t* query, int32_t* scores);

// The instruction set that Int8DotScan runs on here, for example "AVX3_DL".
std::string Int8ScanTargetName();

}  // namespace nexus::simd

#endif  // NEXUS_SIMD_INT8_SCAN_H_
