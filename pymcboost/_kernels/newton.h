/* Box-bounded Newton method for the K coefficients of one shared weak learner (Paisitkriangkrai, Shen and van den
 * Hengel, eqs. 13 and 14, after the data have been summed into K x K tables).
 *
 * Problem: minimise over 0 <= w <= cap, with d = w_c - w_r for every ordered pair (c, r) of different classes,
 *   exponential: log(diagonal + sum plus[c,r] e^{-d} + minus[c,r] e^{d}) + nu sum w
 *   logistic:    sum n_plus[c,r] log(1 + plus[c,r] e^{-d}) + n_minus[c,r] log(1 + minus[c,r] e^{d}) + nu sum w
 * The Hessian is the Laplacian of a graph over the classes: free coordinates by preconditioned conjugate gradients,
 * bounds by projection (Bertsekas), Armijo steps. O(K^2) per product.
 */
#ifndef PYMCBOOST_NEWTON_H
#define PYMCBOOST_NEWTON_H

#include "lanes.h"

/* The objective at one w: sums over ordered pairs (c, r) of different classes. */
typedef struct {
    int K, logistic;
    /* (K, K), diagonal ignored; n_plus, n_minus: logistic only */
    const double *plus, *minus, *n_plus, *n_minus;
    double diagonal, nu;
    double *up, *down; /* (K,) e^{w}, e^{-w} */
    double *slope;     /* (K,) gradient */
    double *curve;     /* (K, K) second derivatives of the pairs, symmetric */
    double value;      /* of the objective */
    double mass;       /* scale of the gradient, without cancellation */
} pmb_class_pairs;

PMB_INLINE double pmb_class_pairs_value(pmb_class_pairs *p, const double *w, int with_derivatives) {
    int K = p->K;
    double total = 0, penalty = 0, mass = 0;
    for (int c = 0; c < K; c++) {
        p->up[c] = exp(w[c]);
        p->down[c] = exp(-w[c]);
        penalty += w[c];
        if (with_derivatives) p->slope[c] = 0;
    }
    if (with_derivatives) memset(p->curve, 0, sizeof(double) * K * K);
    for (int c = 0; c < K; c++) {
        double pull = 0;
        for (int r = 0; r < K; r++) {
            if (r == c) continue;
            double a = p->plus[c * K + r] * p->down[c] * p->up[r],
                   b = p->minus[c * K + r] * p->up[c] * p->down[r];
            double g, h;
            if (p->logistic) {
                double na = p->n_plus[c * K + r], nb = p->n_minus[c * K + r];
                if (with_derivatives) {
                    double pa = a / (1 + a), pb = b / (1 + b);
                    g = nb * pb - na * pa;
                    h = na * pa * (1 - pa) + nb * pb * (1 - pb);
                    mass += na * pa + nb * pb;
                } else {
                    g = h = 0;
                }
                total += na * log1p(a) + nb * log1p(b);
            } else {
                g = b - a;
                h = a + b;
                total += h;
            }
            if (with_derivatives) {
                pull += g;
                p->slope[r] -= g;
                p->curve[c * K + r] += h;
                p->curve[r * K + c] += h;
            }
        }
        if (with_derivatives) p->slope[c] += pull;
    }
    if (p->logistic) {
        p->value = total;
    } else {
        double z = p->diagonal + total;
        p->value = log(z);
        mass = total / z;
        if (with_derivatives) {
            for (int c = 0; c < K; c++) p->slope[c] /= z;
            for (int j = 0; j < K * K; j++) p->curve[j] /= z;
        }
    }
    p->value += p->nu * penalty;
    if (with_derivatives) {
        p->mass = mass;
        for (int c = 0; c < K; c++) p->slope[c] += p->nu;
    }
    return p->value;
}

/* Number of doubles that pmb_newton (and pmb_log_step) needs as work space. */
PMB_INLINE int64_t pmb_newton_work(int K) {
    return 5 * (int64_t)K * K + 10 * (int64_t)K;
}

/* Newton's step of the free coordinates by preconditioned conjugate gradients. grad: gradient of the objective. The
 * exponential objective is a log: its Hessian loses slope slope'. work: 4 K numbers. */
PMB_STATIC void pmb_newton_step(const pmb_class_pairs *p, const double *grad, const double *free_,
                                double *step, double *work) {
    int K = p->K;
    double *res = work, *dir = work + K, *prod = work + 2 * K, *scale = work + 3 * K;
    double shift = p->logistic ? 0 : 1, trace = 0, rz = 0, start = 0;
    for (int c = 0; c < K; c++) {
        double sum = 0;
        for (int r = 0; r < K; r++) sum += r == c ? 0 : p->curve[c * K + r];
        scale[c] = sum;
        trace += sum;
    }
    double ridge = 1e-14 * trace / K + 1e-300;
    for (int c = 0; c < K; c++) {
        step[c] = 0;
        res[c] = free_[c] ? -grad[c] : 0;
        scale[c] += ridge;
        dir[c] = res[c] / scale[c];
        rz += res[c] * dir[c];
    }
    start = rz;
    for (int it = 0; it < K + 10 && rz > 1e-20 * start; it++) {
        double dot = 0, along = 0;
        for (int c = 0; c < K; c++) along += (grad[c] - p->nu) * dir[c];
        for (int c = 0; c < K; c++) {
            if (!free_[c]) {
                prod[c] = 0;
                continue;
            }
            double sum = scale[c] * dir[c] - shift * along * (grad[c] - p->nu);
            for (int r = 0; r < K; r++) sum -= r == c ? 0 : p->curve[c * K + r] * dir[r];
            prod[c] = sum;
            dot += dir[c] * sum;
        }
        if (!(dot > 0)) break;
        double alpha = rz / dot, rz_new = 0;
        for (int c = 0; c < K; c++) {
            step[c] += alpha * dir[c];
            res[c] -= alpha * prod[c];
            rz_new += res[c] * res[c] / scale[c];
        }
        double beta = rz_new / rz;
        rz = rz_new;
        for (int c = 0; c < K; c++) dir[c] = res[c] / scale[c] + beta * dir[c];
    }
}

/* The coordinates that may move, 1 or 0 each; returns the largest slope of one, relative to the mass. */
PMB_STATIC double pmb_newton_free(const pmb_class_pairs *p, const double *w, const double *grad,
                                  double cap, double *free_) {
    double worst = 0;
    int lowest = 0, n_free = 0;
    for (int c = 0; c < p->K; c++) {
        free_[c] = !((w[c] <= 0 && grad[c] > 0) || (w[c] >= cap && grad[c] < 0));
        if (free_[c] && fabs(grad[c]) > worst) worst = fabs(grad[c]);
        n_free += free_[c] != 0;
        if (w[c] < w[lowest]) lowest = c;
    }
    /* Only differences of w count in the loss: with no coordinate at a bound the Hessian is singular along 1, so the
     * smallest one stays where it is. */
    if (n_free == p->K) free_[lowest] = 0;
    return p->mass > 0 ? worst / p->mass : 0;
}

/* w: IN start, OUT solution. */
PMB_STATIC void pmb_newton(int K, int logistic, const double *plus, const double *minus,
                           const double *n_plus, const double *n_minus, double diagonal, double nu,
                           double cap, double tol, int max_iter, double *w, double *work) {
    pmb_class_pairs p = {K, logistic, plus, minus, n_plus, n_minus, diagonal, nu, 0, 0, 0, 0, 0, 0};
    p.curve = work;
    work += (int64_t)K * K;
    p.up = work;
    p.down = work + K;
    p.slope = work + 2 * K;
    double *step = work + 3 * K, *trial = work + 4 * K, *free_ = work + 5 * K;
    const double *grad = p.slope; /* trials leave it alone */
    for (int iter = 0;; iter++) {
        double value = pmb_class_pairs_value(&p, w, 1), t = 1;
        if (!(pmb_newton_free(&p, w, grad, cap, free_) > tol) || iter == max_iter) return;
        pmb_newton_step(&p, grad, free_, step, work + 6 * K);
        int moved = 0;
        for (int halving = 0; halving < 40; halving++, t /= 2) {
            double slope = 0;
            for (int c = 0; c < K; c++) {
                double v = w[c] + t * step[c];
                trial[c] = v < 0 ? 0 : v > cap ? cap : v;
                slope += grad[c] * (trial[c] - w[c]);
            }
            if (!(slope < 0)) continue;
            /* A promised decrease below rounding cannot be tested: the step is taken, so that the solution does not
             * depend on rounding. */
            if (-slope <= 1e-12 * (1 + fabs(value)) ||
                pmb_class_pairs_value(&p, trial, 0) <= value + 1e-4 * slope) {
                moved = 1;
                break;
            }
        }
        if (!moved) return;
        memcpy(w, trial, sizeof(double) * K);
    }
}

/* One outer step of the logistic problem over the data.
 * tables: 4 x K x K sums at w (p and p (1 - p), each for h = +1 and -1). Every class pair and side is replaced by one
 * logistic term with the same first and second derivative at w, whose sum is minimised exactly: v, OUT. Returns the
 * largest projected gradient at w relative to the mass; v is left alone when that is at most tol. */
PMB_STATIC double pmb_log_step(int K, const double *tables, const double *w, double nu, double cap,
                               double tol, int max_iter, double *v, double *work) {
    int64_t size = (int64_t)K * K;
    const double *p_plus = tables, *p_minus = tables + size, *c_plus = tables + 2 * size,
                 *c_minus = tables + 3 * size;
    double *odds_plus = work, *odds_minus = work + size, *n_plus = work + 2 * size,
           *n_minus = work + 3 * size;
    double mass = 0, worst = 0;
    for (int c = 0; c < K; c++) {
        double slope = nu;
        for (int r = 0; r < K; r++) {
            if (r == c) continue;
            slope +=
                (p_minus[c * K + r] - p_plus[c * K + r]) - (p_minus[r * K + c] - p_plus[r * K + c]);
            mass += p_plus[c * K + r] + p_minus[c * K + r];
        }
        if (!((w[c] <= 0 && slope > 0) || (w[c] >= cap && slope < 0)) && fabs(slope) > worst)
            worst = fabs(slope);
    }
    if (!(mass > 0) || worst <= tol * mass) return mass > 0 ? worst / mass : 0;
    for (int c = 0; c < K; c++)
        for (int r = 0; r < K; r++) {
            int64_t j = (int64_t)c * K + r;
            double d = r == c ? 1 : exp(w[c] - w[r]);
            for (int side = 0; side < 2; side++) {
                double g = side ? p_minus[j] : p_plus[j], h = side ? c_minus[j] : c_plus[j];
                double p = g > 0 ? 1 - h / g : 0.5;
                p = p < 1e-12 ? 1e-12 : p > 1 - 1e-12 ? 1 - 1e-12 : p;
                (side ? odds_minus : odds_plus)[j] = p / (1 - p) * (side ? 1 / d : d);
                (side ? n_minus : n_plus)[j] = g / p;
            }
        }
    memcpy(v, w, sizeof(double) * K);
    pmb_newton(K, 1, odds_plus, odds_minus, n_plus, n_minus, 0, nu, cap, 1e-9, max_iter, v,
               work + 4 * size);
    return worst / mass;
}

/* Slope and curvature at t of the sum over j of W+_j exp(-C_j t) + W-_j exp(C_j t). */
PMB_INLINE double pmb_coded_slope(int n, const double *C, const double *plus, const double *minus,
                                  double t, double *curvature) {
    double slope = 0;
    *curvature = 0;
    for (int j = 0; j < n; j++) {
        double up = exp(C[j] * t), down = 1 / up, a = minus[j] * up, b = plus[j] * down;
        slope += C[j] * (a - b);
        *curvature += C[j] * C[j] * (a + b);
    }
    return slope;
}

/* The t of one column that minimises the sum over the classes of W+ exp(-C t) + W- exp(C t): the root of its slope, which
 * rises, |C t| <= cap. Rows of the tables and of the code are `stride` apart; work: 3 K numbers. */
PMB_STATIC double pmb_coded_step(int K, const double *code, const double *plus, const double *minus,
                                 int64_t stride, double cap, int max_iter, double *work) {
    double *C = work, *up = C + K, *down = up + K, size = 0, total = 0, curvature, t = 0,
           low = -cap, high = cap;
    int n = 0;
    for (int c = 0; c < K; c++) {
        size = fmax(size, fabs(code[c * stride]));
        total += plus[c * stride] + minus[c * stride];
    }
    if (size == 0 || total == 0) return 0;
    for (int c = 0; c < K; c++) { /* classes with the same entry count as one */
        double value = code[c * stride] / size;
        int j = 0;
        while (j < n && C[j] != value) j++;
        if (j == n) {
            C[n] = value;
            up[n] = down[n] = 0;
            n++;
        }
        up[j] += plus[c * stride] / total;
        down[j] += minus[c * stride] / total;
    }
    if (pmb_coded_slope(n, C, up, down, cap, &curvature) < 0) return cap / size;
    if (pmb_coded_slope(n, C, up, down, -cap, &curvature) > 0) return -cap / size;
    for (int k = 0; k < max_iter; k++) {
        double slope = pmb_coded_slope(n, C, up, down, t, &curvature), next;
        if (slope <= 0) low = t;
        if (slope >= 0) high = t;
        next = t - slope / fmax(curvature, 1e-300);
        /* A step too small to be made ends at t: halving the interval would lead away from the root. */
        if (fmin(fabs(next - t), high - low) <= 1e-15 * fmax(1, fabs(t))) break;
        t = next > low && next < high ? next : (low + high) / 2;
    }
    return t / size;
}

#endif
