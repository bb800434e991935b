// The benchmarks as a CUDA programmer writes them, with CUB and cuBLAS where those have the algorithm.
//
// A child process of `vyre bench`. It reads one case from its standard input and then obeys single letters:
//
//   case     name: u32 length, bytes; size: u32; reads: u32 count, then u64 length and bytes of each; writes: the same
//   answer   u8: 0 no such benchmark, 1 ready and exact, 2 ready, results with other roundings
//   'r'      the written buffers as they were; answers u8 0
//   'g'      the work once; answers u64: nanoseconds on the device
//   'w'      answers the bytes of all written buffers
//
// Built with -fmad=false: the arithmetic is the kernels' own.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>
#include <cub/cub.cuh>
#include <cublas_v2.h>

#define CHECK(call)                                                                       \
  do {                                                                                    \
    auto status = (call);                                                                 \
    if (status != 0) {                                                                    \
      fprintf(stderr, "%s:%d: %s failed with %d\n", __FILE__, __LINE__, #call, int(status)); \
      exit(1);                                                                            \
    }                                                                                     \
  } while (0)

struct Case {
  uint32_t size;
  std::vector<uint32_t *> reads, writes, starts;
  std::vector<size_t> read_bytes, write_bytes;
};

static unsigned blocks(size_t count, unsigned each) { return unsigned((count + each - 1) / each); }

__global__ void saxpy(const float *a, const float4 *x, float4 *y, uint32_t n) {
  uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i * 4ull + 3 < n) {
    float4 u = x[i], v = y[i];
    float k = *a;
    y[i] = make_float4(k * u.x + v.x, k * u.y + v.y, k * u.z + v.z, k * u.w + v.w);
  } else {
    for (uint64_t j = i * 4ull; j < n; j++) ((float *)y)[j] += *a * ((const float *)x)[j];
  }
}

__device__ uint32_t mixed(uint32_t x) {
#pragma unroll 16
  for (uint32_t round = 0; round < 64; round++) {
    x = (x ^ x >> 16) * 0x85ebca6bu;
    x = (x ^ x >> 13) * 0xc2b2ae35u;
    x = (x ^ x >> 16) + round;
  }
  return x;
}

__global__ void mix(uint32_t *y, uint32_t n) {
  uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = mixed(y[i]);
}

__global__ void mandelbrot(const float *view, const uint32_t *size, uint32_t *steps) {
  uint32_t px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
  if (px >= size[0] || py >= size[1]) return;
  float cx = view[0] + px * view[2], cy = view[1] + py * view[2], x = 0, y = 0;
  uint32_t count = 256;
  for (uint32_t step = 0; step < 256; step++) {
    float xx = x * x, yy = y * y;
    if (xx + yy > 4.0f) {
      count = step;
      break;
    }
    float xy = x * y;
    x = xx - yy + cx;
    y = xy + xy + cy;
  }
  steps[py * size[0] + px] = count;
}

// CUDA's own functions with their full range and accuracy, not the fast ones; their bits are their own. Four elements to a
// thread, in one access.
template <typename F> __global__ void map1(const float4 *x, float4 *r, uint32_t n, F f) {
  uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i * 4ull + 3 < n) {
    float4 u = x[i];
    r[i] = make_float4(f(u.x), f(u.y), f(u.z), f(u.w));
  } else {
    for (uint64_t j = i * 4ull; j < n; j++) ((float *)r)[j] = f(((const float *)x)[j]);
  }
}

template <typename F> __global__ void map2(const float4 *x, const float4 *y, float4 *r, uint32_t n, F f) {
  uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i * 4ull + 3 < n) {
    float4 u = x[i], v = y[i];
    r[i] = make_float4(f(u.x, v.x), f(u.y, v.y), f(u.z, v.z), f(u.w, v.w));
  } else {
    for (uint64_t j = i * 4ull; j < n; j++)
      ((float *)r)[j] = f(((const float *)x)[j], ((const float *)y)[j]);
  }
}

#define FUNCTION1(name, call)                                                                      \
  struct name##_of {                                                                               \
    __device__ float operator()(float x) const { return call(x); }                                 \
  };
#define FUNCTION2(name, call)                                                                      \
  struct name##_of {                                                                               \
    __device__ float operator()(float x, float y) const { return call(x, y); }                     \
  };
#define FUNCTIONS1(one)                                                                            \
  one(exp, expf) one(exp2, exp2f) one(exp10, exp10f) one(expm1, expm1f) one(log, logf)             \
  one(log2, log2f) one(log10, log10f) one(log1p, log1pf) one(sin, sinf) one(cos, cosf)             \
  one(tan, tanf) one(sinpi, sinpif) one(cospi, cospif) one(asin, asinf) one(acos, acosf)           \
  one(atan, atanf) one(sinh, sinhf) one(cosh, coshf) one(tanh, tanhf) one(asinh, asinhf)           \
  one(acosh, acoshf) one(atanh, atanhf) one(cbrt, cbrtf) one(rsqrt, rsqrtf) one(erf, erff)         \
  one(erfc, erfcf)
#define FUNCTIONS2(one) one(atan2, atan2f) one(pow, powf) one(hypot, hypotf)
FUNCTIONS1(FUNCTION1)
FUNCTIONS2(FUNCTION2)

static std::function<void()> make_map(const std::string &name, Case &c) {
  uint32_t n = c.size;
#define MAP1(known, call)                                                                          \
  if (name == #known)                                                                              \
    return [&c, n] {                                                                               \
      map1<<<blocks(n, 1024), 256>>>((float4 *)c.reads[0], (float4 *)c.writes[0], n, known##_of());  \
    };
#define MAP2(known, call)                                                                          \
  if (name == #known)                                                                              \
    return [&c, n] {                                                                               \
      map2<<<blocks(n, 1024), 256>>>((float4 *)c.reads[0], (float4 *)c.reads[1], (float4 *)c.writes[0], n, \
                                     known##_of());                                                \
    };
  FUNCTIONS1(MAP1)
  FUNCTIONS2(MAP2)
  return nullptr;
}

static std::function<void()> make(const std::string &name, Case &c, bool &exact) {
  static cublasHandle_t blas;
  static void *scratch = nullptr;
  static size_t scratch_bytes = 0;
  auto with_scratch = [](auto call) {
    CHECK(call((void *)nullptr));
    CHECK(cudaMalloc(&scratch, scratch_bytes ? scratch_bytes : 1));
    return [call] { CHECK(call(scratch)); };
  };
  exact = true;
  uint32_t n = c.size;
  if (name == "saxpy")
    return [&c, n] {
      saxpy<<<blocks(n, 1024), 256>>>((float *)c.reads[0], (float4 *)c.reads[1], (float4 *)c.writes[0], n);
    };
  if (name == "mix") return [&c, n] { mix<<<blocks(n, 256), 256>>>(c.writes[0], n); };
  if (name == "mandelbrot")
    return [&c, n] {
      dim3 grid(blocks(n, 32), blocks(n, 8));
      mandelbrot<<<grid, dim3(32, 8)>>>((float *)c.reads[0], c.reads[1], c.writes[0]);
    };
  if (name == "sum" || name == "tree")
    return with_scratch([&c, n, name](void *memory) {
      uint32_t *sum = name == "sum" ? c.writes[0] : c.writes.back();
      return cub::DeviceReduce::Sum(memory, scratch_bytes, c.reads[0], sum, n);
    });
  if (name == "scan")
    return with_scratch([&c, n](void *memory) {
      return cub::DeviceScan::InclusiveSum(memory, scratch_bytes, c.reads[0], c.writes[0], n);
    });
  if (name == "histogram")
    return with_scratch([&c](void *memory) {
      size_t bytes = c.read_bytes[0];
      return cub::DeviceHistogram::HistogramEven(memory, scratch_bytes, (const uint8_t *)c.reads[0],
                                                 (uint32_t *)c.writes[0], 257, 0, 256, (long long)bytes);
    });
  if (name == "sort")
    return with_scratch([&c, n](void *memory) {
      return cub::DeviceRadixSort::SortKeys(memory, scratch_bytes, c.reads[0], c.writes[0], n);
    });
  if (name == "matmul" || name == "matmul_tiled") {
    exact = false;
    CHECK(cublasCreate(&blas));
    CHECK(cublasSetMathMode(blas, CUBLAS_PEDANTIC_MATH));
    // The naive kernel has its size in front.
    size_t first = name == "matmul" ? 1 : 0;
    return [&c, n, first] {
      float one = 1, zero = 0;
      CHECK(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, (float *)c.reads[first + 1], n,
                        (float *)c.reads[first], n, &zero, (float *)c.writes[0], n));
    };
  }
  if (name == "matmul_i8" && n % 4 == 0) {
    // c by rows is its transpose by columns; the second factor comes by columns already.
    CHECK(cublasCreate(&blas));
    return [&c, n] {
      int one = 1, zero = 0;
      CHECK(cublasGemmEx(blas, CUBLAS_OP_T, CUBLAS_OP_N, n, n, n, &one, c.reads[1], CUDA_R_8I, n,
                         c.reads[0], CUDA_R_8I, n, &zero, c.writes[0], CUDA_R_32I, n, CUBLAS_COMPUTE_32I,
                         CUBLAS_GEMM_DEFAULT));
    };
  }
  exact = false;
  return make_map(name, c);
}

static void take(void *to, size_t bytes) {
  if (fread(to, 1, bytes, stdin) != bytes) exit(0);
}

static void give(const void *from, size_t bytes) {
  if (fwrite(from, 1, bytes, stdout) != bytes) exit(1);
}

static uint32_t *take_buffer(size_t &bytes) {
  uint64_t length;
  take(&length, 8);
  bytes = length;
  std::vector<char> host(bytes);
  take(host.data(), bytes);
  uint32_t *device;
  CHECK(cudaMalloc(&device, bytes + 16));
  CHECK(cudaMemcpy(device, host.data(), bytes, cudaMemcpyHostToDevice));
  return device;
}

int main() {
  Case c;
  uint32_t length, count;
  take(&length, 4);
  std::string name(length, ' ');
  take(&name[0], length);
  take(&c.size, 4);
  take(&count, 4);
  c.read_bytes.resize(count);
  for (auto &bytes : c.read_bytes) c.reads.push_back(take_buffer(bytes));
  take(&count, 4);
  c.write_bytes.resize(count);
  for (auto &bytes : c.write_bytes) {
    c.starts.push_back(take_buffer(bytes));
    uint32_t *device;
    CHECK(cudaMalloc(&device, bytes + 16));
    c.writes.push_back(device);
  }
  bool exact;
  auto work = make(name, c, exact);
  uint8_t answer = !work ? 0 : exact ? 1 : 2;
  give(&answer, 1);
  fflush(stdout);
  if (!work) return 0;
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  for (int letter; (letter = getchar()) != EOF; fflush(stdout)) {
    if (letter == 'r') {
      for (size_t i = 0; i < c.writes.size(); i++)
        CHECK(cudaMemcpy(c.writes[i], c.starts[i], c.write_bytes[i], cudaMemcpyDeviceToDevice));
      uint8_t done = 0;
      give(&done, 1);
    } else if (letter == 'g') {
      CHECK(cudaEventRecord(begin));
      work();
      CHECK(cudaEventRecord(end));
      CHECK(cudaEventSynchronize(end));
      float ms;
      CHECK(cudaEventElapsedTime(&ms, begin, end));
      uint64_t ns = uint64_t(double(ms) * 1e6);
      give(&ns, 8);
    } else if (letter == 'w') {
      for (size_t i = 0; i < c.writes.size(); i++) {
        std::vector<char> host(c.write_bytes[i]);
        CHECK(cudaMemcpy(host.data(), c.writes[i], c.write_bytes[i], cudaMemcpyDeviceToHost));
        give(host.data(), host.size());
      }
    }
  }
}
