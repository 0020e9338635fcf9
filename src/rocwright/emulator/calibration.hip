// Operations with known answers, each on the GPU that HIP shows: what an emulator is right about.
//
// Prints a line of JSON when an operation begins and one when it is over, so that whoever reads them knows what a
// process was at when it is lost. Arguments are names of operations; without any all run. Answers are computed on
// the host, in double precision where the device has single; limits are relative, in units that the function's
// documentation allows. Ends with 0 whatever the answers are: they are what is asked for.

#include <hip/hip_runtime.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

struct Refused {
    std::string what;
};

static void need(hipError_t error, const char* call) {
    if (error != hipSuccess) throw Refused{std::string(call) + ": " + hipGetErrorString(error)};
}
#define HIP(call) need((call), #call)

// Memory of the GPU with what it is filled from and read back to.
template <typename T>
struct Buffer {
    T* at = nullptr;
    size_t count;

    explicit Buffer(size_t n) : count(n) {
        HIP(hipMalloc(reinterpret_cast<void**>(&at), n * sizeof(T)));
        HIP(hipMemset(at, 0, n * sizeof(T)));
    }
    explicit Buffer(const std::vector<T>& from) : Buffer(from.size()) {
        HIP(hipMemcpy(at, from.data(), count * sizeof(T), hipMemcpyHostToDevice));
    }
    Buffer(const Buffer&) = delete;
    ~Buffer() { (void)hipFree(at); }
    std::vector<T> back() const {
        std::vector<T> to(count);
        HIP(hipMemcpy(to.data(), at, count * sizeof(T), hipMemcpyDeviceToHost));
        return to;
    }
};

// What was compared: how many values, how many of them wrong, the largest relative difference, the first wrong one.
struct Outcome {
    size_t of = 0, wrong = 0;
    double worst = 0;
    std::string first;
    bool absent = false;

    void hold(double got, double wanted, double limit, const char* what) {
        ++of;
        double off = 0;
        if (got != wanted && !(std::isnan(got) && std::isnan(wanted))) {
            off = std::fabs(got - wanted) / std::fmax(std::fabs(wanted), 1e-30);
            if (!std::isfinite(off)) off = 1e30;
        }
        if (off > worst) worst = off;
        if (off > limit) {
            if (!wrong) {
                char text[160];
                snprintf(text, sizeof text, "%s: value %zu is %.9g, not %.9g", what, of - 1, got, wanted);
                first = text;
            }
            ++wrong;
        }
    }
    void same(int64_t got, int64_t wanted, const char* what) {
        ++of;
        if (got == wanted) return;
        worst = 1e30;
        if (!wrong) {
            char text[160];
            snprintf(text, sizeof text, "%s: value %zu is %lld, not %lld", what, of - 1, (long long)got,
                     (long long)wanted);
            first = text;
        }
        ++wrong;
    }
};

template <typename... P, typename... A>
static void launch(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared, A... arguments) {
    kernel<<<grid, block, shared, nullptr>>>(static_cast<P>(arguments)...);
    HIP(hipGetLastError());
    HIP(hipDeviceSynchronize());
}

static uint32_t noise(uint32_t seed) {
    seed ^= seed << 13;
    seed ^= seed >> 17;
    return seed ^ (seed << 5);
}
static std::vector<uint32_t> noises(size_t count) {
    std::vector<uint32_t> found(count);
    uint32_t state = 2463534242u;
    for (auto& each : found) each = state = noise(state);
    return found;
}
static const int N = 4096;

// -- integers

__global__ void k_integer(const uint32_t* a, const uint32_t* b, uint32_t* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uint32_t x = a[i], y = b[i], s = y & 31;
    uint32_t* o = out + 12 * i;
    o[0] = x + y;
    o[1] = x * y;
    o[2] = __umulhi(x, y);
    o[3] = x / (y | 1);
    o[4] = (uint32_t)((int32_t)x % (int32_t)(y | 1));
    o[5] = (x << s) ^ (uint32_t)((int32_t)x >> s);
    o[6] = __popc(x);
    o[7] = __clz((int)x);
    o[8] = __brev(x);
    o[9] = (uint32_t)__mulhi((int)x, (int)y);
    o[10] = x > y ? x - y : y - x;
    o[11] = (uint32_t)(((int64_t)(int32_t)x * (int32_t)y + (int64_t)y) >> 17);
}
static int ones(uint32_t v) {
    int n = 0;
    for (; v; v &= v - 1) ++n;
    return n;
}
static void integer(Outcome& out) {
    auto a = noises(N), b = noises(2 * N);
    b.erase(b.begin(), b.begin() + N);
    Buffer<uint32_t> da(a), db(b), got(12 * N);
    launch(k_integer, N / 256, 256, 0, da.at, db.at, got.at, N);
    auto g = got.back();
    for (int i = 0; i < N; ++i) {
        uint32_t x = a[i], y = b[i], s = y & 31, rev = 0;
        for (int bit = 0; bit < 32; ++bit) rev |= ((x >> bit) & 1u) << (31 - bit);
        int lead = 0;
        while (lead < 32 && !((x >> (31 - lead)) & 1)) ++lead;
        uint32_t wanted[12] = {x + y,
                               x * y,
                               (uint32_t)(((uint64_t)x * y) >> 32),
                               x / (y | 1),
                               (uint32_t)((int32_t)x % (int32_t)(y | 1)),
                               (x << s) ^ (uint32_t)((int32_t)x >> s),
                               (uint32_t)ones(x),
                               (uint32_t)lead,
                               rev,
                               (uint32_t)(((int64_t)(int32_t)x * (int32_t)y) >> 32),
                               x > y ? x - y : y - x,
                               (uint32_t)(((int64_t)(int32_t)x * (int32_t)y + (int64_t)y) >> 17)};
        for (int k = 0; k < 12; ++k) out.same(g[12 * i + k], wanted[k], "32-bit integers");
    }
}

__global__ void k_integer64(const uint64_t* a, const uint64_t* b, uint64_t* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uint64_t x = a[i], y = b[i];
    uint64_t* o = out + 6 * i;
    o[0] = x * y;
    o[1] = x / (y | 1);
    o[2] = x % (y | 1);
    o[3] = (x << (y & 63)) | (x >> (y & 31));
    o[4] = __umul64hi(x, y);
    o[5] = (uint64_t)((int64_t)x / (int64_t)(y | 1));
}
static void integer64(Outcome& out) {
    auto r = noises(4 * N);
    std::vector<uint64_t> a(N), b(N);
    for (int i = 0; i < N; ++i) {
        a[i] = (uint64_t)r[4 * i] << 32 | r[4 * i + 1];
        b[i] = ((uint64_t)r[4 * i + 2] << 32 | r[4 * i + 3]) >> (i % 48);
    }
    Buffer<uint64_t> da(a), db(b), got(6 * N);
    launch(k_integer64, N / 256, 256, 0, da.at, db.at, got.at, N);
    auto g = got.back();
    for (int i = 0; i < N; ++i) {
        uint64_t x = a[i], y = b[i];
        uint64_t wanted[6] = {x * y,
                              x / (y | 1),
                              x % (y | 1),
                              (x << (y & 63)) | (x >> (y & 31)),
                              (uint64_t)(((unsigned __int128)x * y) >> 64),
                              (uint64_t)((int64_t)x / (int64_t)(y | 1))};
        for (int k = 0; k < 6; ++k) out.same((int64_t)g[6 * i + k], (int64_t)wanted[k], "64-bit integers");
    }
}

__global__ void k_bits64(const uint64_t* a, uint64_t* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uint64_t x = a[i], *o = out + 4 * i;
    o[0] = __popcll(x);
    o[1] = __clzll((long long)x);
    o[2] = __brevll(x);
    o[3] = __ffsll((unsigned long long)x);
}
static void bits64(Outcome& out) {
    auto r = noises(2 * N);
    std::vector<uint64_t> a(N);
    for (int i = 0; i < N; ++i) a[i] = ((uint64_t)r[2 * i] << 32 | r[2 * i + 1]) >> (i % 64);
    Buffer<uint64_t> da(a), got(4 * N);
    launch(k_bits64, N / 256, 256, 0, da.at, got.at, N);
    auto g = got.back();
    for (int i = 0; i < N; ++i) {
        uint64_t x = a[i], rev = 0;
        int lead = 0, first = 0;
        for (int bit = 0; bit < 64; ++bit) rev |= ((x >> bit) & 1) << (63 - bit);
        while (lead < 64 && !((x >> (63 - lead)) & 1)) ++lead;
        while (first < 64 && !((x >> first) & 1)) ++first;
        uint64_t wanted[4] = {(uint64_t)(ones((uint32_t)x) + ones((uint32_t)(x >> 32))), (uint64_t)lead, rev,
                              (uint64_t)(x ? first + 1 : 0)};
        for (int k = 0; k < 4; ++k) out.same((int64_t)g[4 * i + k], (int64_t)wanted[k], "64-bit counts");
    }
}

// -- floating point

template <typename T>
__global__ void k_float(const T* a, const T* b, T* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    T x = a[i], y = b[i];
    T* o = out + 10 * i;
    o[0] = x + y;
    o[1] = x * y;
    o[2] = fma(x, y, T(0.5));
    o[3] = x / y;
    o[4] = sqrt(fabs(x));
    o[5] = floor(x) + ceil(y);
    o[6] = fmin(x, y) - fmax(x, T(1));
    o[7] = rint(x);
    o[8] = T((int)x) + T((unsigned)fabs(y));
    o[9] = x < y ? copysign(x, y) : trunc(y);
}
template <typename T>
static void floats(Outcome& out, double limit, const char* what) {
    auto r = noises(2 * N);
    std::vector<T> a(N), b(N);
    for (int i = 0; i < N; ++i) {
        a[i] = T(((int32_t)r[2 * i] >> 8) / 65536.0);
        b[i] = T(((int32_t)r[2 * i + 1] >> 8) / 262144.0 + 0.0625);
    }
    Buffer<T> da(a), db(b), got(10 * N);
    launch(k_float<T>, N / 256, 256, 0, da.at, db.at, got.at, N);
    auto g = got.back();
    for (int i = 0; i < N; ++i) {
        T x = a[i], y = b[i];
        double wanted[10] = {double(T(x + y)),
                             double(T(x * y)),
                             double(std::fma(x, y, T(0.5))),
                             double(T(x / y)),
                             double(std::sqrt(std::fabs(x))),
                             double(T(std::floor(x) + std::ceil(y))),
                             double(T(std::fmin(x, y) - std::fmax(x, T(1)))),
                             double(std::rint(x)),
                             double(T(T((int)x) + T((unsigned)std::fabs(y)))),
                             double(x < y ? std::copysign(x, y) : std::trunc(y))};
        for (int k = 0; k < 10; ++k) out.hold(g[10 * i + k], wanted[k], limit, what);
    }
}
static void float32(Outcome& out) { floats<float>(out, 2.4e-7, "single precision"); }
static void float64(Outcome& out) { floats<double>(out, 4.5e-16, "double precision"); }

// -- functions of one or two arguments, in single precision, against the host's in double

enum Function { EXP, LOG, POW, SIN, COS, TANH, ERF, RSQRT, EXP2, LOG2, ATAN2, FMOD };

template <int F>
__global__ void k_function(const float* a, const float* b, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = a[i], y = b[i];
    if (F == EXP) out[i] = expf(x);
    if (F == LOG) out[i] = logf(x);
    if (F == POW) out[i] = powf(x, y);
    if (F == SIN) out[i] = sinf(x);
    if (F == COS) out[i] = cosf(x);
    if (F == TANH) out[i] = tanhf(x);
    if (F == ERF) out[i] = erff(x);
    if (F == RSQRT) out[i] = rsqrtf(x);
    if (F == EXP2) out[i] = exp2f(x);
    if (F == LOG2) out[i] = log2f(x);
    if (F == ATAN2) out[i] = atan2f(x, y);
    if (F == FMOD) out[i] = fmodf(x, y);
}
template <int F>
static void function(Outcome& out, double (*known)(double, double), float low, float high, double limit,
                     const char* what) {
    auto r = noises(2 * N);
    std::vector<float> a(N), b(N);
    for (int i = 0; i < N; ++i) {
        a[i] = low + (high - low) * (float)(r[2 * i] >> 8) / 16777216.0f;
        b[i] = -3.0f + 6.0f * (float)(r[2 * i + 1] >> 8) / 16777216.0f;
        if (b[i] == 0) b[i] = 1;
    }
    Buffer<float> da(a), db(b), got(N);
    launch(k_function<F>, N / 256, 256, 0, da.at, db.at, got.at, N);
    auto g = got.back();
    for (int i = 0; i < N; ++i) out.hold(g[i], (float)known(a[i], b[i]), limit, what);
}
#define FUNCTION(name, F, expression, low, high, limit)                                                   \
    static void name(Outcome& out) {                                                                      \
        function<F>(                                                                                      \
            out, [](double x, double y) -> double { return (void)y, (expression); }, low, high, limit,    \
            #name);                                                                                       \
    }
FUNCTION(exp_f, EXP, std::exp(x), -20, 20, 1e-6)
FUNCTION(exp2_f, EXP2, std::exp2(x), -20, 20, 1e-6)
FUNCTION(log_f, LOG, std::log(x), 2, 1000, 1e-6)
FUNCTION(log2_f, LOG2, std::log2(x), 2, 1000, 1e-6)
FUNCTION(pow_f, POW, std::pow(x, y), 0.25, 30, 4e-6)
FUNCTION(sin_f, SIN, std::sin(x), 0.1, 3, 2e-6)
FUNCTION(cos_f, COS, std::cos(x), -1.4, 1.4, 2e-6)
FUNCTION(tanh_f, TANH, std::tanh(x), 0.01, 4, 2e-6)
FUNCTION(erf_f, ERF, std::erf(x), 0.01, 3, 3e-6)
FUNCTION(rsqrt_f, RSQRT, 1 / std::sqrt(x), 0.01, 100, 1e-6)
FUNCTION(atan2_f, ATAN2, std::atan2(x, y), 0.1, 5, 2e-6)
FUNCTION(fmod_f, FMOD, std::fmod(x, y), 0.5, 900, 1e-6)

__global__ void k_math64(const double* a, double* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double x = a[i];
    double* o = out + 5 * i;
    o[0] = exp(x);
    o[1] = log(x);
    o[2] = pow(x, 1.75);
    o[3] = sin(x);
    o[4] = 1 / sqrt(x);
}
static void math64(Outcome& out) {
    auto r = noises(N);
    std::vector<double> a(N);
    for (int i = 0; i < N; ++i) a[i] = 1.25 + r[i] / 4294967296.0;
    Buffer<double> da(a), got(5 * N);
    launch(k_math64, N / 256, 256, 0, da.at, got.at, N);
    auto g = got.back();
    for (int i = 0; i < N; ++i) {
        double x = a[i];
        double wanted[5] = {std::exp(x), std::log(x), std::pow(x, 1.75), std::sin(x), 1 / std::sqrt(x)};
        for (int k = 0; k < 5; ++k) out.hold(g[5 * i + k], wanted[k], 4e-15, "functions in double precision");
    }
}

// -- small types: their values are exact in single precision, so that only one rounding is compared

__global__ void k_half(const float* a, const float* b, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    _Float16 x = (_Float16)a[i], y = (_Float16)b[i];
    float* o = out + 4 * i;
    o[0] = (float)(_Float16)(x + y);
    o[1] = (float)(_Float16)(x * y);
    o[2] = (float)(x > y ? x : y);
    o[3] = (float)(_Float16)(a[i] * 1.001f);
}
// The nearest half or bfloat16 to a value, ties to even, for normal numbers; `kept` are the bits of a mantissa.
static double rounded(double value, int kept) {
    if (value == 0) return value;
    int exponent;
    double mantissa = std::frexp(value, &exponent);
    return std::ldexp(std::nearbyint(std::ldexp(mantissa, kept)), exponent - kept);
}
static void half(Outcome& out) {
    std::vector<float> a(N), b(N);
    for (int i = 0; i < N; ++i) {
        a[i] = (float)rounded(1 + (i % 997) / 64.0, 11);
        b[i] = (float)rounded(2 + (i % 641) / 128.0, 11);
    }
    Buffer<float> da(a), db(b), got(4 * N);
    launch(k_half, N / 256, 256, 0, da.at, db.at, got.at, N);
    auto g = got.back();
    for (int i = 0; i < N; ++i) {
        double x = a[i], y = b[i];
        double wanted[4] = {rounded(x + y, 11), rounded(x * y, 11), x > y ? x : y, rounded(a[i] * 1.001f, 11)};
        for (int k = 0; k < 4; ++k) out.hold(g[4 * i + k], wanted[k], 0, "half precision");
    }
}

__device__ static uint16_t to_bfloat16(float value) {
    uint32_t bits = __float_as_uint(value);
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
__device__ static float of_bfloat16(uint16_t bits) { return __uint_as_float((uint32_t)bits << 16); }
__global__ void k_bfloat16(const float* a, const float* b, float* out, uint16_t* packed, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    packed[i] = to_bfloat16(a[i]);
    float x = of_bfloat16(packed[i]), y = of_bfloat16(to_bfloat16(b[i]));
    out[2 * i] = of_bfloat16(to_bfloat16(x + y));
    out[2 * i + 1] = of_bfloat16(to_bfloat16(x * y));
}
static void bfloat16(Outcome& out) {
    std::vector<float> a(N), b(N);
    for (int i = 0; i < N; ++i) {
        a[i] = (1 + (i % 997) / 64.0f) * (i % 2 ? -1 : 1);
        b[i] = 300 + (i % 641) / 3.0f;
    }
    Buffer<float> da(a), db(b), got(2 * N);
    Buffer<uint16_t> packed(N);
    launch(k_bfloat16, N / 256, 256, 0, da.at, db.at, got.at, packed.at, N);
    auto g = got.back();
    auto p = packed.back();
    for (int i = 0; i < N; ++i) {
        double x = rounded(a[i], 8), y = rounded(b[i], 8);
        float as_float = (float)x;
        uint32_t bits;
        std::memcpy(&bits, &as_float, 4);
        out.same(p[i], bits >> 16, "bfloat16 in memory");
        out.hold(g[2 * i], rounded((float)(x + y), 8), 0, "bfloat16 sums");
        out.hold(g[2 * i + 1], rounded((float)(x * y), 8), 0, "bfloat16 products");
    }
}

// -- lanes of a wave

__global__ void k_shuffle(int* out, int* wave) {
    int lane = threadIdx.x % warpSize, value = 1000 + (int)threadIdx.x;
    int* o = out + 5 * threadIdx.x;
    o[0] = __shfl_xor(value, 1);
    o[1] = __shfl_up(value, 1);
    o[2] = __shfl_down(value, 3);
    o[3] = __shfl(value, (lane * 7 + 3) % warpSize);
    int sum = value;
    for (int step = warpSize / 2; step; step /= 2) sum += __shfl_xor(sum, step);
    o[4] = sum;
    if (threadIdx.x == 0) *wave = warpSize;
}
static int wave_of_device() {
    hipDeviceProp_t about;
    HIP(hipGetDeviceProperties(&about, 0));
    return about.warpSize;
}
static void shuffle(Outcome& out) {
    const int block = 256;
    Buffer<int> got(5 * block), seen(1);
    launch(k_shuffle, 1, block, 0, got.at, seen.at);
    auto g = got.back();
    int w = seen.back()[0];
    out.same(w, wave_of_device(), "lanes of a wave");
    if (w != 32 && w != 64) return;
    for (int t = 0; t < block; ++t) {
        int lane = t % w, base = t - lane, sum = 0;
        for (int k = 0; k < w; ++k) sum += 1000 + base + k;
        int wanted[5] = {1000 + (t ^ 1), lane ? 1000 + t - 1 : 1000 + t, lane + 3 < w ? 1000 + t + 3 : 1000 + t,
                         1000 + base + (lane * 7 + 3) % w, sum};
        for (int k = 0; k < 5; ++k) out.same(g[5 * t + k], wanted[k], "shuffles");
    }
}

__global__ void k_vote(unsigned long long* out) {
    int lane = threadIdx.x % warpSize;
    unsigned long long* o = out + 4 * threadIdx.x;
    o[0] = __ballot(lane % 3 == 0);
    o[1] = __any(lane == 5);
    o[2] = __all(lane < 16);
    o[3] = __ballot(lane % 2) & ((1ull << lane) - 1);
}
static void vote(Outcome& out) {
    const int block = 128, w = wave_of_device();
    Buffer<unsigned long long> got(4 * block);
    launch(k_vote, 1, block, 0, got.at);
    auto g = got.back();
    for (int t = 0; t < block; ++t) {
        int lane = t % w;
        unsigned long long third = 0, odd = 0;
        for (int k = 0; k < w; k += 3) third |= 1ull << k;
        for (int k = 1; k < lane; k += 2) odd |= 1ull << k;
        unsigned long long wanted[4] = {third, 1, 0, odd};
        for (int k = 0; k < 4; ++k) out.same((int64_t)g[4 * t + k], (int64_t)wanted[k], "votes");
    }
}

// -- shared memory and barriers

__global__ void k_reduce(const float* in, float* out) {
    __shared__ float held[256];
    int t = threadIdx.x;
    held[t] = in[blockIdx.x * 256 + t];
    __syncthreads();
    for (int step = 128; step; step /= 2) {
        if (t < step) held[t] += held[t + step];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = held[0];
}
static void reduction(Outcome& out) {
    const int blocks = 64;
    std::vector<float> a(256 * blocks);
    for (size_t i = 0; i < a.size(); ++i) a[i] = (float)(i % 513) - 256;
    Buffer<float> da(a), got(blocks);
    launch(k_reduce, blocks, 256, 0, da.at, got.at);
    auto g = got.back();
    for (int k = 0; k < blocks; ++k) {
        double sum = 0;
        for (int t = 0; t < 256; ++t) sum += a[256 * k + t];
        out.hold(g[k], sum, 0, "sums in shared memory");
    }
}

__global__ void k_transpose(const int* in, int* out, int side) {
    extern __shared__ int tile[];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    tile[threadIdx.y * 17 + threadIdx.x] = in[y * side + x];
    __syncthreads();
    out[(blockIdx.x * 16 + threadIdx.y) * side + blockIdx.y * 16 + threadIdx.x] =
        tile[threadIdx.x * 17 + threadIdx.y];
}
static void transpose(Outcome& out) {
    const int side = 64;
    std::vector<int> a(side * side);
    for (size_t i = 0; i < a.size(); ++i) a[i] = (int)i * 3;
    Buffer<int> da(a), got(a.size());
    launch(k_transpose, dim3(side / 16, side / 16), dim3(16, 16), 16 * 17 * sizeof(int), da.at, got.at, side);
    auto g = got.back();
    for (int y = 0; y < side; ++y)
        for (int x = 0; x < side; ++x) out.same(g[x * side + y], a[y * side + x], "a transposed tile");
}

__global__ void k_gemm(const float* a, const float* b, float* c, int side) {
    __shared__ float left[16][16], right[16][16];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
    float sum = 0;
    for (int part = 0; part < side; part += 16) {
        left[y][x] = a[row * side + part + x];
        right[y][x] = b[(part + y) * side + column];
        __syncthreads();
        for (int k = 0; k < 16; ++k) sum += left[y][k] * right[k][x];
        __syncthreads();
    }
    c[row * side + column] = sum;
}
static void gemm(Outcome& out) {
    const int side = 64;
    std::vector<float> a(side * side), b(side * side);
    for (int i = 0; i < side * side; ++i) {
        a[i] = (float)(i % 7 - 3);
        b[i] = (float)(i % 11 - 5);
    }
    Buffer<float> da(a), db(b), got(a.size());
    launch(k_gemm, dim3(side / 16, side / 16), dim3(16, 16), 0, da.at, db.at, got.at, side);
    auto g = got.back();
    for (int y = 0; y < side; ++y)
        for (int x = 0; x < side; ++x) {
            double sum = 0;
            for (int k = 0; k < side; ++k) sum += a[y * side + k] * b[k * side + x];
            out.hold(g[y * side + x], sum, 0, "a product of matrices");
        }
}

// -- atomics

__global__ void k_atomics(int* counts, float* sum, int* most, unsigned long long* wide, int n) {
    __shared__ int here;
    if (threadIdx.x == 0) here = 0;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        atomicAdd(&counts[i % 16], 1);
        atomicAdd(sum, 0.5f);
        atomicMax(most, (i * 7919) % n);
        atomicAdd(wide, 1ull << 33);
        atomicAdd(&here, 1);
        int seen = counts[16], had;
        do {
            had = seen;
            seen = atomicCAS(&counts[16], had, had + 2);
        } while (seen != had);
    }
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(&counts[17], here);
}
static void atomics(Outcome& out) {
    const int n = 2048;
    Buffer<int> counts(18), most(1);
    Buffer<float> sum(1);
    Buffer<unsigned long long> wide(1);
    launch(k_atomics, n / 256, 256, 0, counts.at, sum.at, most.at, wide.at, n);
    auto c = counts.back();
    for (int k = 0; k < 16; ++k) out.same(c[k], n / 16, "atomic counts");
    out.same(c[16], 2 * n, "compare and swap");
    out.same(c[17], n, "atomics in shared memory");
    out.hold(sum.back()[0], n / 2, 0, "atomic sums");
    out.same(most.back()[0], n - 1, "atomic maximum");
    out.same((int64_t)wide.back()[0], (int64_t)n << 33, "64-bit atomics");
}

// -- memory

__global__ void k_gather(const float* in, const int* index, float* out, float* scattered, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] = in[index[i]];
    scattered[index[i]] = in[i] * 2;
}
static void gather(Outcome& out) {
    const int n = 8192;
    std::vector<float> a(n);
    std::vector<int> index(n);
    for (int i = 0; i < n; ++i) {
        a[i] = (float)i + 0.25f;
        index[i] = (i * 5347 + 11) % n;
    }
    Buffer<float> da(a), got(n), put(n);
    Buffer<int> where(index);
    launch(k_gather, n / 256, 256, 0, da.at, where.at, got.at, put.at, n);
    auto g = got.back(), p = put.back();
    for (int i = 0; i < n; ++i) {
        out.hold(g[i], a[index[i]], 0, "gathered");
        out.hold(p[index[i]], 2.0 * a[i], 0, "scattered");
    }
}

struct Wide {
    double scale;
    int shift[5];
    char tag;
};
__constant__ int table[64];
__device__ int global_count = 7;
__global__ void k_arguments(Wide wide, const int8_t* bytes, const uint16_t* shorts, int* out, char tag, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] = (int)(wide.scale * table[i % 64]) + wide.shift[i % 5] + bytes[i] + shorts[i] + (wide.tag == tag) +
             global_count;
}
static void arguments(Outcome& out) {
    const int n = 1000;  // no multiple of a block
    std::vector<int8_t> bytes(n);
    std::vector<uint16_t> shorts(n);
    int constants[64], counted = 70;
    for (int i = 0; i < n; ++i) {
        bytes[i] = (int8_t)(i % 251 - 125);
        shorts[i] = (uint16_t)(65000 + i % 500);
    }
    for (int i = 0; i < 64; ++i) constants[i] = i * i;
    HIP(hipMemcpyToSymbol(HIP_SYMBOL(table), constants, sizeof constants));
    HIP(hipMemcpyToSymbol(HIP_SYMBOL(global_count), &counted, sizeof counted));
    Wide wide{1.5, {1, 20, 300, 4000, 50000}, 'w'};
    Buffer<int8_t> db(bytes);
    Buffer<uint16_t> ds(shorts);
    Buffer<int> got(n);
    launch(k_arguments, (n + 255) / 256, 256, 0, wide, db.at, ds.at, got.at, 'w', n);
    auto g = got.back();
    for (int i = 0; i < n; ++i)
        out.same(g[i], (int)(1.5 * (i % 64) * (i % 64)) + wide.shift[i % 5] + bytes[i] + shorts[i] + 1 + 70,
                 "arguments, constants and globals");
}

__global__ void k_private(const int* in, int* out, int n) {
    int held[32], i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    for (int k = 0; k < 32; ++k) held[(k * 5 + in[i]) & 31] = k + i;
    int sum = 0;
    for (int k = 0; k < in[i]; ++k) sum += held[(k * 3 + i) & 31] * (k + 1);
    out[i] = sum;
}
static void scratch(Outcome& out) {
    const int n = 1024;
    std::vector<int> a(n);
    for (int i = 0; i < n; ++i) a[i] = i % 29;
    Buffer<int> da(a), got(n);
    launch(k_private, n / 256, 256, 0, da.at, got.at, n);
    auto g = got.back();
    for (int i = 0; i < n; ++i) {
        int held[32], sum = 0;
        for (int k = 0; k < 32; ++k) held[(k * 5 + a[i]) & 31] = k + i;
        for (int k = 0; k < a[i]; ++k) sum += held[(k * 3 + i) & 31] * (k + 1);
        out.same(g[i], sum, "private arrays");
    }
}

__host__ __device__ static int steps_of(unsigned value) {
    int steps = 0;
    while (value != 1 && steps < 300) {
        value = value % 2 ? 3 * value + 1 : value / 2;
        ++steps;
        if (steps % 64 == 0) {
            switch (value % 4) {
                case 0: steps += 2; break;
                case 1: continue;
                default: break;
            }
        }
    }
    return steps;
}
__global__ void k_branches(int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = steps_of((unsigned)i + 1);
}
static void branches(Outcome& out) {
    const int n = 1024;
    Buffer<int> got(n);
    launch(k_branches, n / 256, 256, 0, got.at, n);
    auto g = got.back();
    for (int i = 0; i < n; ++i) out.same(g[i], steps_of((unsigned)i + 1), "loops of different length");
}

__global__ void k_block(unsigned* out) {
    unsigned width = blockDim.x, size = width * blockDim.y;
    unsigned at = threadIdx.z * size + threadIdx.y * width + threadIdx.x;
    out[blockIdx.x * size * blockDim.z + at] = threadIdx.x + 100 * threadIdx.y + 10000 * threadIdx.z;
}
static void block(Outcome& out) {
    for (dim3 shape : {dim3(16, 16, 1), dim3(8, 4, 6), dim3(1, 64, 2)}) {
        const unsigned blocks = 3, count = shape.x * shape.y * shape.z;
        Buffer<unsigned> got(blocks * count);
        launch(k_block, blocks, shape, 0, got.at);
        auto g = got.back();
        for (unsigned k = 0; k < blocks * count; ++k) {
            unsigned at = k % count, x = at % shape.x, y = at / shape.x % shape.y, z = at / shape.x / shape.y;
            out.same(g[k], x + 100 * y + 10000 * z, "threads of a block in two and three dimensions");
        }
    }
}

__global__ void k_grid(unsigned* out, int width, int height) {
    unsigned x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y, z = blockIdx.z;
    if ((int)x < width)
        out[((size_t)z * height + y) * width + x] = x + 1000 * y + 1000000 * z + gridDim.x;
}
static void grid(Outcome& out) {
    const int width = 515, height = 130, depth = 5;
    Buffer<unsigned> got((size_t)width * height * depth);
    launch(k_grid, dim3((width + 127) / 128, height, depth), 128, 0, got.at, width, height);
    auto g = got.back();
    for (int z = 0; z < depth; ++z)
        for (int y = 0; y < height; ++y)
            for (int x = 0; x < width; ++x)
                out.same(g[(size_t)(z * height + y) * width + x], x + 1000 * y + 1000000 * z + (width + 127) / 128,
                         "a large grid");
}

__global__ void k_add_one(int* at, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) at[i] += 1;
}
static void streams(Outcome& out) {
    const int n = 4096;
    std::vector<int> a(n, 3), back(n);
    Buffer<int> first(n), second(n);
    hipStream_t stream;
    hipEvent_t event;
    HIP(hipStreamCreate(&stream));
    HIP(hipEventCreate(&event));
    HIP(hipMemcpyAsync(first.at, a.data(), n * sizeof(int), hipMemcpyHostToDevice, stream));
    for (int k = 0; k < 4; ++k) k_add_one<<<n / 256, 256, 0, stream>>>(first.at, n);
    HIP(hipMemcpyAsync(second.at, first.at, n * sizeof(int), hipMemcpyDeviceToDevice, stream));
    HIP(hipEventRecord(event, stream));
    HIP(hipStreamWaitEvent(nullptr, event, 0));
    k_add_one<<<n / 256, 256>>>(second.at, n);
    HIP(hipMemcpy(back.data(), second.at, n * sizeof(int), hipMemcpyDeviceToHost));
    HIP(hipMemset(first.at, 0x11, n * sizeof(int)));
    auto filled = first.back();
    for (int i = 0; i < n; ++i) {
        out.same(back[i], 8, "a stream in order");
        out.same(filled[i], 0x11111111, "memory that was set");
    }
    HIP(hipEventDestroy(event));
    HIP(hipStreamDestroy(stream));
}

// -- matrix instructions: 16 × 16 × 16 of halves; rows and columns of each lane as the ISA documents lay them

typedef _Float16 half4 __attribute__((ext_vector_type(4)));
typedef _Float16 half8 __attribute__((ext_vector_type(8)));
typedef _Float16 half16 __attribute__((ext_vector_type(16)));
typedef float float4_ __attribute__((ext_vector_type(4)));
typedef float float8_ __attribute__((ext_vector_type(8)));

__global__ void k_matrix(const float* a, const float* b, float* c, int* done) {
    int lane = threadIdx.x, column = lane % 16, group = lane / 16;
#if defined(__gfx90a__) || defined(__gfx942__) || defined(__gfx950__)
    half4 x, y;
    for (int k = 0; k < 4; ++k) {
        x[k] = (_Float16)a[column * 16 + 4 * group + k];
        y[k] = (_Float16)b[(4 * group + k) * 16 + column];
    }
    float4_ sum = {0, 0, 0, 0};
    sum = __builtin_amdgcn_mfma_f32_16x16x16f16(x, y, sum, 0, 0, 0);
    for (int k = 0; k < 4; ++k) c[(4 * group + k) * 16 + column] = sum[k];
    *done = 1;
#elif defined(__GFX11__)
    half16 x, y;
    for (int k = 0; k < 16; ++k) {
        x[k] = (_Float16)a[column * 16 + k];
        y[k] = (_Float16)b[k * 16 + column];
    }
    float8_ sum = {0, 0, 0, 0, 0, 0, 0, 0};
    sum = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(x, y, sum);
    for (int k = 0; k < 8; ++k) c[(2 * k + group) * 16 + column] = sum[k];
    *done = 1;
#elif defined(__gfx1200__) || defined(__gfx1201__)
    half8 x, y;
    for (int k = 0; k < 8; ++k) {
        x[k] = (_Float16)a[column * 16 + 8 * group + k];
        y[k] = (_Float16)b[(8 * group + k) * 16 + column];
    }
    float8_ sum = {0, 0, 0, 0, 0, 0, 0, 0};
    sum = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(x, y, sum);
    for (int k = 0; k < 8; ++k) c[(8 * group + k) * 16 + column] = sum[k];
    *done = 1;
#else
    (void)column, (void)group, (void)a, (void)b, (void)c, (void)done;
#endif
}
static void matrix(Outcome& out) {
    std::vector<float> a(256), b(256);
    for (int i = 0; i < 256; ++i) {
        a[i] = (float)(i % 7 - 3);
        b[i] = (float)(i % 13 - 6);
    }
    Buffer<float> da(a), db(b), got(256);
    Buffer<int> done(1);
    launch(k_matrix, 1, wave_of_device(), 0, da.at, db.at, got.at, done.at);
    if (!done.back()[0]) {
        out.absent = true;
        return;
    }
    auto g = got.back();
    for (int y = 0; y < 16; ++y)
        for (int x = 0; x < 16; ++x) {
            double sum = 0;
            for (int k = 0; k < 16; ++k) sum += a[y * 16 + k] * b[k * 16 + x];
            out.hold(g[y * 16 + x], sum, 0, "a matrix instruction");
        }
}

// -- all of them

struct Operation {
    const char* name;
    void (*run)(Outcome&);
};
static const Operation operations[] = {
    {"integer", integer},
    {"integer64", integer64},
    {"bits64", bits64},
    {"float32", float32},
    {"float64", float64},
    {"exp", exp_f},
    {"exp2", exp2_f},
    {"log", log_f},
    {"log2", log2_f},
    {"pow", pow_f},
    {"sin", sin_f},
    {"cos", cos_f},
    {"tanh", tanh_f},
    {"erf", erf_f},
    {"rsqrt", rsqrt_f},
    {"atan2", atan2_f},
    {"fmod", fmod_f},
    {"math64", math64},
    {"half", half},
    {"bfloat16", bfloat16},
    {"shuffle", shuffle},
    {"vote", vote},
    {"block", block},
    {"grid", grid},
    {"reduction", reduction},
    {"transpose", transpose},
    {"gemm", gemm},
    {"atomics", atomics},
    {"gather", gather},
    {"arguments", arguments},
    {"scratch", scratch},
    {"branches", branches},
    {"streams", streams},
    {"matrix", matrix},
};

static std::string escaped(const std::string& text) {
    std::string found;
    for (char c : text)
        if (c == '"' || c == '\\') found += std::string("\\") + c;
        else if ((unsigned char)c >= 32) found += c;
    return found;
}

// Into the emulator's log, in order with its own lines, where whoever started this says where it is.
static void mark(const char* kind, const char* name) {
    static FILE* log = getenv("ROCWRIGHT_EMULATOR_LOG") ? fopen(getenv("ROCWRIGHT_EMULATOR_LOG"), "a") : nullptr;
    if (!log) return;
    fprintf(log, "\n\x1e%s %s\n", kind, name);
    fflush(log);
}

static void one(const Operation& operation) {
    mark("begin", operation.name);
    printf("{\"begin\": \"%s\"}\n", operation.name);
    fflush(stdout);
    auto began = std::chrono::steady_clock::now();
    Outcome outcome;
    std::string state, detail;
    try {
        operation.run(outcome);
        state = outcome.absent ? "absent" : outcome.wrong || !outcome.of ? "wrong" : "right";
        detail = outcome.first;
    } catch (const Refused& refused) {
        state = "refused";
        detail = refused.what;
    }
    mark("end", operation.name);
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    printf("{\"done\": \"%s\", \"state\": \"%s\", \"of\": %zu, \"wrong\": %zu, \"worst\": %.3g, "
           "\"seconds\": %.3f, \"detail\": \"%s\"}\n",
           operation.name, state.c_str(), outcome.of, outcome.wrong, outcome.worst, took.count(),
           escaped(detail).c_str());
    fflush(stdout);
}

int main(int count, char** words) {
    int devices = 0;
    hipError_t error = hipGetDeviceCount(&devices);
    if (error != hipSuccess || devices < 1) {
        printf("{\"problem\": \"HIP shows no GPU: %s\"}\n", hipGetErrorString(error));
        return 1;
    }
    for (const Operation& operation : operations) {
        bool asked = count < 2;
        for (int k = 1; k < count; ++k) asked = asked || !strcmp(words[k], operation.name);
        if (asked) one(operation);
    }
    return 0;
}
