/* Speed limit for a quoting-market step, as a hand-vectorised C loop.
 *
 * One step of one env: two uniform draws decide the fills of a bid and an ask at
 * distances (db, da) from the mid with probability A*dt*exp(-k*d), one normal draw moves
 * the mid, the mark-to-market reward and the observation are written, and an env at its
 * last step is reset in place. Four 32-bit words of Philox4x32-10 per env-step, float32
 * transcendental functions, float64 state. Prints env-steps per second.
 *
 *   gcc -O3 -march=native -ffast-math -fopenmp mm_limit.c -o mm_limit -lm && ./mm_limit [threads num_envs seconds]
 */
#include <math.h>
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>


static inline void step_block(int n, const float *restrict db, const float *restrict da,
                              double *restrict mid, double *restrict inv, double *restrict cash,
                              int32_t *restrict t, uint32_t *restrict ctr,
                              const uint32_t *restrict key0, const uint32_t *restrict key1,
                              float *restrict obs_inv, float *restrict obs_time,
                              double *restrict reward, uint8_t *restrict truncated, int n_steps,
                              double sigma_sqrt_dt, float A_dt, float k, double s0) {
    const float inv_steps = 1.0f / n_steps;
#pragma omp simd
    for (int i = 0; i < n; i++) {
        uint32_t c0 = ctr[i], c1 = 0, c2 = 0, c3 = 0, k0 = key0[i], k1 = key1[i];
        for (int r = 0; r < 10; r++) {
            uint64_t p0 = (uint64_t)c0 * 0xD2511F53u, p1 = (uint64_t)c2 * 0xCD9E8D57u;
            uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
            c1 = (uint32_t)p1; c3 = (uint32_t)p0; c0 = n0; c2 = n2;
            k0 += 0x9E3779B9u; k1 += 0xBB67AE85u;
        }
        ctr[i] += 1;
        float u1 = (c0 >> 8) * 0x1p-24f, u2 = (c1 >> 8) * 0x1p-24f;
        float u3 = ((c2 >> 8) + 1) * 0x1p-24f, u4 = (c3 >> 8) * 0x1p-24f;
        double m = mid[i], q = inv[i], x = cash[i], w0 = x + q * m;
        double bought = u1 < A_dt * expf(-k * db[i]) ? 1.0 : 0.0;
        double sold = u2 < A_dt * expf(-k * da[i]) ? 1.0 : 0.0;
        q += bought - sold;
        x += sold * (m + da[i]) - bought * (m - db[i]);
        m += sigma_sqrt_dt * (sqrtf(-2.0f * logf(u3)) * cosf(6.28318531f * u4));
        reward[i] = x + q * m - w0;
        int step = t[i] + 1, done = step >= n_steps;
        truncated[i] = done;
        mid[i] = done ? s0 : m;
        q = done ? 0.0 : q;
        inv[i] = q;
        cash[i] = done ? 0.0 : x;
        step = done ? 0 : step;
        t[i] = step;
        obs_inv[i] = q * 0.02;
        obs_time[i] = 1.0f - step * inv_steps;
    }
}

static void *column(size_t bytes) {
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
    memset(p, 0, bytes);
    return p;
}

static double steps_per_second(int threads, int n, double seconds) {
    int blocks = threads;
    float *db = column(4 * n), *da = column(4 * n), *oi = column(4 * n), *ot = column(4 * n);
    double *mid = column(8 * n), *inv = column(8 * n), *cash = column(8 * n), *rew = column(8 * n);
    int32_t *t = column(4 * n);
    uint32_t *ctr = column(4 * n), *k0 = column(4 * n), *k1 = column(4 * n);
    uint8_t *tr = column(n);
    for (int i = 0; i < n; i++) { db[i] = da[i] = 0.6f; mid[i] = 100; t[i] = i % 200; k0[i] = i; k1[i] = 7; }
    double start = omp_get_wtime(), took;
    long steps = 0;
    do {
#pragma omp parallel for schedule(static) num_threads(threads)
        for (int b = 0; b < blocks; b++) {
            int lo = (long)n * b / blocks, hi = (long)n * (b + 1) / blocks;
            step_block(hi - lo, db + lo, da + lo, mid + lo, inv + lo, cash + lo, t + lo, ctr + lo, k0 + lo,
                       k1 + lo, oi + lo, ot + lo, rew + lo, tr + lo, 200, 0.1414213562, 0.7f, 1.5f, 100.0);
        }
        steps++;
    } while ((took = omp_get_wtime() - start) < seconds);
    void *columns[] = {db, da, oi, ot, mid, inv, cash, rew, t, ctr, k0, k1, tr};
    for (int i = 0; i < 13; i++) free(columns[i]);
    return n * (steps / took);
}

int main(int argc, char **argv) {
    if (argc == 4) {
        printf("%.0f\n", steps_per_second(atoi(argv[1]), atoi(argv[2]), atof(argv[3])));
        return 0;
    }
    int sizes[] = {64, 1024, 16384, 262144};
    int most = omp_get_max_threads();
    for (int threads = 1; threads <= most; threads = threads < most ? most : most + 1)
        for (int s = 0; s < 4; s++)
            printf("threads=%d num_envs=%d  %.1f M env-steps/s\n", threads, sizes[s],
                   1e-6 * steps_per_second(threads, sizes[s], 0.5));
    return 0;
}
