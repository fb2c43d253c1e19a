/* Put together by tools/amalgamate.py from pymcboost/_kernels/score: change it there. */
/* mcb.h -- read and score pymcboost model files (.mcb). C99, header only, version 1 of the format.
 *
 *     #include "mcb.h"
 *
 *     mcb_model model;                                    // about 1000 bytes, points into the file's bytes
 *     int status = mcb_open(&model, bytes, size);         // checks every byte before anything is used
 *     if (status != MCB_OK) {
 *         fprintf(stderr, "%s (section %s, byte %lu)\n", mcb_strerror(status), model.error_tag,
 *                 (unsigned long)model.error_offset);
 *         return 1;
 *     }
 *     double *scores = malloc(model.n_classes * sizeof *scores);   // the caller owns all memory
 *     mcb_scores(&model, row, scores);                    // row: model.n_features floats
 *     uint32_t k = mcb_argmax(&model, scores);            // index of the class, ties go to the lowest
 *     int64_t label = mcb_label_int(&model, k);           // or mcb_label_text(&model, k, &length)
 *     if (mcb_has_probabilities(&model)) mcb_probabilities(&model, scores);      // in place
 *
 * Many rows, which begin `stride` floats after each other (n_features or more), are scored faster together:
 *
 *     mcb_scores_batch(&model, rows, n_rows, stride, scores);      // void; scores: n_rows * n_classes doubles
 *
 * Trees are scored several times as fast after
 *
 *     size_t room = mcb_prepared_size(&model);            // 0 for stumps, which need no preparation
 *     void *memory = malloc(room);                        // to be kept as long as the model
 *     if (memory) mcb_prepare(&model, memory, room);
 *
 * Values of categorical features are codes; mcb_level_code finds that of a text.
 *
 * To get only the highest of very many scores, for trees whose leaves store values for few classes:
 *
 *     size_t size = mcb_top_size(&model);                 // after mcb_prepare; 0: take mcb_scores and mcb_top
 *     void *memory = malloc(size);                        // for each thread
 *     mcb_top_begin(&model, memory, size);
 *     mcb_top_scores(&model, memory, row, 5, classes, scores);     // the five highest of a row, and their scores
 *
 * Rows that are mostly 0 are scored from the others by mcb_scores_sparse; a linear machine must have been prepared.
 *
 * Where the file has an early exit (docs/format.md), scoring may stop before the last learner:
 *
 *     uint64_t learners;
 *     if (mcb_has_early(&model, MCB_EARLY_CERTIFIED))     // the label of all learners, without some of them
 *         mcb_predict_early(&model, MCB_EARLY_CERTIFIED, row, scores, &k, &learners);
 *
 * The scores are then sums of these learners only: do not turn them into probabilities. Exits lower the average time
 * and raise the longest one; for a bound on every row, prepare the model and score all learners.
 *
 * For linear machines, call mcb_prepare_early to skip classes that cannot win; it takes memory as mcb_prepare does, and
 * no section of the file is needed. mcb_predict_early_sparse takes rows that are mostly 0, of any model with a
 * certified exit.
 *
 * A program that computes features when they are asked for keeps a row and a bit for each of its features:
 *
 *     memset(known, 0, (model.n_features + 7) / 8);       // before each row
 *     mcb_scores_lazy(&model, get_feature, context, row, known, scores);         // or mcb_predict_early_lazy
 *
 * mcb_used_features says once which features can matter at all; a program need not compute the others.
 *
 * Rows of 8-bit or 16-bit integers need not be converted: mcb_scores_values.
 *
 * The other functions
 *   mcb_meta                            text about the training (JSON)
 *   mcb_levels, mcb_level_text          categories of a feature
 *   mcb_calibration, mcb_labels_above   factor of the scores before probabilities; labels above their thresholds
 *   mcb_has_learners, mcb_learners, mcb_truncate, mcb_truncate_rounds          the first learners or rounds alone
 *   mcb_score_width, mcb_start_scores, mcb_add_learners, mcb_decode            scores after some learners, then others
 *   mcb_early_size                      bytes for mcb_prepare_early
 *   mcb_crc32c, mcb_exp, mcb_log, mcb_sqrt                                     the same bits everywhere
 *
 * What it promises
 *   - No memory is allocated, no global is written, nothing is called but memcpy, memset and memcmp. A const mcb_model
 *     may be used by any number of threads. Only <float.h>, <stddef.h>, <stdint.h> and <string.h> are included.
 *   - The bytes may be at any address (a read-only mapping of the file will do) and must stay there, unchanged, while
 *     the model is used. Fields are read with memcpy, so no alignment is needed.
 *   - mcb_open reads every byte once and refuses whatever docs/format.md forbids. After MCB_OK no function reads
 *     outside the file or gives a score that is not finite, whatever the row holds (NaN and infinities included).
 *     Linear and kernel machines have no missing values: the scores of a row with NaN or an infinity are all NaN, as are
 *     those of a row too far away for the arithmetic of a kernel machine; mcb_predict then gives class 0.
 *   - Scores have the same bits on every machine with IEEE double arithmetic, for one row or many, with or without
 *     MCB_SIMD: each class is one chain of additions, bias first, then the learners in order (sums over features:
 *     eight chains, see docs/format.md). A product that is added to something is exact, so fusing the two
 *     (-ffp-contract=fast, the default of gcc) changes nothing. Do not compile with -ffast-math; 32-bit x86 needs
 *     -msse2 -mfpmath=sse (MCB_EXACT is 0 where the promise cannot be kept).
 *   - A process may take subnormal floats (of a magnitude below FLT_MIN, 1.2e-38, and not 0) for 0: one library built with
 *     -ffast-math can switch that on for all. Scores keep their bits there unless the row, or a leaf or coefficient of
 *     the file, is such a number, or a feature was one in training.
 *   - A checksum is not a signature: it finds damage, not forgery.
 *
 * Speed
 *   By default the code uses what the compiler was told the machine has (SSE2, AVX2, AVX-512, NEON of AArch64...).
 *   #define MCB_SIMD         before the #include: compile AVX2 and AVX-512 variants, too, and choose when called
 *                            (gcc and clang, x86-64)
 *   #define MCB_NO_VECTOR    plain scalar C only
 *   Stack in KB, at most, where gcc or clang optimises:
 *     mcb_scores, mcb_predict, mcb_scores_lazy, mcb_scores_sparse: 2; prepared trees 20, 10 without AVX-512; machines 12
 *     mcb_scores_batch, mcb_scores_values, mcb_add_learners: 62; prepared trees 85
 *     mcb_predict_early, mcb_predict_early_lazy, mcb_predict_early_sparse: 14
 *     mcb_top_scores: 8; mcb_prepare: 24; mcb_prepare_early: 10; mcb_open and all others: 2
 *     Models with the decoder hamming or exp: 33 more for scores.
 *
 * Written by the pymcboost authors; the same licence as pymcboost (BSD-3-Clause).
 */
#ifndef MCB_H
#define MCB_H

#include <float.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --------------------------------------------------------------------------------------------------------- platform */

/* Limits of the format, and what depends on the compiler: vectors, inlining, floating-point contraction. */

#define MCB_FORMAT_MAJOR 1
#define MCB_FORMAT_MINOR 12
#define MCB_MAX_CLASSES 65535u
#define MCB_MAX_FEATURES 2147483647u
#define MCB_MAX_SECTIONS 64u
#define MCB_MAX_META (16u << 20)
#define MCB_MAX_LABEL 4096u
#define MCB_MAX_LEVELS 65535u /* of a categorical feature */
#define MCB_MAX_DEGREE 1000
#define MCB_MAX_COLUMNS 4096 /* of a code with a decoder other than linear */

/* 1 when double arithmetic is evaluated in double, as the bit identity of scores needs. */
#if defined(FLT_EVAL_METHOD) && (FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD != 1)
#define MCB_EXACT 0
#elif defined(__FAST_MATH__)
#define MCB_EXACT 0
#else
#define MCB_EXACT 1
#endif

#ifndef MCB_API
#define MCB_API static inline
#endif

/* Vectors of 32-bit ARM take subnormal numbers for 0: their scores could have other bits than those of single rows. */
#if !defined(MCB_NO_VECTOR) && !defined(__arm__) &&                                                \
    (defined(__clang__) || (defined(__GNUC__) && __GNUC__ >= 9)) && defined(__BYTE_ORDER__) &&     \
    __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define MCB__VECTOR 1
#else
#define MCB__VECTOR 0
#endif

/* gcc takes no notice of this pragma; the score chain does not depend on it (see above). */
#if defined(__clang__) || (defined(__STDC_VERSION__) && !defined(__GNUC__) && !defined(_MSC_VER))
#pragma STDC FP_CONTRACT OFF
#endif

#if defined(__GNUC__)
#define MCB__INLINE static inline __attribute__((always_inline))
#define MCB__UNUSED __attribute__((unused))
#define MCB__ALIGNED __attribute__((aligned(64)))
#define MCB__APART                                                                                 \
    static __attribute__((noinline, unused)) /* keeps its arrays off the stack of others */
#else
#define MCB__ALIGNED
#define MCB__APART static inline
#define MCB__INLINE static inline
#define MCB__UNUSED
#endif

/* Keeps a compiler from finding out that an integer is a yes or no and making a jump of it. */
#if defined(__GNUC__)
#define MCB__HIDE(v) __asm__("" : "+r"(v))
#else
#define MCB__HIDE(v) (void)0
#endif

/* ----------------------------------------------------------------------------------------------------------- errors */

/* Status codes, and their texts. */

/* Every reason to refuse a file (1 to 99, in about the order in which they are looked for) or a call (100 and up).
 * X(name, number, message) */
/* clang-format off */
#define MCB_ERRORS(X)                                                                                                  \
    X(MCB_OK, 0, "no error")                                                                                           \
    X(MCB_E_SHORT, 1, "the file is shorter than the 64-byte header of a model file")                                   \
    X(MCB_E_MAGIC, 2, "not a model file: it lacks the .mcb signature; train one with mcboost-train, or copy it as binary") \
    X(MCB_E_MAJOR, 3, "the file has another major version of the format; a newer one needs a newer pymcboost")         \
    X(MCB_E_FLAGS, 4, "the file sets a flag that this reader does not know; it needs a newer pymcboost")               \
    X(MCB_E_FILE_SIZE, 5, "the file's size is not the one in its header: it was cut short, or bytes were added")       \
    X(MCB_E_SECTION_COUNT, 6, "the section count is not between 1 and 64, or the section table does not fit the file") \
    X(MCB_E_HEADER_CRC, 7, "the checksum of the header and the section table is wrong: the file is damaged")           \
    X(MCB_E_HEADER_RESERVED, 8, "reserved bytes of the header are not zero")                                           \
    X(MCB_E_CLASSES, 9, "the number of classes is not between 2 and 65535")                                            \
    X(MCB_E_FEATURES, 10, "the number of features is not between 1 and 2147483647")                                    \
    X(MCB_E_KIND, 11, "the kind of model is unknown to this reader; it needs a newer pymcboost")                       \
    X(MCB_E_LINK, 12, "the link from scores to probabilities is unknown to this reader; it needs a newer pymcboost")   \
    X(MCB_E_DECODER, 13, "the decoder is unknown to this reader for this kind of model; it needs a newer pymcboost")   \
    X(MCB_E_TAG, 14, "a section's tag is not four ASCII letters or digits that begin with a letter")                   \
    X(MCB_E_DTYPE, 15, "a section's type is unknown, or not one allowed for this section")                             \
    X(MCB_E_SECTION_RESERVED, 16, "reserved bytes of a section's table entry are not zero")                            \
    X(MCB_E_ALIGNMENT, 17, "a section does not begin at a multiple of 64 bytes")                                       \
    X(MCB_E_ORDER, 18, "sections overlap or are not in ascending order")                                               \
    X(MCB_E_GAP, 19, "64 or more unused bytes lie between two sections")                                               \
    X(MCB_E_COUNT, 20, "a section reaches beyond the end of the file")                                                 \
    X(MCB_E_PADDING, 21, "the unused bytes between two sections are not zero")                                         \
    X(MCB_E_DUPLICATE, 22, "a section occurs twice")                                                                   \
    X(MCB_E_UNKNOWN, 23, "a section that must be understood is unknown to this reader; it needs a newer pymcboost")    \
    X(MCB_E_MISPLACED, 24, "a section does not belong to this kind of model")                                          \
    X(MCB_E_META_SIZE, 25, "the section meta is larger than 16 MiB")                                                   \
    X(MCB_E_END, 26, "the last section does not end at the end of the file")                                           \
    X(MCB_E_MISSING, 27, "a section that this kind of model needs is missing")                                         \
    X(MCB_E_LABEL_KIND, 28, "the class labels must be either LABI or LABO with LABS")                                  \
    X(MCB_E_SHAPE, 29, "a section has another number of items than the other sections and the header ask for")         \
    X(MCB_E_SECTION_CRC, 30, "the checksum of a section is wrong: the file is damaged")                                \
    X(MCB_E_FEATURE_INDEX, 31, "a feature index is not below the number of features, or indices do not increase")      \
    X(MCB_E_OFFSETS, 32, "the interval offsets do not begin at 0, increase, and end at the threshold count")           \
    X(MCB_E_THRESHOLD, 33, "a threshold is not finite")                                                                \
    X(MCB_E_THRESHOLD_ORDER, 34, "the thresholds of one feature do not increase")                                      \
    X(MCB_E_COEFFICIENT, 35, "a coefficient is not finite")                                                            \
    X(MCB_E_TABLE, 36, "a value of the interval table is not finite")                                                  \
    X(MCB_E_BIAS, 37, "a bias is not finite")                                                                          \
    X(MCB_E_LABEL_OFFSETS, 38, "the label offsets do not begin at 0, rise, and end at the size of LABS")               \
    X(MCB_E_LABEL_TEXT, 39, "a label is longer than 4096 bytes, or holds a zero byte")                                 \
    X(MCB_E_UTF8, 40, "text is not valid UTF-8")                                                                       \
    X(MCB_E_LABEL_ORDER, 41, "the class labels do not increase (they must be sorted and distinct)")                    \
    X(MCB_E_TREE_SIZES, 42, "the trees do not have as many splits together as there are in the file")                  \
    X(MCB_E_RIGHT, 43, "a right child lies outside the part of the tree that belongs to its parent")                   \
    X(MCB_E_TREE_CLASS, 44, "the class of a tree is not below the number of classes")                                  \
    X(MCB_E_TREE_BASE, 45, "the base class of a tree is above the number of classes, or is the tree's own class")      \
    X(MCB_E_BASE_ALONE, 46, "TBAS, the base classes of trees, is there without TCLS, their classes")                   \
    X(MCB_E_LEAF, 47, "the value of a leaf is not finite")                                                             \
    X(MCB_E_ROUNDS, 48, "the rounds do not have as many trees together as there are in the file")                      \
    X(MCB_E_SUPPORT, 49, "a support vector holds a number that is not finite")                                         \
    X(MCB_E_KERNEL, 50, "the kernel is unknown to this reader; it needs a newer pymcboost")                            \
    X(MCB_E_KERNEL_PARAMETER, 51, "a parameter of the kernel is out of range, or not 0 though the kernel has none")    \
    X(MCB_E_SCALE, 52, "an offset or a factor of the feature scaling is not finite")                                   \
    X(MCB_E_CODE_ALONE, 53, "CODE, the code of trees' columns, goes with TCLS, their columns, and without TBAS")       \
    X(MCB_E_CODE, 54, "a number of the code is not finite")                                                            \
    X(MCB_E_CODE_COLUMNS, 55, "the code has no columns, or over 4096 of them and a decoder")                           \
    X(MCB_E_CALIBRATION, 56, "the factor of the calibration is not a finite number above 0, or the link is shares")    \
    X(MCB_E_ABOVE, 60, "a threshold of a label is not finite, or is there without the link sigmoid")                   \
    X(MCB_E_EXIT, 61, "an early exit needs its checkpoints (section exit), and a model without a decoder")             \
    X(MCB_E_CHECKPOINT, 62, "the checkpoints do not increase from 1 learner or more to all but one or fewer")          \
    X(MCB_E_BOUND, 63, "a bound of the certified exit is not a number, or minus infinity")                             \
    X(MCB_E_EXIT_NUMBER, 64, "a rate, a count, the class or a threshold of an early exit is out of range")             \
    X(MCB_E_CATEGORIES, 65, "sections of categories are missing: CSET, COFF, CBIT, CATF, CATN, CATO, CATS go together") \
    X(MCB_E_SET, 66, "a split's set of categories is not there, or the sets do not fill CBIT, up to 8192 bytes each")  \
    X(MCB_E_LEVELS, 67, "a category has no level or over 65535, or its names are too long, not ascending, or too few") \
    X(MCB_E_ENTRIES, 70, "LOFF and LCLS, the entries of leaves, go together, and without TCLS")                        \
    X(MCB_E_ENTRY_OFFSETS, 71, "the entries of the leaves do not begin at 0, rise, and end at the size of LCLS")       \
    X(MCB_E_ENTRY_CLASS, 72, "the class of an entry is not below the number of classes, or those of a leaf do not increase") \
    X(MCB_E_PACK, 75, "PACK has fewer than 32 bytes, or flags that exclude one another, or a number or type out of range") \
    X(MCB_E_PACK_SIZE, 76, "PACK has another size than its tables, trees, splits and leaves take")                     \
    X(MCB_E_PACK_SPLIT, 77, "a packed split asks for a feature or a threshold that the tables do not have")            \
    X(MCB_E_PACK_LEAF, 78, "a packed leaf asks for a value that the table does not have")                              \
    X(MCB_E_SHARED, 79, "LALL needs LOFF, the type of LEAF, no early exits, and multiples of 2^-20 up to 8 (BIAS: 2^20)") \
    X(MCB_E_ARGUMENT, 100, "a pointer is null or a number is out of range")                                            \
    X(MCB_E_TRUNCATE, 101, "this kind of model cannot be cut: it has no stages, or its learners have been merged")     \
    X(MCB_E_NO_LINK, 102, "the model has no link from scores to probabilities")                                       \
    X(MCB_E_EARLY, 103, "the model has no early exit of this kind, or it was truncated")
/* clang-format on */

#define MCB__ENUM(name, number, text) name = number,
enum mcb_status { MCB_ERRORS(MCB__ENUM) MCB__STATUS_END };
#undef MCB__ENUM

/* A sentence for a status; never null. */
MCB_API const char *mcb_strerror(int status) {
    switch (status) {
#define MCB__TEXT(name, number, text)                                                              \
    case name:                                                                                     \
        return text;
        MCB_ERRORS(MCB__TEXT)
#undef MCB__TEXT
    default:
        return "unknown status";
    }
}

/* ------------------------------------------------------------------------------------------------------------ model */

/* A model in memory: its kinds, links and sections. It points into the bytes of the file. */

enum mcb_kind {
    MCB_KIND_STUMPS = 1,
    MCB_KIND_INTERVALS = 2,
    MCB_KIND_TREES = 3,
    MCB_KIND_LINEAR = 5,
    MCB_KIND_KERNEL = 6,
    MCB_KIND_PACKED = 7
};
/* How the scores of a code's columns become those of the classes; without a code, linear. */
enum mcb_decoder { MCB_DECODER_LINEAR = 0, MCB_DECODER_HAMMING = 1, MCB_DECODER_EXP = 2 };
enum mcb_kernel {
    MCB_KERNEL_LINEAR = 0,
    MCB_KERNEL_POLY = 1,
    MCB_KERNEL_RBF = 2,
    MCB_KERNEL_PERCEPTRON = 5
};
/* Sigmoid: a row may have any number of labels, see mcb_labels_above. */
enum mcb_link {
    MCB_LINK_NONE = 0,
    MCB_LINK_SOFTMAX = 1,
    MCB_LINK_SOFTMAX2 = 2,
    MCB_LINK_SIGMOID = 3,
    MCB_LINK_SHARES = 4
};
enum mcb_dtype {
    MCB_U8 = 1,
    MCB_U16 = 2,
    MCB_U32 = 3,
    MCB_I64 = 4,
    MCB_F32 = 5,
    MCB_F64 = 6,
    MCB_F16 = 7
};

/* Sections this reader knows; their place in mcb_model.section. */
enum mcb_slot {
    MCB_S_FEAT, /* feature of a stump or split; the top bit of its type says that NaN goes left */
    MCB_S_THRS, /* thresholds: x <= t goes left */
    MCB_S_COEF, /* values of the right side, n_learners x n_classes */
    MCB_S_COEL, /* values of the left side; absent: minus the right ones */
    MCB_S_BIAS, /* where the scores begin */
    MCB_S_FIDX, /* interval table: features used, increasing */
    MCB_S_IOFF, /* interval table: first threshold of each feature, and the count of all */
    MCB_S_TABL, /* interval table: per feature its intervals from low to high, then the row for NaN */
    MCB_S_LABI, /* integer labels */
    MCB_S_LABO, /* text labels: offsets into LABS */
    MCB_S_LABS, /* text labels: UTF-8 */
    MCB_S_META, /* JSON, not needed to score */
    MCB_S_TSIZ, /* trees: splits of each; a tree of n splits has n + 1 leaves */
    MCB_S_RGHT, /* trees: from a split to its right child; the left one is the next split */
    MCB_S_LEAF, /* trees: values of the leaves from left to right, tree after tree; n_classes of each without TCLS */
    MCB_S_TCLS, /* trees: class whose score takes the leaf's value; with CODE its row, that of a column */
    MCB_S_TBAS, /* trees: class whose score loses the leaf's value, n_classes for none; absent: none has one */
    MCB_S_RNDS, /* trees: how many belong to each round */
    MCB_S_WMAT, /* linear: coefficients, n_classes x n_features */
    MCB_S_SVEC, /* kernel: support vectors, each of n_features numbers */
    MCB_S_DUAL, /* kernel: coefficients, support vectors x n_classes */
    MCB_S_KPAR, /* kernel: which one (enum mcb_kernel), gamma, coef0, degree */
    MCB_S_SCAL, /* kernel: offsets of the features, then factors; absent: rows are taken as they are */
    MCB_S_CODE, /* trees: columns x n_classes; TCLS is then a column, and its row times the leaf goes to the scores */
    MCB_S_CALB, /* f64: the factor of scores on their way to probabilities, 1 / temperature */
    MCB_S_CSET, /* trees: number of the set that a split asks for, from 1 on; 0 where it has a threshold */
    MCB_S_COFF, /* trees: where the sets begin in CBIT */
    MCB_S_CBIT, /* trees: bits of the codes that go left */
    MCB_S_CATF, /* categorical features, increasing; the top bit of the type says that their levels have names */
    MCB_S_CATN, /* how many levels each has */
    MCB_S_CATO, /* where the names of the levels begin in CATS */
    MCB_S_CATS, /* names of the levels: UTF-8, increasing for each feature */
    MCB_S_EXIT, /* learners before each checkpoint, at which the others may be left out */
    MCB_S_PAIR, /* at every other checkpoint to the last: bounds of what the other learners add to class j less class i */
    MCB_S_MARG, /* f64: rate, rows, rows that changed; then for every checkpoint a threshold of the lead */
    MCB_S_RJCT, /* f64: rate, rows, class; then for every checkpoint a threshold of the lead of this class */
    MCB_S_ABOV, /* f64: scores above which a row has the labels, with the link sigmoid; absent: 0 */
    MCB_S_LOFF, /* trees: where the entries of each leaf begin in LEAF and LCLS; absent: leaves have all classes */
    MCB_S_LCLS, /* trees: classes of the entries, increasing in a leaf; the other classes of a leaf get nothing */
    MCB_S_PACK, /* packed trees: tables, and numbers of few bits */
    MCB_S_LALL, /* trees with entries: what each leaf adds to the scores of all classes */
    MCB_S_FCAL, /* f64: the factor of the first learners alone; absent: they have none */
    MCB_N_SLOTS
};

typedef struct {
    const unsigned char *data; /* null when the section is absent */
    uint64_t count;            /* items, not bytes */
    uint32_t dtype;            /* enum mcb_dtype */
} mcb_section;

typedef struct {
    const unsigned char *data;
    uint64_t size;
    uint32_t n_classes, n_features, kind, link, decoder;
    uint32_t format_minor;
    uint64_t
        n_learners; /* stumps or trees in use: all unless mcb_truncate was called; 0 for interval tables */
    uint64_t n_rounds; /* rounds in use that are complete; a stump is a round of its own */
    mcb_section section[MCB_N_SLOTS];
    const void *prepared; /* set by mcb_prepare */
    const void *basis;    /* set by mcb_prepare_early */
    /* Where a refused file is wrong; valid after mcb_open returned an error. */
    int error;
    int error_has_numbers; /* error_found and error_expected mean something */
    char error_tag[5];     /* section, or "" for the header and the table */
    uint64_t error_offset; /* byte of the file */
    uint64_t error_found, error_expected;
} mcb_model;

/* ---------------------------------------------------------------------------------------------- little-endian loads */

/* Reads numbers of the file, which are little-endian and may lie at any address. */

#define MCB__SIGN UINT64_C(0x8000000000000000)

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
static inline uint64_t mcb__bytes(const unsigned char *p, int n) {
    uint64_t v = 0;
    while (n-- > 0) v = v << 8 | p[n];
    return v;
}
static inline uint16_t mcb__u16(const unsigned char *p) {
    return (uint16_t)mcb__bytes(p, 2);
}
static inline uint32_t mcb__u32(const unsigned char *p) {
    return (uint32_t)mcb__bytes(p, 4);
}
static inline uint64_t mcb__u64(const unsigned char *p) {
    return mcb__bytes(p, 8);
}
#else
static inline uint16_t mcb__u16(const unsigned char *p) {
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline uint32_t mcb__u32(const unsigned char *p) {
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline uint64_t mcb__u64(const unsigned char *p) {
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
#endif

static inline float mcb__f32(const unsigned char *p) {
    uint32_t bits = mcb__u32(p);
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* Half precision, exactly: 1 sign bit, 5 of exponent, 10 of mantissa. */
static inline float mcb__f16(const unsigned char *p) {
    uint32_t half = mcb__u16(p), magnitude = half & 0x7fffu,
             bits = (magnitude << 13) + (112u << 23);
    float v;
    memcpy(&v, &bits, sizeof v);
    if (magnitude < 0x400u) v = (float)magnitude * (1.0f / 16777216.0f);
    return half >> 15 ? -v : v;
}

static inline double mcb__f64_of(uint64_t bits) {
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static inline uint64_t mcb__bits_of(double v) {
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

static inline double mcb__f64(const unsigned char *p) {
    return mcb__f64_of(mcb__u64(p));
}

static inline uint32_t mcb__dtype_size(uint32_t dtype) {
    switch (dtype) {
    case MCB_U8:
        return 1;
    case MCB_U16:
    case MCB_F16:
        return 2;
    case MCB_U32:
    case MCB_F32:
        return 4;
    case MCB_I64:
    case MCB_F64:
        return 8;
    default:
        return 0;
    }
}

/* Item of a section of f32 or f16. */
MCB__INLINE double mcb__real(const mcb_section *s, uint64_t i) {
    return (double)(s->dtype == MCB_F16 ? mcb__f16(s->data + 2 * i) : mcb__f32(s->data + 4 * i));
}

/* The first number of a section of f32 or f16 that is not finite; their count if all are. */
static inline uint64_t mcb__not_finite(const mcb_section *s) {
    uint64_t i = 0;
    if (s->dtype == MCB_F16) {
        while (i < s->count && (mcb__u16(s->data + 2 * i) & 0x7c00u) != 0x7c00u) i++;
    } else {
        while (i < s->count && (mcb__u32(s->data + 4 * i) & 0x7f800000u) != 0x7f800000u) i++;
    }
    return i;
}

/* The same as mcb__real where infinities may occur, which mcb__f16 does not know. */
MCB__INLINE double mcb__bound(const mcb_section *s, uint64_t i) {
    uint32_t half = s->dtype == MCB_F16 ? mcb__u16(s->data + 2 * i) : 0;
    if ((half & 0x7c00u) != 0x7c00u) return mcb__real(s, i);
    return mcb__f64_of((uint64_t)(half >> 15) << 63 | UINT64_C(0x7ff0000000000000) |
                       (half & 0x3ffu));
}

/* Item of a section of unsigned integers. */
static inline uint32_t mcb__uint(const mcb_section *s, uint64_t i) {
    if (s->dtype == MCB_U8) return s->data[i];
    if (s->dtype == MCB_U16) return mcb__u16(s->data + 2 * i);
    return mcb__u32(s->data + 4 * i);
}

/* --------------------------------------------------------------------------------------------------------- checksum */

/* CRC-32C of bytes. */

/* Entry [i][v]: what nibble i of 8 bytes, worth v, adds to the checksum. */
static const uint32_t mcb__crc_table[16][16] = {
    {0x00000000u, 0x493c7d27u, 0x9278fa4eu, 0xdb448769u, 0x211d826du, 0x6821ff4au, 0xb3657823u,
     0xfa590504u, 0x423b04dau, 0x0b0779fdu, 0xd043fe94u, 0x997f83b3u, 0x632686b7u, 0x2a1afb90u,
     0xf15e7cf9u, 0xb86201deu},
    {0x00000000u, 0x847609b4u, 0x0d006599u, 0x89766c2du, 0x1a00cb32u, 0x9e76c286u, 0x1700aeabu,
     0x9376a71fu, 0x34019664u, 0xb0779fd0u, 0x3901f3fdu, 0xbd77fa49u, 0x2e015d56u, 0xaa7754e2u,
     0x230138cfu, 0xa777317bu},
    {0x00000000u, 0x68032cc8u, 0xd0065990u, 0xb8057558u, 0xa5e0c5d1u, 0xcde3e919u, 0x75e69c41u,
     0x1de5b089u, 0x4e2dfd53u, 0x262ed19bu, 0x9e2ba4c3u, 0xf628880bu, 0xebcd3882u, 0x83ce144au,
     0x3bcb6112u, 0x53c84ddau},
    {0x00000000u, 0x9c5bfaa6u, 0x3d5b83bdu, 0xa100791bu, 0x7ab7077au, 0xe6ecfddcu, 0x47ec84c7u,
     0xdbb77e61u, 0xf56e0ef4u, 0x6935f452u, 0xc8358d49u, 0x546e77efu, 0x8fd9098eu, 0x1382f328u,
     0xb2828a33u, 0x2ed97095u},
    {0x00000000u, 0xef306b19u, 0xdb8ca0c3u, 0x34bccbdau, 0xb2f53777u, 0x5dc55c6eu, 0x697997b4u,
     0x8649fcadu, 0x6006181fu, 0x8f367306u, 0xbb8ab8dcu, 0x54bad3c5u, 0xd2f32f68u, 0x3dc34471u,
     0x097f8fabu, 0xe64fe4b2u},
    {0x00000000u, 0xc00c303eu, 0x85f4168du, 0x45f826b3u, 0x0e045bebu, 0xce086bd5u, 0x8bf04d66u,
     0x4bfc7d58u, 0x1c08b7d6u, 0xdc0487e8u, 0x99fca15bu, 0x59f09165u, 0x120cec3du, 0xd200dc03u,
     0x97f8fab0u, 0x57f4ca8eu},
    {0x00000000u, 0x38116facu, 0x7022df58u, 0x4833b0f4u, 0xe045beb0u, 0xd854d11cu, 0x906761e8u,
     0xa8760e44u, 0xc5670b91u, 0xfd76643du, 0xb545d4c9u, 0x8d54bb65u, 0x2522b521u, 0x1d33da8du,
     0x55006a79u, 0x6d1105d5u},
    {0x00000000u, 0x8f2261d3u, 0x1ba8b557u, 0x948ad484u, 0x37516aaeu, 0xb8730b7du, 0x2cf9dff9u,
     0xa3dbbe2au, 0x6ea2d55cu, 0xe180b48fu, 0x750a600bu, 0xfa2801d8u, 0x59f3bff2u, 0xd6d1de21u,
     0x425b0aa5u, 0xcd796b76u},
    {0x00000000u, 0xdd45aab8u, 0xbf672381u, 0x62228939u, 0x7b2231f3u, 0xa6679b4bu, 0xc4451272u,
     0x1900b8cau, 0xf64463e6u, 0x2b01c95eu, 0x49234067u, 0x9466eadfu, 0x8d665215u, 0x5023f8adu,
     0x32017194u, 0xef44db2cu},
    {0x00000000u, 0xe964b13du, 0xd725148bu, 0x3e41a5b6u, 0xaba65fe7u, 0x42c2eedau, 0x7c834b6cu,
     0x95e7fa51u, 0x52a0c93fu, 0xbbc47802u, 0x8585ddb4u, 0x6ce16c89u, 0xf90696d8u, 0x106227e5u,
     0x2e238253u, 0xc747336eu},
    {0x00000000u, 0xa541927eu, 0x4f6f520du, 0xea2ec073u, 0x9edea41au, 0x3b9f3664u, 0xd1b1f617u,
     0x74f06469u, 0x38513ec5u, 0x9d10acbbu, 0x773e6cc8u, 0xd27ffeb6u, 0xa68f9adfu, 0x03ce08a1u,
     0xe9e0c8d2u, 0x4ca15aacu},
    {0x00000000u, 0x70a27d8au, 0xe144fb14u, 0x91e6869eu, 0xc76580d9u, 0xb7c7fd53u, 0x26217bcdu,
     0x56830647u, 0x8b277743u, 0xfb850ac9u, 0x6a638c57u, 0x1ac1f1ddu, 0x4c42f79au, 0x3ce08a10u,
     0xad060c8eu, 0xdda47104u},
    {0x00000000u, 0x13a29877u, 0x274530eeu, 0x34e7a899u, 0x4e8a61dcu, 0x5d28f9abu, 0x69cf5132u,
     0x7a6dc945u, 0x9d14c3b8u, 0x8eb65bcfu, 0xba51f356u, 0xa9f36b21u, 0xd39ea264u, 0xc03c3a13u,
     0xf4db928au, 0xe7790afdu},
    {0x00000000u, 0x3fc5f181u, 0x7f8be302u, 0x404e1283u, 0xff17c604u, 0xc0d23785u, 0x809c2506u,
     0xbf59d487u, 0xfbc3faf9u, 0xc4060b78u, 0x844819fbu, 0xbb8de87au, 0x04d43cfdu, 0x3b11cd7cu,
     0x7b5fdfffu, 0x449a2e7eu},
    {0x00000000u, 0xf26b8303u, 0xe13b70f7u, 0x1350f3f4u, 0xc79a971fu, 0x35f1141cu, 0x26a1e7e8u,
     0xd4ca64ebu, 0x8ad958cfu, 0x78b2dbccu, 0x6be22838u, 0x9989ab3bu, 0x4d43cfd0u, 0xbf284cd3u,
     0xac78bf27u, 0x5e133c24u},
    {0x00000000u, 0x105ec76fu, 0x20bd8edeu, 0x30e349b1u, 0x417b1dbcu, 0x5125dad3u, 0x61c69362u,
     0x7198540du, 0x82f63b78u, 0x92a8fc17u, 0xa24bb5a6u, 0xb21572c9u, 0xc38d26c4u, 0xd3d3e1abu,
     0xe330a81au, 0xf36e6f75u},
};

#if defined(MCB_SIMD) && defined(__x86_64__) && defined(__GNUC__)
#define MCB__CRC 1
/* To clang the instruction is a feature of its own, which a target may lack though it has SSE 4.2; to gcc and older clang
 * it is a part of SSE 4.2, and they may not know the name. */
#if defined(__clang__) && __clang_major__ >= 14
#define MCB__CRC_TARGET __attribute__((target("sse4.2,crc32")))
#else
#define MCB__CRC_TARGET __attribute__((target("sse4.2")))
#endif
/* The state after n more words of 8 bytes, by the machine's own instruction. */
MCB__UNUSED static MCB__CRC_TARGET uint32_t mcb__crc_words(uint32_t crc, const unsigned char *p,
                                                           size_t n) {
    uint64_t state = crc, word;
    for (; n > 0; n--, p += 8) {
        memcpy(&word, p, sizeof word);
        state = __builtin_ia32_crc32di(state, word);
    }
    return (uint32_t)state;
}
#else
#define MCB__CRC 0
#endif

/* CRC-32C (Castagnoli) of n bytes, continued from crc (0 to begin). */
MCB_API uint32_t mcb_crc32c(uint32_t crc, const void *bytes, size_t n) {
    const unsigned char *p = (const unsigned char *)bytes;
    crc = ~crc;
#if MCB__CRC
    if (n >= 64 && __builtin_cpu_supports("sse4.2")) {
        crc = mcb__crc_words(crc, p, n / 8);
        p += n / 8 * 8;
        n %= 8;
    }
#endif
    for (; n >= 8; n -= 8, p += 8) {
        uint32_t a = mcb__u32(p) ^ crc, b = mcb__u32(p + 4), next = 0;
        int i;
        for (i = 0; i < 8; i++) {
            next ^= mcb__crc_table[i][a >> (4 * i) & 15] ^ mcb__crc_table[i + 8][b >> (4 * i) & 15];
        }
        crc = next;
    }
    for (; n > 0; n--, p++) {
        /* One byte is the last two nibbles of an 8-byte step whose other bytes are zero. */
        uint32_t low = (crc ^ *p) & 255;
        crc = crc >> 8 ^ mcb__crc_table[14][low & 15] ^ mcb__crc_table[15][low >> 4];
    }
    return ~crc;
}

/* --------------------------------------------------------------------------------------------- validation: sections */

/* Which sections each kind of model has, and how a refusal is reported. */

static inline int mcb__fail(mcb_model *m, int status, const unsigned char *tag, uint64_t offset) {
    uint64_t found = m->error_found, expected = m->error_expected;
    int numbers = m->error_has_numbers;
    memset(m, 0, sizeof *m);
    m->error = status;
    m->error_offset = offset;
    m->error_found = found;
    m->error_expected = expected;
    m->error_has_numbers = numbers;
    if (tag) {
        int i;
        for (i = 0; i < 4; i++)
            m->error_tag[i] = (char)(tag[i] >= 33 && tag[i] < 127 ? tag[i] : '?');
    }
    return status;
}

static inline int mcb__fail_numbers(mcb_model *m, int status, const unsigned char *tag,
                                    uint64_t offset, uint64_t found, uint64_t expected) {
    m->error_has_numbers = 1;
    m->error_found = found;
    m->error_expected = expected;
    return mcb__fail(m, status, tag, offset);
}

/* One row per section: allowed types (bit 1 << dtype), kinds that need it and kinds that may have it (bit 1 << kind).
 * A new kind of model is a column of bits here, its shapes in mcb__check_shapes and its contents in
 * mcb__check_contents. */
typedef struct {
    unsigned char tag[5];
    uint32_t dtypes, needed, allowed;
} mcb__rule;

#define MCB__UINTS (1u << MCB_U8 | 1u << MCB_U16 | 1u << MCB_U32)
#define MCB__STUMPS (1u << MCB_KIND_STUMPS)
#define MCB__INTERVALS (1u << MCB_KIND_INTERVALS)
#define MCB__TREES (1u << MCB_KIND_TREES)
#define MCB__LINEAR (1u << MCB_KIND_LINEAR)
#define MCB__KERNEL (1u << MCB_KIND_KERNEL)
#define MCB__PACKED (1u << MCB_KIND_PACKED)
#define MCB__KINDS                                                                                 \
    (MCB__STUMPS | MCB__INTERVALS | MCB__TREES | MCB__LINEAR | MCB__KERNEL | MCB__PACKED)

static const mcb__rule mcb__rules[MCB_N_SLOTS] = {
    {"FEAT", MCB__UINTS, MCB__STUMPS | MCB__TREES, MCB__STUMPS | MCB__TREES},
    {"THRS", 1u << MCB_F32, MCB__STUMPS | MCB__INTERVALS | MCB__TREES,
     MCB__STUMPS | MCB__INTERVALS | MCB__TREES},
    {"COEF", 1u << MCB_F32, MCB__STUMPS, MCB__STUMPS},
    {"COEL", 1u << MCB_F32, 0, MCB__STUMPS},
    {"BIAS", 1u << MCB_F32, MCB__KINDS, MCB__KINDS},
    {"FIDX", MCB__UINTS, MCB__INTERVALS, MCB__INTERVALS},
    {"IOFF", MCB__UINTS, MCB__INTERVALS, MCB__INTERVALS},
    {"TABL", 1u << MCB_F32, MCB__INTERVALS, MCB__INTERVALS},
    {"LABI", 1u << MCB_I64, 0, MCB__KINDS},
    {"LABO", MCB__UINTS, 0, MCB__KINDS},
    {"LABS", 1u << MCB_U8, 0, MCB__KINDS},
    {"meta", 1u << MCB_U8, 0, MCB__KINDS},
    {"TSIZ", MCB__UINTS, MCB__TREES, MCB__TREES},
    {"RGHT", MCB__UINTS, MCB__TREES, MCB__TREES},
    {"LEAF", 1u << MCB_F32 | 1u << MCB_F16, MCB__TREES, MCB__TREES},
    {"TCLS", MCB__UINTS, 0, MCB__TREES},
    {"TBAS", MCB__UINTS, 0, MCB__TREES},
    {"RNDS", MCB__UINTS, MCB__TREES, MCB__TREES | MCB__PACKED},
    {"WMAT", 1u << MCB_F32, MCB__LINEAR, MCB__LINEAR},
    {"SVEC", 1u << MCB_F32, MCB__KERNEL, MCB__KERNEL},
    {"DUAL", 1u << MCB_F32, MCB__KERNEL, MCB__KERNEL},
    {"KPAR", 1u << MCB_F32, MCB__KERNEL, MCB__KERNEL},
    {"SCAL", 1u << MCB_F32, 0, MCB__KERNEL},
    {"CODE", 1u << MCB_F32, 0, MCB__TREES},
    {"CALB", 1u << MCB_F64, 0, MCB__KINDS},
    {"CSET", MCB__UINTS, 0, MCB__TREES},
    {"COFF", MCB__UINTS, 0, MCB__TREES},
    {"CBIT", 1u << MCB_U8, 0, MCB__TREES},
    {"CATF", MCB__UINTS, 0, MCB__TREES},
    {"CATN", MCB__UINTS, 0, MCB__TREES},
    {"CATO", MCB__UINTS, 0, MCB__TREES},
    {"CATS", 1u << MCB_U8, 0, MCB__TREES},
    {"exit", MCB__UINTS, 0, MCB__STUMPS | MCB__TREES},
    {"pair", 1u << MCB_F32 | 1u << MCB_F16, 0, MCB__STUMPS | MCB__TREES},
    {"marg", 1u << MCB_F64, 0, MCB__STUMPS | MCB__TREES},
    {"rjct", 1u << MCB_F64, 0, MCB__STUMPS | MCB__TREES},
    {"ABOV", 1u << MCB_F64, 0, MCB__KINDS},
    {"LOFF", MCB__UINTS, 0, MCB__TREES},
    {"LCLS", MCB__UINTS, 0, MCB__TREES},
    {"PACK", 1u << MCB_U8, MCB__PACKED, MCB__PACKED},
    {"LALL", 1u << MCB_F32 | 1u << MCB_F16, 0, MCB__TREES},
    {"calb", 1u << MCB_F64, 0, MCB__KINDS},
};

static inline int mcb__wrong_item(mcb_model *m, int status, int slot, uint64_t item) {
    const mcb_section *s = &m->section[slot];
    return mcb__fail(m, status, mcb__rules[slot].tag,
                     (uint64_t)(s->data - m->data) + item * mcb__dtype_size(s->dtype));
}

/* ----------------------------------------------------------------------------------------------------- packed trees */

/* Reads and checks packed trees, whose numbers have few bits each. */

/* What the section PACK holds: 32 bytes, tables of features, thresholds and values of leaves, then numbers of few bits. */
typedef struct {
    uint64_t n_trees, n_splits, n_features, n_thresholds, n_values, least,
        columns; /* columns: numbers of a leaf */
    uint32_t flags, size_bits, feature_bits, threshold_bits, right_bits, leaf_bits, class_bits,
        split_bits;
    mcb_section feature, first, threshold,
        value; /* first: where the thresholds of each feature begin, and the count */
    const unsigned char *size, *cls, *split, *leaf;
} mcb__pack;

enum { MCB__PACK_CLASSES = 1, MCB__PACK_MISSING = 2, MCB__PACK_HALF = 4, MCB__PACK_LEAF_HALF = 8 };
/* Number of `width` bits, at most 32, that begins at a bit. The lowest bit comes first. */
MCB__INLINE uint32_t mcb__bits(const unsigned char *p, uint64_t bit, uint32_t width) {
    uint32_t shift = (uint32_t)(bit & 7), n;
    uint64_t v = 0;
    p += bit >> 3;
    for (n = 0; n < shift + width; n += 8) v |= (uint64_t)*p++ << n;
    return (uint32_t)(v >> shift & ((UINT64_C(1) << width) - 1));
}

/* Numbers of few bits begin at *at of PACK, which moves behind them. */
static inline const unsigned char *mcb__pack_part(const mcb_section *pack, uint64_t *at,
                                                  uint64_t count, uint32_t width) {
    const unsigned char *begin = pack->data + (*at < pack->count ? (size_t)*at : 0);
    *at += (count * width + 7) / 8;
    return begin;
}

/* The same of a table of numbers. */
static inline mcb_section mcb__pack_table(const mcb_section *pack, uint64_t *at, uint64_t count,
                                          uint32_t dtype) {
    mcb_section s;
    s.data = mcb__pack_part(pack, at, count, 8 * mcb__dtype_size(dtype));
    s.count = count;
    s.dtype = dtype;
    return s;
}

/* Find the parts of PACK, which has 32 bytes or more. Returns the bytes that they take. */
static inline uint64_t mcb__pack_of(const mcb_model *m, mcb__pack *p) {
    const mcb_section *s = &m->section[MCB_S_PACK];
    const unsigned char *h = s->data;
    uint64_t at = 32;
    p->n_trees = mcb__u32(h);
    p->n_splits = mcb__u32(h + 4);
    p->n_thresholds = mcb__u32(h + 8);
    p->n_features = mcb__u32(h + 12);
    p->least = mcb__u32(h + 16);
    p->n_values = mcb__u16(h + 20);
    p->flags = h[22];
    p->size_bits = h[23];
    p->feature_bits = h[24];
    p->threshold_bits = h[25];
    p->right_bits = h[26];
    p->leaf_bits = h[27];
    p->class_bits = p->flags & MCB__PACK_CLASSES ? h[28] : 0;
    p->split_bits = p->feature_bits + p->threshold_bits + p->right_bits +
                    (p->flags & MCB__PACK_MISSING ? 1 : 0);
    p->columns = p->flags & MCB__PACK_CLASSES ? 1 : m->n_classes;
    p->feature = mcb__pack_table(s, &at, p->n_features, h[29]);
    p->first = mcb__pack_table(s, &at, p->n_features + 1, h[30]);
    p->threshold =
        mcb__pack_table(s, &at, p->n_thresholds, p->flags & MCB__PACK_HALF ? MCB_F16 : MCB_F32);
    p->value =
        mcb__pack_table(s, &at, p->n_values, p->flags & MCB__PACK_LEAF_HALF ? MCB_F16 : MCB_F32);
    p->size = mcb__pack_part(s, &at, p->n_trees, p->size_bits);
    p->cls = mcb__pack_part(s, &at, p->n_trees, p->class_bits);
    p->split = mcb__pack_part(s, &at, p->n_splits, p->split_bits);
    p->leaf = mcb__pack_part(s, &at, (p->n_splits + p->n_trees) * p->columns, p->leaf_bits);
    return at;
}

MCB__INLINE uint64_t mcb__pack_size(const mcb__pack *p, uint64_t tree) {
    return p->least + mcb__bits(p->size, tree * p->size_bits, p->size_bits);
}

/* From a split to its right child. */
MCB__INLINE uint64_t mcb__pack_right(const mcb__pack *p, uint64_t split) {
    uint64_t bit = split * p->split_bits + p->feature_bits + p->threshold_bits;
    return 1 + (uint64_t)mcb__bits(p->split, bit, p->right_bits);
}

/* Learners of the whole file. */
static inline uint64_t mcb__all_learners(const mcb_model *m) {
    if (m->kind == MCB_KIND_PACKED) return mcb__u32(m->section[MCB_S_PACK].data);
    return m->section[m->kind == MCB_KIND_TREES ? MCB_S_TSIZ : MCB_S_FEAT].count;
}

/* --------------------------------------------------------------------------------------- validation: packed trees */

/* The parts fill PACK. A leaf takes a bit or more, so that the numbers of trees and splits are in proportion to the file. */
static inline int mcb__check_pack_shape(mcb_model *m) {
    const mcb_section *s = &m->section[MCB_S_PACK];
    const unsigned char *h = s->data;
    uint64_t end;
    mcb__pack p;
    int i;
    if (s->count < 32)
        return mcb__fail_numbers(m, MCB_E_PACK, mcb__rules[MCB_S_PACK].tag, (uint64_t)(h - m->data),
                                 s->count, 32);
    if (h[22] > 15) return mcb__wrong_item(m, MCB_E_PACK, MCB_S_PACK, 22);
    if (h[31]) return mcb__wrong_item(m, MCB_E_PACK, MCB_S_PACK, 31);
    end = mcb__pack_of(m, &p);
    for (i = 23; i < 29; i++) {
        if (h[i] > 32 || (i == 27 && (h[i] < 1 || h[i] > 8)) ||
            (i == 28 && !(h[22] & MCB__PACK_CLASSES) && h[i]))
            return mcb__wrong_item(m, MCB_E_PACK, MCB_S_PACK, (uint64_t)i);
    }
    for (i = 29; i < 31; i++) {
        if (h[i] < MCB_U8 || h[i] > MCB_U32)
            return mcb__wrong_item(m, MCB_E_PACK, MCB_S_PACK, (uint64_t)i);
    }
    if (end != s->count)
        return mcb__fail_numbers(m, MCB_E_PACK_SIZE, mcb__rules[MCB_S_PACK].tag,
                                 (uint64_t)(h - m->data), s->count, end);
    m->n_learners = p.n_trees;
    m->n_rounds = m->section[MCB_S_RNDS].data ? m->section[MCB_S_RNDS].count : p.n_trees;
    return MCB_OK;
}

static inline int mcb__pack_wrong(mcb_model *m, int status, const unsigned char *at) {
    return mcb__wrong_item(m, status, MCB_S_PACK, (uint64_t)(at - m->section[MCB_S_PACK].data));
}

/* Features increase and are below d, each has a threshold or more, and all numbers are finite. */
static inline int mcb__check_pack_tables(mcb_model *m, const mcb__pack *p) {
    uint64_t i;
    for (i = 0; i < p->n_features; i++) {
        uint32_t f = mcb__uint(&p->feature, i);
        if (f >= m->n_features || (i > 0 && f <= mcb__uint(&p->feature, i - 1)))
            return mcb__pack_wrong(m, MCB_E_FEATURE_INDEX,
                                   p->feature.data + i * mcb__dtype_size(p->feature.dtype));
    }
    for (i = 0; i <= p->n_features; i++) {
        uint32_t first = mcb__uint(&p->first, i);
        if (i == 0 ? first != 0 : first <= mcb__uint(&p->first, i - 1) || first > p->n_thresholds)
            return mcb__pack_wrong(m, MCB_E_OFFSETS,
                                   p->first.data + i * mcb__dtype_size(p->first.dtype));
    }
    if (mcb__uint(&p->first, p->n_features) != p->n_thresholds)
        return mcb__pack_wrong(m, MCB_E_OFFSETS, p->threshold.data);
    i = mcb__not_finite(&p->threshold);
    if (i < p->n_thresholds)
        return mcb__pack_wrong(m, MCB_E_THRESHOLD,
                               p->threshold.data + i * mcb__dtype_size(p->threshold.dtype));
    i = mcb__not_finite(&p->value);
    if (i < p->n_values)
        return mcb__pack_wrong(m, MCB_E_LEAF, p->value.data + i * mcb__dtype_size(p->value.dtype));
    return MCB_OK;
}

/* A split has a threshold, and it is one of its feature. */
static inline int mcb__pack_split_is_good(const mcb__pack *p, uint64_t split) {
    uint64_t bit = split * p->split_bits;
    uint32_t f = mcb__bits(p->split, bit, p->feature_bits);
    uint32_t c = mcb__bits(p->split, bit + p->feature_bits, p->threshold_bits);
    return f < p->n_features && c < mcb__uint(&p->first, (uint64_t)f + 1) - mcb__uint(&p->first, f);
}

/* The splits from `begin` to `end` are one tree; as mcb__check_tree. */
static inline int mcb__check_pack_tree(mcb_model *m, const mcb__pack *p, uint64_t begin,
                                       uint64_t end) {
    uint64_t i = end, k, stop;
    while (i-- > begin) {
        if (!mcb__pack_split_is_good(p, i))
            return mcb__pack_wrong(m, MCB_E_PACK_SPLIT, p->split + i * p->split_bits / 8);
    }
    for (i = end; i-- > begin;) {
        uint64_t r = mcb__pack_right(p, i);
        stop = i + r;
        for (k = i + 1; r <= end - i && k < stop;) k += mcb__pack_right(p, k);
        if (r > end - i || k != stop)
            return mcb__pack_wrong(m, MCB_E_RIGHT, p->split + i * p->split_bits / 8);
    }
    return MCB_OK;
}

/* Numbers of leaves are in the table. */
static inline int mcb__check_pack_leaves(mcb_model *m, const mcb__pack *p) {
    uint64_t i, count = (p->n_splits + p->n_trees) * p->columns;
    for (i = 0; i < count; i++) {
        if (mcb__bits(p->leaf, i * p->leaf_bits, p->leaf_bits) >= p->n_values)
            return mcb__pack_wrong(m, MCB_E_PACK_LEAF, p->leaf + i * p->leaf_bits / 8);
    }
    return MCB_OK;
}

static inline int mcb__check_pack(mcb_model *m) {
    mcb__pack p;
    uint64_t i, begin = 0;
    int status;
    mcb__pack_of(m, &p);
    if ((status = mcb__check_pack_tables(m, &p))) return status;
    for (i = 0; i < p.n_trees; i++) {
        uint64_t size = mcb__pack_size(&p, i);
        if (size > p.n_splits - begin)
            return mcb__pack_wrong(m, MCB_E_TREE_SIZES, p.size + i * p.size_bits / 8);
        begin += size;
    }
    if (begin != p.n_splits) return mcb__pack_wrong(m, MCB_E_TREE_SIZES, p.size);
    for (i = begin = 0; i < p.n_trees; i++) {
        uint64_t size = mcb__pack_size(&p, i);
        if ((status = mcb__check_pack_tree(m, &p, begin, begin + size))) return status;
        begin += size;
        if (mcb__bits(p.cls, i * p.class_bits, p.class_bits) >= m->n_classes)
            return mcb__pack_wrong(m, MCB_E_TREE_CLASS, p.cls + i * p.class_bits / 8);
    }
    return mcb__check_pack_leaves(m, &p);
}

/* ------------------------------------------------------------------------------------- validation: numbers of items */

/* Checks how many items each section has. */

static inline int mcb__need_count(mcb_model *m, int slot, uint64_t count) {
    const mcb_section *s = &m->section[slot];
    if (s->count == count) return MCB_OK;
    return mcb__fail_numbers(m, MCB_E_SHAPE, mcb__rules[slot].tag, (uint64_t)(s->data - m->data),
                             s->count, count);
}

/* count == a * b without forming the product. */
static inline int mcb__need_product(mcb_model *m, int slot, uint64_t a, uint64_t b) {
    const mcb_section *s = &m->section[slot];
    if (s->count % b == 0 && s->count / b == a) return MCB_OK;
    return mcb__fail_numbers(m, MCB_E_SHAPE, mcb__rules[slot].tag, (uint64_t)(s->data - m->data),
                             s->count, a > UINT64_MAX / b ? UINT64_MAX : a * b);
}

static inline int mcb__check_category_shapes(mcb_model *m, uint64_t S) {
    const mcb_section *s = m->section;
    int slot, status;
    for (slot = MCB_S_CSET; slot <= MCB_S_CATS; slot++) {
        if (!s[slot].data != !s[MCB_S_CSET].data)
            return mcb__fail(m, MCB_E_CATEGORIES, mcb__rules[slot].tag, 64);
    }
    if (!s[MCB_S_CSET].data) return MCB_OK;
    if ((status = mcb__need_count(m, MCB_S_CSET, S))) return status;
    return mcb__need_count(m, MCB_S_CATN, s[MCB_S_CATF].count);
}

/* Sections of the early exit: a threshold for every checkpoint, bounds of all pairs for every other one. */
static inline int mcb__check_exit_shapes(mcb_model *m) {
    const mcb_section *s = m->section;
    uint64_t n = s[MCB_S_EXIT].count, pairs = (uint64_t)m->n_classes * (m->n_classes - 1), bounds;
    int slot, status;
    for (slot = MCB_S_EXIT; slot <= MCB_S_RJCT; slot++) {
        if (s[slot].data && (m->decoder || !s[MCB_S_EXIT].data))
            return mcb__fail(m, MCB_E_EXIT, mcb__rules[slot].tag, 64);
    }
    bounds = s[MCB_S_PAIR].count / pairs;
    if ((status =
             mcb__need_product(m, MCB_S_PAIR, bounds <= (n + 1) / 2 ? bounds : (n + 1) / 2, pairs)))
        return status;
    for (slot = MCB_S_MARG; slot <= MCB_S_RJCT; slot++) {
        if (s[slot].data && (status = mcb__need_count(m, slot, n + 3))) return status;
    }
    return MCB_OK;
}

static inline int mcb__check_shapes(mcb_model *m) {
    uint64_t K = m->n_classes;
    const mcb_section *s = m->section;
    int status = mcb__need_count(m, MCB_S_BIAS, K);
    if (status) return status;
    if (m->kind == MCB_KIND_STUMPS) {
        uint64_t M = s[MCB_S_FEAT].count;
        if ((status = mcb__need_count(m, MCB_S_THRS, M))) return status;
        if ((status = mcb__need_product(m, MCB_S_COEF, M, K))) return status;
        if (s[MCB_S_COEL].data && (status = mcb__need_product(m, MCB_S_COEL, M, K))) return status;
        m->n_learners = m->n_rounds = M;
    } else if (m->kind == MCB_KIND_TREES) {
        uint64_t S = s[MCB_S_FEAT].count, T = s[MCB_S_TSIZ].count, P = s[MCB_S_CODE].count / K;
        if ((status = mcb__need_count(m, MCB_S_THRS, S))) return status;
        if ((status = mcb__need_count(m, MCB_S_RGHT, S))) return status;
        if (s[MCB_S_TBAS].data && !s[MCB_S_TCLS].data)
            return mcb__fail(m, MCB_E_BASE_ALONE, mcb__rules[MCB_S_TBAS].tag, 64);
        if (s[MCB_S_CODE].data && (!s[MCB_S_TCLS].data || s[MCB_S_TBAS].data))
            return mcb__fail(m, MCB_E_CODE_ALONE, mcb__rules[MCB_S_CODE].tag, 64);
        if (m->decoder && !s[MCB_S_CODE].data)
            return mcb__fail(m, MCB_E_DECODER, mcb__rules[MCB_S_CODE].tag, 48);
        if (s[MCB_S_CODE].data && (P == 0 || (m->decoder && P > MCB_MAX_COLUMNS)))
            return mcb__fail_numbers(m, MCB_E_CODE_COLUMNS, mcb__rules[MCB_S_CODE].tag,
                                     (uint64_t)(s[MCB_S_CODE].data - m->data), P,
                                     P ? MCB_MAX_COLUMNS : 1);
        if ((status = mcb__need_product(m, MCB_S_CODE, P, K))) return status;
        if (s[MCB_S_TCLS].data && (status = mcb__need_count(m, MCB_S_TCLS, T))) return status;
        if (s[MCB_S_TBAS].data && (status = mcb__need_count(m, MCB_S_TBAS, T))) return status;
        if ((status = mcb__check_category_shapes(m, S))) return status;
        if (!s[MCB_S_LOFF].data != !s[MCB_S_LCLS].data ||
            (s[MCB_S_LOFF].data && s[MCB_S_TCLS].data))
            return mcb__fail(m, MCB_E_ENTRIES,
                             mcb__rules[s[MCB_S_LOFF].data ? MCB_S_LOFF : MCB_S_LCLS].tag, 64);
        if (s[MCB_S_LOFF].data) {
            if ((status = mcb__need_count(m, MCB_S_LOFF, S + T + 1))) return status;
            if ((status = mcb__need_count(m, MCB_S_LCLS, s[MCB_S_LEAF].count))) return status;
        } else if ((status = mcb__need_product(m, MCB_S_LEAF, S + T, s[MCB_S_TCLS].data ? 1 : K))) {
            return status;
        }
        if (s[MCB_S_LALL].data) {
            if (!s[MCB_S_LOFF].data || s[MCB_S_LALL].dtype != s[MCB_S_LEAF].dtype ||
                s[MCB_S_EXIT].data)
                return mcb__fail(m, MCB_E_SHARED, mcb__rules[MCB_S_LALL].tag, 64);
            if ((status = mcb__need_count(m, MCB_S_LALL, S + T))) return status;
        }
        m->n_learners = T;
        m->n_rounds = s[MCB_S_RNDS].count;
    } else if (m->kind == MCB_KIND_PACKED) {
        if ((status = mcb__check_pack_shape(m))) return status;
    } else if (m->kind == MCB_KIND_LINEAR) {
        if ((status = mcb__need_product(m, MCB_S_WMAT, K, m->n_features))) return status;
    } else if (m->kind == MCB_KIND_KERNEL) {
        uint64_t n = s[MCB_S_DUAL].count / K;
        if ((status = mcb__need_count(m, MCB_S_KPAR, 4))) return status;
        if ((status = mcb__need_product(m, MCB_S_DUAL, n, K))) return status;
        if ((status = mcb__need_product(m, MCB_S_SVEC, n, m->n_features))) return status;
        if (s[MCB_S_SCAL].data && (status = mcb__need_product(m, MCB_S_SCAL, 2, m->n_features)))
            return status;
    } else {
        uint64_t used = s[MCB_S_FIDX].count;
        if ((status = mcb__need_count(m, MCB_S_IOFF, used + 1))) return status;
        if ((status = mcb__need_product(m, MCB_S_TABL, s[MCB_S_THRS].count + 2 * used, K)))
            return status;
    }
    if (s[MCB_S_CALB].data && (status = mcb__need_count(m, MCB_S_CALB, 1))) return status;
    if (s[MCB_S_FCAL].data && (status = mcb__need_count(m, MCB_S_FCAL, 1))) return status;
    if ((status = mcb__check_exit_shapes(m))) return status;
    if (s[MCB_S_ABOV].data && (status = mcb__need_count(m, MCB_S_ABOV, K))) return status;
    if (s[MCB_S_LABI].data) return mcb__need_count(m, MCB_S_LABI, K);
    return mcb__need_count(m, MCB_S_LABO, K + 1);
}

/* -------------------------------------------------------------------------------------- validation: labels and text */

/* Checks that labels and names are valid UTF-8. */

/* Bytes of the valid UTF-8 character at p, or 0. Refuses overlong forms, surrogates and anything above U+10FFFF. */
static inline int mcb__utf8(const unsigned char *p, uint64_t left) {
    uint32_t c = p[0], n, i, value;
    if (c < 0x80) return 1;
    if (c < 0xc2 || c > 0xf4) return 0;
    n = c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    if (left < n) return 0;
    value = c & (0xffu >> (n + 1));
    for (i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80) return 0;
        value = value << 6 | (p[i] & 0x3fu);
    }
    if ((n == 3 && value < 0x800) || (n == 4 && value < 0x10000) || value > 0x10ffff) return 0;
    return value >= 0xd800 && value < 0xe000 ? 0 : (int)n;
}

static inline int mcb__check_text(mcb_model *m, int slot, uint64_t begin, uint64_t end) {
    const mcb_section *s = &m->section[slot];
    while (begin < end) {
        int n = mcb__utf8(s->data + begin, end - begin);
        if (n == 0) return mcb__wrong_item(m, MCB_E_UTF8, slot, begin);
        begin += (uint64_t)n;
    }
    return MCB_OK;
}

static inline int mcb__check_labels(mcb_model *m) {
    const mcb_section *ints = &m->section[MCB_S_LABI], *offsets = &m->section[MCB_S_LABO];
    const mcb_section *text = &m->section[MCB_S_LABS];
    uint64_t i, before = 0, begin = 0;
    int status;
    if (ints->data) {
        for (i = 1; i < ints->count; i++) {
            if ((int64_t)mcb__u64(ints->data + 8 * i - 8) >= (int64_t)mcb__u64(ints->data + 8 * i))
                return mcb__wrong_item(m, MCB_E_LABEL_ORDER, MCB_S_LABI, i);
        }
        return MCB_OK;
    }
    for (i = 0; i < offsets->count; i++) {
        uint64_t end = mcb__uint(offsets, i);
        if ((i == 0 && end != 0) || end < begin || end > text->count ||
            (i + 1 == offsets->count && end != text->count))
            return mcb__wrong_item(m, MCB_E_LABEL_OFFSETS, MCB_S_LABO, i);
        if (end - begin > MCB_MAX_LABEL)
            return mcb__wrong_item(m, MCB_E_LABEL_TEXT, MCB_S_LABS, begin);
        if ((status = mcb__check_text(m, MCB_S_LABS, begin, end))) return status;
        {
            uint64_t j;
            for (j = begin; j < end; j++) {
                if (text->data[j] == 0) return mcb__wrong_item(m, MCB_E_LABEL_TEXT, MCB_S_LABS, j);
            }
        }
        if (i >= 2) {
            /* UTF-8 sorts by bytes as it does by characters. */
            uint64_t a = begin - before, b = end - begin;
            int order = memcmp(text->data + before, text->data + begin, (size_t)(a < b ? a : b));
            if (order > 0 || (order == 0 && a >= b))
                return mcb__wrong_item(m, MCB_E_LABEL_ORDER, MCB_S_LABS, begin);
        }
        before = begin;
        begin = end;
    }
    return MCB_OK;
}

/* --------------------------------------------------------------------------------------------- validation: contents */

/* Checks the numbers in the sections: whatever could make scoring unsafe is refused. */

static inline int mcb__finite(mcb_model *m, int slot, int status) {
    uint64_t i = mcb__not_finite(&m->section[slot]);
    return i < m->section[slot].count ? mcb__wrong_item(m, status, slot, i) : MCB_OK;
}

/* Features below d, without the top bit, which says where NaN goes. */
static inline int mcb__check_features(mcb_model *m) {
    const mcb_section *s = &m->section[MCB_S_FEAT];
    uint32_t low = s->dtype == MCB_U8 ? 0x7fu : s->dtype == MCB_U16 ? 0x7fffu : 0x7fffffffu;
    uint64_t i;
    for (i = 0; i < s->count; i++) {
        if ((mcb__uint(s, i) & low) >= m->n_features)
            return mcb__wrong_item(m, MCB_E_FEATURE_INDEX, MCB_S_FEAT, i);
    }
    return MCB_OK;
}

/* The numbers of a section add up to total. */
static inline int mcb__check_sum(mcb_model *m, int slot, uint64_t total, int status) {
    const mcb_section *s = &m->section[slot];
    uint64_t i, left = total;
    for (i = 0; i < s->count; i++) {
        uint64_t n = mcb__uint(s, i);
        if (n > left) return mcb__wrong_item(m, status, slot, i);
        left -= n;
    }
    return left ? mcb__wrong_item(m, status, slot, s->count) : MCB_OK;
}

/* The splits from `begin` to `end` are one tree in preorder: the part [i + 1, i + RGHT[i]) of a split's left side is
 * made of whole subtrees. Seen from the last split to the first, such a part is crossed by jumping along the right
 * children in it; no split is met twice, so the time is linear, and there is no stack. */
static inline int mcb__check_tree(mcb_model *m, uint64_t begin, uint64_t end) {
    const mcb_section *right = &m->section[MCB_S_RGHT];
    uint64_t i = end, k, stop;
    while (i-- > begin) {
        uint64_t r = mcb__uint(right, i);
        if (r < 1 || r > end - i) return mcb__wrong_item(m, MCB_E_RIGHT, MCB_S_RGHT, i);
        stop = i + r;
        for (k = i + 1; k < stop;) k += mcb__uint(right, k);
        if (k != stop) return mcb__wrong_item(m, MCB_E_RIGHT, MCB_S_RGHT, i);
    }
    return MCB_OK;
}

/* Sets of codes, and the splits that ask for them. */
static inline int mcb__check_sets(mcb_model *m) {
    const mcb_section *s = m->section, *offset = &s[MCB_S_COFF];
    uint64_t i, begin = 0;
    for (i = 0; i < offset->count; i++) {
        uint64_t end = mcb__uint(offset, i);
        if (i == 0 ? end != 0
                   : end <= begin || end - begin > (MCB_MAX_LEVELS + 1) / 8 ||
                         end > s[MCB_S_CBIT].count)
            return mcb__wrong_item(m, MCB_E_SET, MCB_S_COFF, i);
        begin = end;
    }
    if (!offset->count || begin != s[MCB_S_CBIT].count)
        return mcb__wrong_item(m, MCB_E_SET, MCB_S_COFF, offset->count);
    for (i = 0; i < s[MCB_S_CSET].count; i++) {
        if (mcb__uint(&s[MCB_S_CSET], i) >= offset->count)
            return mcb__wrong_item(m, MCB_E_SET, MCB_S_CSET, i);
    }
    return MCB_OK;
}

/* The name of a level from `begin` to `end` in CATS, after that of the same feature from `before` on, if that is not
 * `begin`. */
static inline int mcb__check_level(mcb_model *m, uint64_t before, uint64_t begin, uint64_t end) {
    const unsigned char *text = m->section[MCB_S_CATS].data;
    uint64_t a = begin - before, b = end - begin, j;
    if (b > MCB_MAX_LABEL) return mcb__wrong_item(m, MCB_E_LEVELS, MCB_S_CATS, begin);
    for (j = begin; j < end; j++) {
        if (!text[j]) return mcb__wrong_item(m, MCB_E_LEVELS, MCB_S_CATS, j);
    }
    if (before != begin) {
        int order = memcmp(text + before, text + begin, (size_t)(a < b ? a : b));
        if (order > 0 || (order == 0 && a >= b))
            return mcb__wrong_item(m, MCB_E_LEVELS, MCB_S_CATS, begin);
    }
    return mcb__check_text(m, MCB_S_CATS, begin, end);
}

/* Categorical features and the names of their levels. A name is never empty but where it comes first. */
static inline int mcb__check_categories(mcb_model *m) {
    const mcb_section *f = &m->section[MCB_S_CATF], *levels = &m->section[MCB_S_CATN],
                      *names = &m->section[MCB_S_CATO];
    uint32_t top = f->dtype == MCB_U8 ? 7 : f->dtype == MCB_U16 ? 15 : 31, before = 0, n, l;
    uint64_t c, at = 0, begin = 0, end;
    int status;
    if (!names->count || mcb__uint(names, 0))
        return mcb__wrong_item(m, MCB_E_LEVELS, MCB_S_CATO, 0);
    for (c = 0; c < f->count; c++) {
        uint32_t feature = mcb__uint(f, c) & ((1u << top) - 1);
        uint64_t last;
        if (feature >= m->n_features || (c > 0 && feature <= before))
            return mcb__wrong_item(m, MCB_E_FEATURE_INDEX, MCB_S_CATF, c);
        before = feature;
        n = mcb__uint(levels, c);
        if (n < 1 || n > MCB_MAX_LEVELS) return mcb__wrong_item(m, MCB_E_LEVELS, MCB_S_CATN, c);
        if (!(mcb__uint(f, c) >> top)) continue;
        for (l = 0, last = begin; l < n; l++, last = begin, begin = end) {
            if (++at >= names->count) return mcb__wrong_item(m, MCB_E_LEVELS, MCB_S_CATO, at);
            end = mcb__uint(names, at);
            if (end < begin || end > m->section[MCB_S_CATS].count || (l > 0 && end == begin))
                return mcb__wrong_item(m, MCB_E_LEVELS, MCB_S_CATO, at);
            if ((status = mcb__check_level(m, l ? last : begin, begin, end))) return status;
        }
    }
    if (at + 1 != names->count || begin != m->section[MCB_S_CATS].count)
        return mcb__wrong_item(m, MCB_E_LEVELS, MCB_S_CATO, at);
    return MCB_OK;
}

/* Entries of leaves: where those of each begin, and their classes. */
static inline int mcb__check_entries(mcb_model *m) {
    const mcb_section *first = &m->section[MCB_S_LOFF], *cls = &m->section[MCB_S_LCLS];
    uint64_t leaf, e, begin = 0;
    if (mcb__uint(first, 0) != 0) return mcb__wrong_item(m, MCB_E_ENTRY_OFFSETS, MCB_S_LOFF, 0);
    for (leaf = 1; leaf < first->count; leaf++) {
        uint64_t end = mcb__uint(first, leaf);
        if (end < begin || end > cls->count)
            return mcb__wrong_item(m, MCB_E_ENTRY_OFFSETS, MCB_S_LOFF, leaf);
        for (e = begin; e < end; e++) {
            uint32_t k = mcb__uint(cls, e);
            if (k >= m->n_classes || (e > begin && k <= mcb__uint(cls, e - 1)))
                return mcb__wrong_item(m, MCB_E_ENTRY_CLASS, MCB_S_LCLS, e);
        }
        begin = end;
    }
    if (begin != cls->count)
        return mcb__wrong_item(m, MCB_E_ENTRY_OFFSETS, MCB_S_LOFF, first->count - 1);
    return MCB_OK;
}

/* Numbers of a section are multiples of 2^-20 up to a limit and not minus zero: their sums are exact, in any order. */
static inline int mcb__check_grid(mcb_model *m, int slot, double limit) {
    const mcb_section *s = &m->section[slot];
    uint64_t i, bits;
    for (i = 0; i < s->count; i++) {
        double v = mcb__real(s, i), steps = v * 1048576.0;
        memcpy(&bits, &v, sizeof bits);
        if (!(v >= -limit && v <= limit) || steps != (double)(int64_t)steps ||
            bits == UINT64_C(1) << 63)
            return mcb__wrong_item(m, MCB_E_SHARED, slot, i);
    }
    return MCB_OK;
}

static inline int mcb__check_shared(mcb_model *m) {
    int status;
    if ((status = mcb__check_grid(m, MCB_S_LALL, 8))) return status;
    if ((status = mcb__check_grid(m, MCB_S_LEAF, 8))) return status;
    return mcb__check_grid(m, MCB_S_BIAS, 1048576);
}

static inline int mcb__check_trees(mcb_model *m) {
    const mcb_section *s = m->section;
    uint64_t T = s[MCB_S_TSIZ].count, t, begin = 0;
    uint64_t n_columns = s[MCB_S_CODE].data ? s[MCB_S_CODE].count / m->n_classes : m->n_classes;
    int status;
    if ((status = mcb__check_sum(m, MCB_S_TSIZ, s[MCB_S_FEAT].count, MCB_E_TREE_SIZES)))
        return status;
    if ((status = mcb__check_sum(m, MCB_S_RNDS, T, MCB_E_ROUNDS))) return status;
    if ((status = mcb__check_features(m))) return status;
    if ((status = mcb__finite(m, MCB_S_THRS, MCB_E_THRESHOLD))) return status;
    for (t = 0; t < T; t++) {
        uint64_t end = begin + mcb__uint(&s[MCB_S_TSIZ], t);
        if ((status = mcb__check_tree(m, begin, end))) return status;
        begin = end;
    }
    if (s[MCB_S_CSET].data) {
        if ((status = mcb__check_sets(m))) return status;
        if ((status = mcb__check_categories(m))) return status;
    }
    for (t = 0; t < s[MCB_S_TCLS].count; t++) {
        uint32_t column = mcb__uint(&s[MCB_S_TCLS], t);
        if (column >= n_columns || column > UINT16_MAX)
            return mcb__wrong_item(m, MCB_E_TREE_CLASS, MCB_S_TCLS, t);
    }
    for (t = 0; t < s[MCB_S_TBAS].count; t++) {
        uint32_t base = mcb__uint(&s[MCB_S_TBAS], t);
        if (base > m->n_classes || base == mcb__uint(&s[MCB_S_TCLS], t))
            return mcb__wrong_item(m, MCB_E_TREE_BASE, MCB_S_TBAS, t);
    }
    if ((status = mcb__finite(m, MCB_S_CODE, MCB_E_CODE))) return status;
    if (s[MCB_S_LOFF].data && (status = mcb__check_entries(m))) return status;
    if (s[MCB_S_LALL].data && (status = mcb__check_shared(m))) return status;
    return mcb__finite(m, MCB_S_LEAF, MCB_E_LEAF);
}

/* A kernel's number and parameters; those that it does not have must be 0. */
static inline int mcb__check_kernel(mcb_model *m) {
    const unsigned char *p = m->section[MCB_S_KPAR].data;
    float kernel = mcb__f32(p), gamma = mcb__f32(p + 4), coef0 = mcb__f32(p + 8),
          degree = mcb__f32(p + 12);
    int poly = kernel == (float)MCB_KERNEL_POLY, rbf = kernel == (float)MCB_KERNEL_RBF;
    if (!(kernel == (float)MCB_KERNEL_LINEAR || poly || rbf ||
          kernel == (float)MCB_KERNEL_PERCEPTRON))
        return mcb__wrong_item(m, MCB_E_KERNEL, MCB_S_KPAR, 0);
    if (!(poly || rbf ? gamma > 0 && gamma <= FLT_MAX : gamma == 0))
        return mcb__wrong_item(m, MCB_E_KERNEL_PARAMETER, MCB_S_KPAR, 1);
    if (!(poly ? coef0 >= -FLT_MAX && coef0 <= FLT_MAX : coef0 == 0))
        return mcb__wrong_item(m, MCB_E_KERNEL_PARAMETER, MCB_S_KPAR, 2);
    if (!(poly ? degree >= 0 && degree <= MCB_MAX_DEGREE && degree == (float)(int)degree
               : degree == 0))
        return mcb__wrong_item(m, MCB_E_KERNEL_PARAMETER, MCB_S_KPAR, 3);
    return MCB_OK;
}

static inline int mcb__check_exit(mcb_model *m) {
    const mcb_section *s = m->section;
    uint64_t i, before = 0;
    int slot;
    for (i = 0; i < s[MCB_S_EXIT].count; i++) {
        uint64_t n = mcb__uint(&s[MCB_S_EXIT], i);
        if (n <= before || n >= m->n_learners)
            return mcb__wrong_item(m, MCB_E_CHECKPOINT, MCB_S_EXIT, i);
        before = n;
    }
    for (i = 0; i < s[MCB_S_PAIR].count; i++) { /* infinity: no bound is known */
        double bound = mcb__bound(&s[MCB_S_PAIR], i);
        if (!(bound >= -FLT_MAX)) return mcb__wrong_item(m, MCB_E_BOUND, MCB_S_PAIR, i);
    }
    for (slot = MCB_S_MARG; slot <= MCB_S_RJCT; slot++) {
        for (i = 0; i < s[slot].count; i++) {
            double v = mcb__f64(s[slot].data + 8 * i),
                   top = slot == MCB_S_RJCT ? m->n_classes - 1.0 : 4294967295.0;
            int good = i == 0   ? v > 0 && v < 1
                       : i == 1 ? v >= 1 && v <= 4294967295.0 && v == (double)(uint32_t)v
                       : i == 2 ? v >= 0 && v <= top && v == (double)(uint32_t)v
                                : v >= -DBL_MAX; /* infinity: no exit here */
            if (!good) return mcb__wrong_item(m, MCB_E_EXIT_NUMBER, slot, i);
        }
    }
    return MCB_OK;
}

static inline int mcb__check_factor(mcb_model *m, int slot) {
    const unsigned char *factor = m->section[slot].data;
    if (!factor || (mcb__f64(factor) > 0 && mcb__f64(factor) <= DBL_MAX)) return MCB_OK;
    return mcb__wrong_item(m, MCB_E_CALIBRATION, slot, 0);
}

static inline int mcb__check_contents(mcb_model *m) {
    const mcb_section *s = m->section;
    uint64_t i;
    int status;
    if (m->kind == MCB_KIND_STUMPS) {
        if ((status = mcb__check_features(m))) return status;
        if ((status = mcb__finite(m, MCB_S_THRS, MCB_E_THRESHOLD))) return status;
        if ((status = mcb__finite(m, MCB_S_COEF, MCB_E_COEFFICIENT))) return status;
        if (s[MCB_S_COEL].data && (status = mcb__finite(m, MCB_S_COEL, MCB_E_COEFFICIENT)))
            return status;
    } else if (m->kind == MCB_KIND_TREES) {
        if ((status = mcb__check_trees(m))) return status;
    } else if (m->kind == MCB_KIND_PACKED) {
        if ((status = mcb__check_pack(m))) return status;
        if (s[MCB_S_RNDS].data &&
            (status = mcb__check_sum(m, MCB_S_RNDS, m->n_learners, MCB_E_ROUNDS)))
            return status;
    } else if (m->kind == MCB_KIND_LINEAR) {
        if ((status = mcb__finite(m, MCB_S_WMAT, MCB_E_COEFFICIENT))) return status;
    } else if (m->kind == MCB_KIND_KERNEL) {
        if ((status = mcb__check_kernel(m))) return status;
        if ((status = mcb__finite(m, MCB_S_SCAL, MCB_E_SCALE))) return status;
        if ((status = mcb__finite(m, MCB_S_SVEC, MCB_E_SUPPORT))) return status;
        if ((status = mcb__finite(m, MCB_S_DUAL, MCB_E_COEFFICIENT))) return status;
    } else {
        uint64_t j, used = s[MCB_S_FIDX].count, begin = 0;
        for (i = 0; i < used; i++) {
            uint32_t f = mcb__uint(&s[MCB_S_FIDX], i);
            if (f >= m->n_features || (i > 0 && f <= mcb__uint(&s[MCB_S_FIDX], i - 1)))
                return mcb__wrong_item(m, MCB_E_FEATURE_INDEX, MCB_S_FIDX, i);
        }
        if (mcb__uint(&s[MCB_S_IOFF], 0) != 0)
            return mcb__wrong_item(m, MCB_E_OFFSETS, MCB_S_IOFF, 0);
        if ((status = mcb__finite(m, MCB_S_THRS, MCB_E_THRESHOLD))) return status;
        for (i = 1; i <= used; i++) {
            uint64_t end = mcb__uint(&s[MCB_S_IOFF], i);
            if (end <= begin || end > s[MCB_S_THRS].count)
                return mcb__wrong_item(m, MCB_E_OFFSETS, MCB_S_IOFF, i);
            for (j = begin + 1; j < end; j++) {
                if (!(mcb__f32(s[MCB_S_THRS].data + 4 * j - 4) <
                      mcb__f32(s[MCB_S_THRS].data + 4 * j)))
                    return mcb__wrong_item(m, MCB_E_THRESHOLD_ORDER, MCB_S_THRS, j);
            }
            begin = end;
        }
        if (begin != s[MCB_S_THRS].count)
            return mcb__wrong_item(m, MCB_E_OFFSETS, MCB_S_IOFF, used);
        if ((status = mcb__finite(m, MCB_S_TABL, MCB_E_TABLE))) return status;
    }
    if ((status = mcb__finite(m, MCB_S_BIAS, MCB_E_BIAS))) return status;
    if ((status = mcb__check_factor(m, MCB_S_CALB)) || (status = mcb__check_factor(m, MCB_S_FCAL)))
        return status;
    if (m->link == MCB_LINK_SHARES && (s[MCB_S_CALB].data || s[MCB_S_FCAL].data))
        return mcb__fail(m, MCB_E_CALIBRATION,
                         mcb__rules[s[MCB_S_CALB].data ? MCB_S_CALB : MCB_S_FCAL].tag, 44);
    if ((status = mcb__check_exit(m))) return status;
    if (s[MCB_S_ABOV].data && m->link != MCB_LINK_SIGMOID)
        return mcb__fail(m, MCB_E_ABOVE, mcb__rules[MCB_S_ABOV].tag, 44);
    for (i = 0; i < s[MCB_S_ABOV].count; i++) {
        double above = mcb__f64(s[MCB_S_ABOV].data + 8 * i);
        if (!(above >= -DBL_MAX && above <= DBL_MAX))
            return mcb__wrong_item(m, MCB_E_ABOVE, MCB_S_ABOV, i);
    }
    if ((status = mcb__check_labels(m))) return status;
    return mcb__check_text(m, MCB_S_META, 0, s[MCB_S_META].count);
}

/* ------------------------------------------------------------------------------------------------------------- open */

/* Opens a file: its header, its table of sections, and all checks. */

static inline int mcb__letter(unsigned char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* Read and check one entry of the section table. *end is where the previous section ended. */
static inline int mcb__open_section(mcb_model *m, uint64_t entry, uint64_t *end) {
    const unsigned char *p = m->data + entry;
    uint64_t offset = mcb__u64(p + 8), count = mcb__u64(p + 16), room, i;
    uint32_t dtype = p[4], size = mcb__dtype_size(dtype);
    int slot;
    for (i = 0; i < 4; i++) {
        if (!mcb__letter(p[i]) && (i == 0 || p[i] < '0' || p[i] > '9'))
            return mcb__fail(m, MCB_E_TAG, p, entry);
    }
    if (size == 0) return mcb__fail_numbers(m, MCB_E_DTYPE, p, entry + 4, dtype, MCB_F16);
    if (p[5] | p[6] | p[7] | (int)(mcb__u32(p + 28) != 0))
        return mcb__fail(m, MCB_E_SECTION_RESERVED, p, entry);
    if (offset % 64) return mcb__fail(m, MCB_E_ALIGNMENT, p, entry + 8);
    if (offset < *end) return mcb__fail_numbers(m, MCB_E_ORDER, p, entry + 8, offset, *end);
    if (offset - *end >= 64) return mcb__fail(m, MCB_E_GAP, p, entry + 8);
    room = offset > m->size ? 0 : (m->size - offset) / size;
    if (offset > m->size || count > room)
        return mcb__fail_numbers(m, MCB_E_COUNT, p, entry + 16, count, room);
    for (i = *end; i < offset; i++) {
        if (m->data[i]) return mcb__fail(m, MCB_E_PADDING, p, i);
    }
    *end = offset + count * size;
    for (slot = 0; slot < MCB_N_SLOTS; slot++) {
        if (memcmp(p, mcb__rules[slot].tag, 4) == 0) break;
    }
    if (slot == MCB_N_SLOTS) {
        if (p[0] >= 'a') return MCB_OK;
        return mcb__fail(m, MCB_E_UNKNOWN, p, entry);
    }
    if (!(mcb__rules[slot].allowed >> m->kind & 1)) return mcb__fail(m, MCB_E_MISPLACED, p, entry);
    if (!(mcb__rules[slot].dtypes >> dtype & 1)) return mcb__fail(m, MCB_E_DTYPE, p, entry + 4);
    if (slot == MCB_S_META && count > MCB_MAX_META)
        return mcb__fail_numbers(m, MCB_E_META_SIZE, p, entry + 16, count, MCB_MAX_META);
    m->section[slot].data = m->data + offset;
    m->section[slot].count = count;
    m->section[slot].dtype = dtype;
    return MCB_OK;
}

/* Check a whole file that lies in memory and prepare it for scoring.
 *
 * Returns MCB_OK, or why the file is refused; model->error_* then say where. Time is linear in size; nothing is
 * allocated. The bytes are borrowed: keep them unchanged while the model is in use. There is nothing to close. */
MCB_API int mcb_open(mcb_model *model, const void *bytes, size_t size) {
    static const unsigned char magic[8] = {0x89, 'M', 'C', 'B', 0x0d, 0x0a, 0x1a, 0x0a};
    const unsigned char *p = (const unsigned char *)bytes;
    uint64_t end, i, j;
    uint32_t n_sections, crc;
    int status, slot;
    if (!model) return MCB_E_ARGUMENT;
    memset(model, 0, sizeof *model);
    if (!p && size) return mcb__fail(model, MCB_E_ARGUMENT, 0, 0);
    if (size < 64) return mcb__fail_numbers(model, MCB_E_SHORT, 0, size, size, 64);
    if (memcmp(p, magic, 8) != 0) return mcb__fail(model, MCB_E_MAGIC, 0, 0);
    if (mcb__u16(p + 8) != MCB_FORMAT_MAJOR)
        return mcb__fail_numbers(model, MCB_E_MAJOR, 0, 8, mcb__u16(p + 8), MCB_FORMAT_MAJOR);
    if (mcb__u32(p + 12) & 0xffff) return mcb__fail(model, MCB_E_FLAGS, 0, 12);
    if (mcb__u64(p + 16) != size)
        return mcb__fail_numbers(model, MCB_E_FILE_SIZE, 0, 16, size, mcb__u64(p + 16));
    n_sections = mcb__u32(p + 24);
    if (n_sections < 1 || n_sections > MCB_MAX_SECTIONS || n_sections > (size - 64) / 32)
        return mcb__fail_numbers(model, MCB_E_SECTION_COUNT, 0, 24, n_sections, MCB_MAX_SECTIONS);
    crc = mcb_crc32c(mcb_crc32c(0, p, 56), p + 64, 32 * (size_t)n_sections);
    if (crc != mcb__u32(p + 56)) return mcb__fail(model, MCB_E_HEADER_CRC, 0, 56);
    for (i = 28; i < 64; i += i == 28 ? 24 : 8) {
        if (mcb__u32(p + i)) return mcb__fail(model, MCB_E_HEADER_RESERVED, 0, i);
    }
    model->data = p;
    model->size = size;
    model->format_minor = mcb__u16(p + 10);
    model->n_classes = mcb__u32(p + 32);
    model->n_features = mcb__u32(p + 36);
    model->kind = mcb__u32(p + 40);
    model->link = mcb__u32(p + 44);
    model->decoder = mcb__u32(p + 48);
    if (model->n_classes < 2 || model->n_classes > MCB_MAX_CLASSES)
        return mcb__fail_numbers(model, MCB_E_CLASSES, 0, 32, model->n_classes, MCB_MAX_CLASSES);
    if (model->n_features < 1 || model->n_features > MCB_MAX_FEATURES)
        return mcb__fail_numbers(model, MCB_E_FEATURES, 0, 36, model->n_features, MCB_MAX_FEATURES);
    if (model->kind > 31 || !(MCB__KINDS >> model->kind & 1))
        return mcb__fail(model, MCB_E_KIND, 0, 40);
    if (model->link > MCB_LINK_SHARES) return mcb__fail(model, MCB_E_LINK, 0, 44);
    if (model->decoder != MCB_DECODER_LINEAR &&
        (model->kind != MCB_KIND_TREES || model->decoder > MCB_DECODER_EXP))
        return mcb__fail(model, MCB_E_DECODER, 0, 48);

    end = 64 + 32 * (uint64_t)n_sections;
    for (i = 0; i < n_sections; i++) {
        uint64_t entry = 64 + 32 * i;
        for (j = 0; j < i; j++) {
            if (memcmp(p + entry, p + 64 + 32 * j, 4) == 0)
                return mcb__fail(model, MCB_E_DUPLICATE, p + entry, entry);
        }
        if ((status = mcb__open_section(model, entry, &end))) return status;
    }
    if (end != size) return mcb__fail_numbers(model, MCB_E_END, 0, end, end, size);

    for (slot = 0; slot < MCB_N_SLOTS; slot++) {
        if (mcb__rules[slot].needed >> model->kind & 1 && !model->section[slot].data)
            return mcb__fail(model, MCB_E_MISSING, mcb__rules[slot].tag, 64);
    }
    {
        int ints = model->section[MCB_S_LABI].data != 0,
            offsets = model->section[MCB_S_LABO].data != 0,
            text = model->section[MCB_S_LABS].data != 0;
        if (offsets != text || ints == text) return mcb__fail(model, MCB_E_LABEL_KIND, 0, 64);
    }
    if ((status = mcb__check_shapes(model))) return status;
    for (i = 0; i < n_sections; i++) {
        const unsigned char *entry = p + 64 + 32 * i;
        uint64_t offset = mcb__u64(entry + 8),
                 length = mcb__u64(entry + 16) * mcb__dtype_size(entry[4]);
        if (mcb_crc32c(0, p + offset, (size_t)length) != mcb__u32(entry + 24))
            return mcb__fail(model, MCB_E_SECTION_CRC, entry, offset);
    }
    return mcb__check_contents(model);
}

/* ----------------------------------------------------------------------------------------- labels, truncation, text */

/* Labels of classes, the number of learners, and models with fewer learners. */

/* Label of class k of a model with integer labels (LABI); 0 for a model with text labels. */
MCB_API int64_t mcb_label_int(const mcb_model *m, uint32_t k) {
    const mcb_section *s = &m->section[MCB_S_LABI];
    return s->data && k < m->n_classes ? (int64_t)mcb__u64(s->data + 8 * (size_t)k) : 0;
}

/* Label of class k of a model with text labels: UTF-8, *length bytes, not ended by a zero. Null for
 * integer labels. */
MCB_API const char *mcb_label_text(const mcb_model *m, uint32_t k, size_t *length) {
    const mcb_section *s = &m->section[MCB_S_LABO];
    uint32_t begin;
    *length = 0;
    if (!s->data || k >= m->n_classes) return 0;
    begin = mcb__uint(s, k);
    *length = mcb__uint(s, (uint64_t)k + 1) - begin;
    return (const char *)m->section[MCB_S_LABS].data + begin;
}

/* The JSON text of the section meta, *length bytes of UTF-8; null if there is none. Its syntax has not been checked. */
MCB_API const char *mcb_meta(const mcb_model *m, size_t *length) {
    *length = (size_t)m->section[MCB_S_META].count;
    return (const char *)m->section[MCB_S_META].data;
}

/* Whether the model is a list of learners: stumps or trees. An interval table and machines have no stages. */
MCB_API int mcb_has_learners(const mcb_model *m) {
    return m->kind == MCB_KIND_STUMPS || m->kind == MCB_KIND_TREES || m->kind == MCB_KIND_PACKED;
}

/* Learners in the first n_rounds rounds: where stages begin and end. n_rounds may be anything up to model->n_rounds. */
MCB_API uint64_t mcb_learners(const mcb_model *m, uint64_t n_rounds) {
    uint64_t r, n = 0;
    if (!m->section[MCB_S_RNDS].data) return n_rounds;
    for (r = 0; r < n_rounds && r < m->section[MCB_S_RNDS].count; r++)
        n += mcb__uint(&m->section[MCB_S_RNDS], r);
    return n;
}

/* Use only the first n_learners learners (stumps or trees) from now on. MCB_E_TRUNCATE for an interval table, whose
 * learners are merged, and for linear and kernel machines; MCB_E_ARGUMENT if the file has fewer.
 * A calibration is left aside, as mcb_calibration says. The bias, the thresholds of labels and the leaves stay as they
 * are. What restore_priors gave the bias of a calibrated model is multiplied by its temperature: cut such a model by
 * Model.truncate in Python or mcboost-convert --rounds, which divide it again. */
MCB_API int mcb_truncate(mcb_model *m, uint64_t n_learners) {
    const mcb_section *rounds = &m->section[MCB_S_RNDS];
    uint64_t r, n = 0;
    if (!mcb_has_learners(m)) return MCB_E_TRUNCATE;
    if (n_learners > mcb__all_learners(m)) return MCB_E_ARGUMENT;
    for (r = 0; r < rounds->count && n + mcb__uint(rounds, r) <= n_learners; r++)
        n += mcb__uint(rounds, r);
    m->n_learners = n_learners;
    m->n_rounds = rounds->data ? r : n_learners;
    return MCB_OK;
}

/* Use only the first n_rounds rounds from now on; otherwise as mcb_truncate. */
MCB_API int mcb_truncate_rounds(mcb_model *m, uint64_t n_rounds) {
    if (!m->section[MCB_S_RNDS].data) return mcb_truncate(m, n_rounds);
    if (n_rounds > m->section[MCB_S_RNDS].count) return MCB_E_ARGUMENT;
    m->n_learners = mcb_learners(m, n_rounds);
    m->n_rounds = n_rounds;
    return MCB_OK;
}

/* Numbers that a row's learners add to: one for every class, or for every column of a code that is decoded later. */
MCB_API uint32_t mcb_score_width(const mcb_model *m) {
    return m->decoder ? (uint32_t)(m->section[MCB_S_CODE].count / m->n_classes) : m->n_classes;
}

/* ------------------------------------------------------------------------------------------------------- categories */

/* Names and codes of categories, and on which side of a split they go. */

/* Place of a feature among the categorical ones; their number if it is none of them. */
static inline uint64_t mcb__category(const mcb_model *m, uint32_t feature) {
    const mcb_section *s = &m->section[MCB_S_CATF];
    uint32_t low = s->dtype == MCB_U8 ? 0x7fu : s->dtype == MCB_U16 ? 0x7fffu : 0x7fffffffu;
    uint64_t from = 0, to = s->count;
    while (from < to) {
        uint64_t middle = from + (to - from) / 2;
        if ((mcb__uint(s, middle) & low) < feature)
            from = middle + 1;
        else
            to = middle;
    }
    return from < s->count && (mcb__uint(s, from) & low) == feature ? from : s->count;
}

/* Whether the levels of a category have names, which are the numbers from *first on in CATO. */
static inline int mcb__named(const mcb_model *m, uint64_t category, uint64_t *first) {
    const mcb_section *s = &m->section[MCB_S_CATF];
    uint32_t top = s->dtype == MCB_U8 ? 7 : s->dtype == MCB_U16 ? 15 : 31;
    uint64_t c;
    *first = 0;
    if (category >= s->count) return 0;
    for (c = 0; c < category; c++) {
        if (mcb__uint(s, c) >> top) *first += mcb__uint(&m->section[MCB_S_CATN], c);
    }
    return (int)(mcb__uint(s, category) >> top);
}

/* Number of levels of a categorical feature, whose values in a row are their codes 0, 1, ...; 0 for any other feature. A
 * code that is not one of them counts as missing. */
MCB_API uint32_t mcb_levels(const mcb_model *m, uint32_t feature) {
    uint64_t c = mcb__category(m, feature);
    return c < m->section[MCB_S_CATF].count ? mcb__uint(&m->section[MCB_S_CATN], c) : 0;
}

/* Name of a level: UTF-8, *length bytes, not ended by a zero. Null if there is none: the feature's values are its codes. */
MCB_API const char *mcb_level_text(const mcb_model *m, uint32_t feature, uint32_t code,
                                   size_t *length) {
    const mcb_section *s = &m->section[MCB_S_CATO];
    uint64_t first;
    uint32_t begin;
    *length = 0;
    if (!mcb__named(m, mcb__category(m, feature), &first) || code >= mcb_levels(m, feature))
        return 0;
    begin = mcb__uint(s, first + code);
    *length = mcb__uint(s, first + code + 1) - begin;
    return (const char *)m->section[MCB_S_CATS].data + begin;
}

/* Value in a row of a categorical feature that the text, of `length` bytes in UTF-8, names: its code, or NaN for a text
 * that the training did not have. */
MCB_API float mcb_level_code(const mcb_model *m, uint32_t feature, const char *text,
                             size_t length) {
    uint32_t from = 0, to = mcb_levels(m, feature);
    while (from < to) {
        uint32_t middle = from + (to - from) / 2;
        size_t n;
        const char *name = mcb_level_text(m, feature, middle, &n);
        int order;
        if (!name) break;
        order = memcmp(name, text, n < length ? n : length);
        if (order == 0 && n == length) return (float)middle;
        if (order < 0 || (order == 0 && n < length))
            from = middle + 1;
        else
            to = middle;
    }
    return (float)mcb__f64_of(UINT64_C(0x7ff8000000000000));
}

/* Whether a code is among the first `codes`, of which those with a bit go left; another one is missing. */
MCB__INLINE int mcb__goes_left(const unsigned char *bits, float codes, float code, int missing) {
    uint32_t c;
    if (!(code >= 0 && code < codes)) return missing;
    c = (uint32_t)code;
    return (float)c == code ? bits[c >> 3] >> (c & 7) & 1 : missing;
}

/* Bits of set number q, counted from 1, and the number of codes that they cover. */
MCB__INLINE const unsigned char *mcb__set(const mcb_section *offset, const unsigned char *bits,
                                          uint32_t q, float *codes) {
    uint32_t begin = mcb__uint(offset, q - 1);
    *codes = 8.0f * (float)(mcb__uint(offset, q) - begin);
    return bits + begin;
}

static inline int mcb__in_set(const mcb_section *offset, const unsigned char *bits, uint32_t q,
                              float code, int missing) {
    float codes;
    bits = mcb__set(offset, bits, q, &codes);
    return mcb__goes_left(bits, codes, code, missing);
}

/* ----------------------------------------------------------------------------------------------- vectors of doubles */

/* Vector types for doubles, and the choice of their width. */

#if MCB__VECTOR

/* Additions with vectors of 2, 4 or 8 doubles: over the classes of one row, or over rows. A chain is one lane. */

/* d, i, f, h: what is computed with; the others lie in memory at any address (gcc copies wide vectors in pieces if
 * memcpy is used, which is many times slower). */
#define MCB__TYPES(W)                                                                              \
    typedef double mcb__d##W __attribute__((vector_size(8 * W)));                                  \
    typedef int64_t mcb__i##W __attribute__((vector_size(8 * W)));                                 \
    typedef float mcb__f##W __attribute__((vector_size(4 * W)));                                   \
    typedef int32_t mcb__h##W __attribute__((vector_size(4 * W)));                                 \
    typedef double mcb__dm##W __attribute__((vector_size(8 * W), aligned(1), may_alias));          \
    typedef int64_t mcb__im##W __attribute__((vector_size(8 * W), aligned(1), may_alias));         \
    typedef float mcb__fm##W __attribute__((vector_size(4 * W), aligned(1), may_alias));
MCB__TYPES(2)
MCB__TYPES(4)
MCB__TYPES(8)
#undef MCB__TYPES

/* Loops whose sums must stay in registers are written out; nv and nk are constants, so the tests go away. */
#define MCB__EACH8(X, W) X(0, W) X(1, W) X(2, W) X(3, W) X(4, W) X(5, W) X(6, W) X(7, W)
#define MCB__EACH12(X, W) MCB__EACH8(X, W) X(8, W) X(9, W) X(10, W) X(11, W)
#define MCB__EACH4(X, W) X(0, W) X(1, W) X(2, W) X(3, W)

#define MCB__SPLAT2(v) {v, v}
#define MCB__SPLAT4(v) {v, v, v, v}
#define MCB__SPLAT8(v) {v, v, v, v, v, v, v, v}

#define MCB__CASES(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
#define MCB__CASES12(X) MCB__CASES(X) X(9) X(10) X(11) X(12)

#if defined(MCB_SIMD) && defined(__x86_64__)
#define MCB__CHOOSE 1
#define MCB__AVX2 __attribute__((target("avx2,fma")))
#define MCB__AVX512 __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw")))
#else
#define MCB__CHOOSE 0
#define MCB__AVX2
#define MCB__AVX512
#endif

/* Doubles in the widest vector to use: 8, 4 or 2. */
MCB__INLINE int mcb__width(void) {
#if MCB__CHOOSE
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw"))
        return 8;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 4 : 2;
#elif defined(__AVX512F__)
    return 8;
#elif defined(__AVX2__)
    return 4;
#else
    return 2;
#endif
}

#if MCB__CHOOSE || defined(__AVX512F__)
#define MCB__DISPATCH(row_8, row_4, row_2)                                                         \
    do {                                                                                           \
        int width = mcb__width();                                                                  \
        if (width == 8)                                                                            \
            row_8;                                                                                 \
        else if (width == 4)                                                                       \
            row_4;                                                                                 \
        else                                                                                       \
            row_2;                                                                                 \
    } while (0)
#elif defined(__AVX2__)
#define MCB__DISPATCH(row_8, row_4, row_2) row_4
#else
#define MCB__DISPATCH(row_8, row_4, row_2) row_2
#endif

#endif /* MCB__VECTOR */

/* ------------------------------------------------------------------------------------------------ values of features */

/* Reads features of a row, of whatever type it stores them in. */

/* What the features of a row are stored as. Integers of 8 and 16 bits are exact in float32, so that x <= threshold has the
 * same answer for them. */
enum mcb_values { MCB_VALUES_F32 = 0, MCB_VALUES_U8 = 1, MCB_VALUES_I16 = 2, MCB__VALUES_LAZY = 3 };

/* The value of a feature (counted from 0) of the row that the context stands for; NaN if it is missing. */
typedef float (*mcb_feature)(void *context, uint32_t feature);

typedef struct {
    mcb_feature get;
    void *context;
    float *row; /* null where a feature may be asked for again */
    unsigned char *known;
} mcb__lazy;

MCB__INLINE float mcb__ask(const mcb__lazy *s, uint32_t f) {
    unsigned char bit = (unsigned char)(1u << (f & 7));
    if (!s->row) return s->get(s->context, f);
    if (!(s->known[f >> 3] & bit)) {
        s->row[f] = s->get(s->context, f);
        s->known[f >> 3] = (unsigned char)(s->known[f >> 3] | bit);
    }
    return s->row[f];
}

/* Feature f of a row. values (enum mcb_values) is a constant in loops. */
MCB__INLINE float mcb__value(const void *x, int values, size_t f) {
    if (values == MCB_VALUES_U8) return (float)((const uint8_t *)x)[f];
    if (values == MCB_VALUES_I16) return (float)((const int16_t *)x)[f];
    if (values == MCB__VALUES_LAZY) return mcb__ask((const mcb__lazy *)x, (uint32_t)f);
    return ((const float *)x)[f];
}

/* Where a later row begins, `items` features behind x. */
MCB__INLINE const void *mcb__later(const void *x, int values, size_t items) {
    return (const unsigned char *)x + items * (values == MCB_VALUES_U8    ? 1
                                               : values == MCB_VALUES_I16 ? 2
                                                                          : sizeof(float));
}

/* -------------------------------------------------------------------------------------------------- stumps: one row */

/* Scores of stumps for one row. */

/* A learner's side is held as a mask: 0 for right; for left the sign bit when the left value is minus the right one,
 * and all ones when the file has left values of its own. */

enum {
    MCB__ROW_CHUNK = 32,
    MCB__TILE_CHUNK = 64,
    MCB__TILE_ROWS = 64,
    MCB__TILE_FLOATS = 8192,
    MCB__PASS = 12
};

/* Masks of n learners from learner j on, for one row. */
MCB__INLINE void mcb__row_masks(const mcb_model *m, const float *x, uint64_t j, size_t n,
                                uint64_t left, uint64_t *mask) {
    const unsigned char *feat = m->section[MCB_S_FEAT].data,
                        *thrs = m->section[MCB_S_THRS].data + 4 * j;
    size_t i;
/* One & and |, not && and ||: the comparisons must not become jumps. */
#define MCB__MASKS(bits, load)                                                                     \
    for (i = 0; i < n; i++) {                                                                      \
        uint32_t f = load;                                                                         \
        float v = x[f & ((1u << (bits - 1)) - 1)], t = mcb__f32(thrs + 4 * i);                     \
        uint64_t goes_left = (uint64_t)(v <= t) | ((uint64_t)(v != v) & (f >> (bits - 1)));        \
        mask[i] = (0 - goes_left) & left;                                                          \
    }
    switch (m->section[MCB_S_FEAT].dtype) {
    case MCB_U8:
        MCB__MASKS(8, feat[j + i])
        break;
    case MCB_U16:
        MCB__MASKS(16, mcb__u16(feat + 2 * (j + i)))
        break;
    default:
        MCB__MASKS(32, mcb__u32(feat + 4 * (j + i)))
        break;
    }
#undef MCB__MASKS
}

/* One row without vectors. */
static inline void mcb__add_stumps_plain(const mcb_model *m, const void *x, int values,
                                         uint64_t from, uint64_t to, double *scores) {
    const mcb_section *feat = &m->section[MCB_S_FEAT];
    const unsigned char *coef = m->section[MCB_S_COEF].data, *coel = m->section[MCB_S_COEL].data;
    uint32_t top = feat->dtype == MCB_U8 ? 7 : feat->dtype == MCB_U16 ? 15 : 31;
    size_t K = m->n_classes, k;
    uint64_t j;
    for (j = from; j < to; j++) {
        uint32_t f = mcb__uint(feat, j);
        float v = mcb__value(x, values, f & ((1u << top) - 1));
        int left = v <= mcb__f32(m->section[MCB_S_THRS].data + 4 * j) || (v != v && f >> top);
        const unsigned char *value = (left && coel ? coel : coef) + 4 * (size_t)j * K;
        for (k = 0; k < K; k++) {
            double add = (double)mcb__f32(value + 4 * k);
            scores[k] += left && !coel ? -add : add;
        }
    }
}

#if !MCB__VECTOR

static inline void mcb__add_stumps_row(const mcb_model *m, const float *x, uint64_t from,
                                       uint64_t to, double *scores) {
    const unsigned char *coef = m->section[MCB_S_COEF].data, *coel = m->section[MCB_S_COEL].data;
    size_t K = m->n_classes, i, k, n;
    uint64_t mask[MCB__ROW_CHUNK], j;
    for (j = from; j < to; j += n) {
        n = to - j < MCB__ROW_CHUNK ? (size_t)(to - j) : (size_t)MCB__ROW_CHUNK;
        mcb__row_masks(m, x, j, n, 1, mask);
        for (i = 0; i < n; i++) {
            const unsigned char *value = (mask[i] && coel ? coel : coef) + 4 * (size_t)(j + i) * K;
            if (mask[i] && !coel) {
                for (k = 0; k < K; k++) scores[k] -= mcb__f32(value + 4 * k);
            } else {
                for (k = 0; k < K; k++) scores[k] += mcb__f32(value + 4 * k);
            }
        }
    }
}

static inline void mcb__add_stumps_batch(const mcb_model *m, const float *x, size_t n_rows,
                                         size_t stride, uint64_t from, uint64_t to,
                                         double *scores) {
    size_t r;
    for (r = 0; r < n_rows; r++)
        mcb__add_stumps_row(m, x + r * stride, from, to, scores + r * m->n_classes);
}

#else

#define MCB__ROW_BEGIN(v, W)                                                                       \
    if (v < nv) {                                                                                  \
        at[v] = mcb__lane(first, v, W, K);                                                         \
        sum[v] = *(const mcb__dm##W *)(scores + at[v]);                                            \
    }
#define MCB__ROW_END(v, W)                                                                         \
    if (v < nv) *(mcb__dm##W *)(scores + at[v]) = sum[v];
#define MCB__ROW_ADD(v, W)                                                                         \
    if (v < nv) {                                                                                  \
        mcb__f##W single = *(const mcb__fm##W *)(value + 4 * at[v]);                               \
        sum[v] += (mcb__d##W)((mcb__i##W) __builtin_convertvector(single, mcb__d##W) ^ signs);     \
    }

/* Where the nv vectors of pass number `pass` begin: the last one is moved back to end at K, so that it shares lanes
 * with the one before it (they then hold equal numbers). Passes are of even size, so a moved vector is never alone in
 * one. */
MCB__INLINE size_t mcb__lane(size_t first, size_t v, size_t W, size_t K) {
    return first + v * W + W <= K ? first + v * W : K - W;
}

/* One row, nv vectors of classes from class `first` on. */
#define MCB__DEFINE_STUMPS_ROW(W, ATTRIBUTE)                                                       \
    MCB__INLINE void mcb__row_pass_##W(const unsigned char *coef, const unsigned char *coel,       \
                                       const uint64_t *mask, size_t n, size_t K, size_t first,     \
                                       size_t nv, double *scores) {                                \
        mcb__d##W sum[8];                                                                          \
        size_t at[8], j;                                                                           \
        MCB__EACH8(MCB__ROW_BEGIN, W)                                                              \
        for (j = 0; j < n; j++) {                                                                  \
            const unsigned char *value = (coel && mask[j] ? coel : coef) + 4 * j * K;              \
            int64_t sign = coel ? 0 : (int64_t)mask[j];                                            \
            mcb__i##W signs = MCB__SPLAT##W(sign);                                                 \
            MCB__EACH8(MCB__ROW_ADD, W)                                                            \
        }                                                                                          \
        MCB__EACH8(MCB__ROW_END, W)                                                                \
    }                                                                                              \
    ATTRIBUTE static inline MCB__UNUSED void mcb__add_stumps_row_##W(                              \
        const mcb_model *m, const float *x, uint64_t from, uint64_t to, double *scores) {          \
        const unsigned char *coef = m->section[MCB_S_COEF].data,                                   \
                            *coel = m->section[MCB_S_COEL].data;                                   \
        size_t K = m->n_classes, vectors = (K + W - 1) / W, passes = (vectors + 7) / 8, pass, n;   \
        uint64_t mask[MCB__ROW_CHUNK], j;                                                          \
        for (j = from; j < to; j += n) {                                                           \
            const unsigned char *right = coef + 4 * (size_t)j * K,                                 \
                                *left = coel ? coel + 4 * (size_t)j * K : 0;                       \
            n = to - j < MCB__ROW_CHUNK ? (size_t)(to - j) : (size_t)MCB__ROW_CHUNK;               \
            mcb__row_masks(m, x, j, n, MCB__SIGN, mask);                                           \
            for (pass = 0; pass < passes; pass++) {                                                \
                size_t first = pass * vectors / passes,                                            \
                       nv = (pass + 1) * vectors / passes - first;                                 \
                first *= W;                                                                        \
                if (left) {                                                                        \
                    switch (nv) { MCB__CASES(MCB__ROW_CASE_LEFT_##W) }                             \
                } else {                                                                           \
                    switch (nv) { MCB__CASES(MCB__ROW_CASE_##W) }                                  \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

#define MCB__ROW_CASE_2(nv)                                                                        \
    case nv:                                                                                       \
        mcb__row_pass_2(right, 0, mask, n, K, first, nv, scores);                                  \
        break;
#define MCB__ROW_CASE_4(nv)                                                                        \
    case nv:                                                                                       \
        mcb__row_pass_4(right, 0, mask, n, K, first, nv, scores);                                  \
        break;
#define MCB__ROW_CASE_8(nv)                                                                        \
    case nv:                                                                                       \
        mcb__row_pass_8(right, 0, mask, n, K, first, nv, scores);                                  \
        break;
#define MCB__ROW_CASE_LEFT_2(nv)                                                                   \
    case nv:                                                                                       \
        mcb__row_pass_2(right, left, mask, n, K, first, nv, scores);                               \
        break;
#define MCB__ROW_CASE_LEFT_4(nv)                                                                   \
    case nv:                                                                                       \
        mcb__row_pass_4(right, left, mask, n, K, first, nv, scores);                               \
        break;
#define MCB__ROW_CASE_LEFT_8(nv)                                                                   \
    case nv:                                                                                       \
        mcb__row_pass_8(right, left, mask, n, K, first, nv, scores);                               \
        break;

MCB__DEFINE_STUMPS_ROW(2, )
#if MCB__CHOOSE || defined(__AVX2__) || defined(__AVX512F__)
/* A vector wider than a row of classes would read beyond it: narrow rows take narrow vectors. */
MCB__DEFINE_STUMPS_ROW(4, MCB__AVX2)
MCB__AVX2 static inline MCB__UNUSED void mcb__row_4(const mcb_model *m, const float *x,
                                                    uint64_t from, uint64_t to, double *scores) {
    if (m->n_classes < 4)
        mcb__add_stumps_row_2(m, x, from, to, scores);
    else
        mcb__add_stumps_row_4(m, x, from, to, scores);
}
#endif
#if MCB__CHOOSE || defined(__AVX512F__)
MCB__DEFINE_STUMPS_ROW(8, MCB__AVX512)
MCB__AVX512 static inline MCB__UNUSED void mcb__row_8(const mcb_model *m, const float *x,
                                                      uint64_t from, uint64_t to, double *scores) {
    if (m->n_classes < 8)
        mcb__row_4(m, x, from, to, scores);
    else
        mcb__add_stumps_row_8(m, x, from, to, scores);
}
#endif

static inline void mcb__add_stumps_row(const mcb_model *m, const float *x, uint64_t from,
                                       uint64_t to, double *scores) {
    MCB__DISPATCH(mcb__row_8(m, x, from, to, scores), mcb__row_4(m, x, from, to, scores),
                  mcb__add_stumps_row_2(m, x, from, to, scores));
}

#endif /* MCB__VECTOR */

/* ------------------------------------------------------------------------------------------------ stumps: many rows */

/* Scores of stumps for many rows. */

#if MCB__VECTOR

#define MCB__TILE_BEGIN(k, W)                                                                      \
    if (k < nk) sum[k] = *(const mcb__dm##W *)(tile + k * MCB__TILE_ROWS);
#define MCB__TILE_END(k, W)                                                                        \
    if (k < nk) *(mcb__dm##W *)(tile + k * MCB__TILE_ROWS) = sum[k];
#define MCB__TILE_ADD(k, W)                                                                        \
    if (k < nk) {                                                                                  \
        mcb__i##W value = MCB__SPLAT##W(right[k]);                                                 \
        value ^= side;                                                                             \
        sum[k] += (mcb__d##W)value;                                                                \
    }
#define MCB__TILE_ADD_LEFT(k, W)                                                                   \
    if (k < nk) {                                                                                  \
        mcb__i##W value = MCB__SPLAT##W(right[k]);                                                 \
        mcb__i##W other = MCB__SPLAT##W(change[k]);                                                \
        value ^= other & side;                                                                     \
        sum[k] += (mcb__d##W)value;                                                                \
    }

/* What the batch needs of up to 64 learners, decoded once for up to 64 rows. */
typedef struct {
    uint32_t feature[MCB__TILE_CHUNK];
    int32_t nan_left[MCB__TILE_CHUNK]; /* 0 or -1 */
    float threshold[MCB__TILE_CHUNK];
    int64_t right[MCB__TILE_CHUNK * MCB__PASS];  /* bits of doubles, a row per learner */
    int64_t change[MCB__TILE_CHUNK * MCB__PASS]; /* right xor left; only with COEL */
} mcb__chunk;

MCB__INLINE MCB__UNUSED void mcb__decode(const mcb_model *m, uint64_t j, size_t n, size_t first,
                                         size_t nk, mcb__chunk *c) {
    const mcb_section *feat = &m->section[MCB_S_FEAT];
    const unsigned char *coef = m->section[MCB_S_COEF].data, *coel = m->section[MCB_S_COEL].data;
    uint32_t top = feat->dtype == MCB_U8 ? 7 : feat->dtype == MCB_U16 ? 15 : 31;
    size_t i, k, K = m->n_classes;
    for (i = 0; i < n; i++) {
        size_t at = 4 * ((size_t)(j + i) * K + first);
        uint32_t f = mcb__uint(feat, j + i);
        c->feature[i] = f & ((1u << top) - 1);
        c->nan_left[i] = -(int32_t)(f >> top);
        c->threshold[i] = mcb__f32(m->section[MCB_S_THRS].data + 4 * (j + i));
        for (k = 0; k < nk; k++)
            c->right[i * nk + k] = (int64_t)mcb__bits_of((double)mcb__f32(coef + at + 4 * k));
        if (coel) {
            for (k = 0; k < nk; k++) {
                int64_t left = (int64_t)mcb__bits_of((double)mcb__f32(coel + at + 4 * k));
                c->change[i * nk + k] = c->right[i * nk + k] ^ left;
            }
        }
    }
}

/* Rows in groups of 16, features transposed; one vector is one class of W rows. */
#define MCB__DEFINE_BATCH(W, ATTRIBUTE)                                                            \
    MCB__INLINE void mcb__masks_##W(const mcb__chunk *c, size_t n, const float *x, size_t step,    \
                                    int gathered, uint64_t left, uint64_t *mask) {                 \
        size_t j, r;                                                                               \
        for (j = 0; j < n; j++) {                                                                  \
            const float *column = x + (gathered ? j : (size_t)c->feature[j]) * step;               \
            mcb__f##W t = MCB__SPLAT##W(c->threshold[j]);                                          \
            mcb__h##W nan_left = MCB__SPLAT##W(c->nan_left[j]);                                    \
            mcb__i##W keep = MCB__SPLAT##W((int64_t)left);                                         \
            for (r = 0; r < 16; r += W) {                                                          \
                mcb__f##W value = *(const mcb__fm##W *)(column + r);                               \
                mcb__i##W wide;                                                                    \
                wide = __builtin_convertvector((value <= t) | ((value != value) & nan_left),       \
                                               mcb__i##W) &                                        \
                       keep;                                                                       \
                *(mcb__im##W *)(mask + 16 * j + r) = wide;                                         \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    MCB__INLINE void mcb__tile_pass_##W(const mcb__chunk *c, const uint64_t *mask, size_t n,       \
                                        size_t nk, int two_sided, double *tile) {                  \
        mcb__d##W sum[12];                                                                         \
        size_t j;                                                                                  \
        MCB__EACH12(MCB__TILE_BEGIN, W)                                                            \
        for (j = 0; j < n; j++) {                                                                  \
            const int64_t *right = c->right + j * nk, *change = c->change + j * nk;                \
            mcb__i##W side = *(const mcb__im##W *)(mask + 16 * j);                                 \
            if (two_sided) {                                                                       \
                MCB__EACH12(MCB__TILE_ADD_LEFT, W)                                                 \
            } else {                                                                               \
                MCB__EACH12(MCB__TILE_ADD, W)                                                      \
            }                                                                                      \
        }                                                                                          \
        MCB__EACH12(MCB__TILE_END, W)                                                              \
    }                                                                                              \
    ATTRIBUTE static inline MCB__UNUSED void mcb__add_stumps_batch_##W(                            \
        const mcb_model *m, const float *x, size_t n_rows, size_t stride, uint64_t from,           \
        uint64_t to, double *scores) {                                                             \
        size_t K = m->n_classes, d = m->n_features, passes = (K + MCB__PASS - 1) / MCB__PASS;      \
        size_t rows_max = MCB__TILE_ROWS, done, rows, padded, r, f, k, n, g, w, pass;              \
        int two_sided = m->section[MCB_S_COEL].data != 0, gather;                                  \
        uint64_t j, mask[16 * MCB__TILE_CHUNK];                                                    \
        float block[MCB__TILE_FLOATS];                                                             \
        double tile[MCB__PASS * MCB__TILE_ROWS];                                                   \
        mcb__chunk chunk;                                                                          \
        gather = d > MCB__TILE_FLOATS / 16 || to - from < d / 4;                                   \
        if (!gather) rows_max = MCB__TILE_FLOATS / d / 16 * 16;                                    \
        if (rows_max > MCB__TILE_ROWS) rows_max = MCB__TILE_ROWS;                                  \
        for (done = 0; done < n_rows; done += rows) {                                              \
            const float *row = x + done * stride;                                                  \
            double *out = scores + done * K;                                                       \
            rows = n_rows - done < rows_max ? n_rows - done : rows_max;                            \
            if (rows < 4) {                                                                        \
                for (r = 0; r < rows; r++)                                                         \
                    mcb__row_##W(m, row + r * stride, from, to, out + r * K);                      \
                continue;                                                                          \
            }                                                                                      \
            padded = (rows + 15) / 16 * 16; /* the last row fills up its group */                  \
            if (!gather) {                                                                         \
                for (r = 0; r < padded; r++) {                                                     \
                    const float *source = row + (r < rows ? r : rows - 1) * stride;                \
                    for (f = 0; f < d; f++) block[f * padded + r] = source[f];                     \
                }                                                                                  \
            }                                                                                      \
            for (pass = 0; pass < passes; pass++) {                                                \
                size_t first = pass * K / passes, nk = (pass + 1) * K / passes - first;            \
                for (k = 0; k < nk; k++) {                                                         \
                    for (r = 0; r < padded; r++)                                                   \
                        tile[k * MCB__TILE_ROWS + r] =                                             \
                            out[(r < rows ? r : rows - 1) * K + first + k];                        \
                }                                                                                  \
                for (j = from; j < to; j += n) {                                                   \
                    n = to - j < MCB__TILE_CHUNK ? (size_t)(to - j) : (size_t)MCB__TILE_CHUNK;     \
                    mcb__decode(m, j, n, first, nk, &chunk);                                       \
                    for (g = 0; g < padded; g += 16) {                                             \
                        const float *columns = block + g;                                          \
                        if (gather) {                                                              \
                            columns = block;                                                       \
                            for (r = 0; r < 16; r++) {                                             \
                                const float *source =                                              \
                                    row + (g + r < rows ? g + r : rows - 1) * stride;              \
                                for (f = 0; f < n; f++)                                            \
                                    block[f * 16 + r] = source[chunk.feature[f]];                  \
                            }                                                                      \
                        }                                                                          \
                        mcb__masks_##W(&chunk, n, columns, gather ? 16 : padded, gather,           \
                                       two_sided ? ~UINT64_C(0) : MCB__SIGN, mask);                \
                        for (w = 0; w < 16; w += W) {                                              \
                            const uint64_t *side = mask + w;                                       \
                            double *lanes = tile + g + w;                                          \
                            if (two_sided) {                                                       \
                                switch (nk) { MCB__CASES12(MCB__TILE_CASE_LEFT_##W) }              \
                            } else {                                                               \
                                switch (nk) { MCB__CASES12(MCB__TILE_CASE_##W) }                   \
                            }                                                                      \
                        }                                                                          \
                    }                                                                              \
                }                                                                                  \
                for (k = 0; k < nk; k++) {                                                         \
                    for (r = 0; r < rows; r++)                                                     \
                        out[r * K + first + k] = tile[k * MCB__TILE_ROWS + r];                     \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

#define MCB__TILE_CASE_4(nk)                                                                       \
    case nk:                                                                                       \
        mcb__tile_pass_4(&chunk, side, n, nk, 0, lanes);                                           \
        break;
#define MCB__TILE_CASE_8(nk)                                                                       \
    case nk:                                                                                       \
        mcb__tile_pass_8(&chunk, side, n, nk, 0, lanes);                                           \
        break;
#define MCB__TILE_CASE_LEFT_4(nk)                                                                  \
    case nk:                                                                                       \
        mcb__tile_pass_4(&chunk, side, n, nk, 1, lanes);                                           \
        break;
#define MCB__TILE_CASE_LEFT_8(nk)                                                                  \
    case nk:                                                                                       \
        mcb__tile_pass_8(&chunk, side, n, nk, 1, lanes);                                           \
        break;

/* Tiles of rows do not pay with vectors of two: spreading a coefficient over the lanes costs more than the addition. */
static inline MCB__UNUSED void mcb__add_stumps_batch_2(const mcb_model *m, const float *x,
                                                       size_t n_rows, size_t stride, uint64_t from,
                                                       uint64_t to, double *scores) {
    size_t r;
    for (r = 0; r < n_rows; r++)
        mcb__add_stumps_row_2(m, x + r * stride, from, to, scores + r * m->n_classes);
}

#if MCB__CHOOSE || defined(__AVX2__) || defined(__AVX512F__)
MCB__DEFINE_BATCH(4, MCB__AVX2)
#endif
#if MCB__CHOOSE || defined(__AVX512F__)
MCB__DEFINE_BATCH(8, MCB__AVX512)
#endif

static inline void mcb__add_stumps_batch(const mcb_model *m, const float *x, size_t n_rows,
                                         size_t stride, uint64_t from, uint64_t to,
                                         double *scores) {
    MCB__DISPATCH(mcb__add_stumps_batch_8(m, x, n_rows, stride, from, to, scores),
                  mcb__add_stumps_batch_4(m, x, n_rows, stride, from, to, scores),
                  mcb__add_stumps_batch_2(m, x, n_rows, stride, from, to, scores));
}

#endif /* MCB__VECTOR */

/* -------------------------------------------------------------------------------------------------- interval tables */

/* Scores of interval tables: for each feature, what all its stumps together add in each interval of its values. */

/* Integers that are ordered like the finite floats whose bits they are made of; -0 comes just below +0. */
MCB__INLINE int64_t mcb__order(uint32_t bits) {
    return (int32_t)(bits ^ ((0 - (bits >> 31)) & 0x7fffffffu));
}

/* Offsets in TABL, in rows, of the features i to i + n (at most 32) of an interval table.
 * The interval of x is the number of thresholds below it. All searches of a call take the same number of steps and are
 * done with integers, without comparisons: a mispredicted jump costs more than the rest of a search. */
MCB__INLINE void mcb__table_rows(const mcb_model *m, const void *x, int values, uint64_t i,
                                 size_t n, uint64_t *at) {
    const mcb_section *fidx = &m->section[MCB_S_FIDX], *ioff = &m->section[MCB_S_IOFF];
    const unsigned char *thrs = m->section[MCB_S_THRS].data;
    uint64_t end[MCB__ROW_CHUNK + 1], most = 1;
    size_t j, steps = 0, k;
    for (j = 0; j <= n; j++) end[j] = mcb__uint(ioff, i + j);
    for (j = 0; j < n; j++) most |= end[j + 1] - end[j];
    while (most >> steps > 1) steps++;
    for (j = 0; j < n; j++) {
        const unsigned char *mine = thrs + 4 * end[j];
        size_t left = (size_t)(end[j + 1] - end[j]), below = 0, row = left + 1;
        float value = mcb__value(x, values, mcb__uint(fidx, i + j));
        uint32_t bits;
        int64_t order;
        memcpy(&bits, &value, sizeof bits);
        order = mcb__order(value == 0 ? 0x80000000u
                                      : bits); /* thresholds of +0 and -0 are both not below 0 */
        for (k = 0; k <= steps; k++) {
            /* In the last rounds half may be 0; what lies before the thresholds is read then, but has no effect. */
            size_t half = left / 2;
            int64_t before = (mcb__order(mcb__u32(mine + 4 * (below + half) - 4)) - order) >> 63;
            MCB__HIDE(before);
            below += half & (size_t)before;
            left -= half;
        }
        below += (size_t)((mcb__order(mcb__u32(mine + 4 * below)) - order) >> 63) & 1;
        at[j] = end[j] + 2 * (i + j) + (value != value ? row : below);
    }
}

/* One row without vectors. */
static inline void mcb__add_intervals_plain(const mcb_model *m, const void *x, int values,
                                            double *scores) {
    const unsigned char *table = m->section[MCB_S_TABL].data;
    size_t K = m->n_classes, k;
    uint64_t at, i;
    for (i = 0; i < m->section[MCB_S_FIDX].count; i++) {
        mcb__table_rows(m, x, values, i, 1, &at);
        for (k = 0; k < K; k++) scores[k] += mcb__f32(table + 4 * ((size_t)at * K + k));
    }
}

#if !MCB__VECTOR

static inline void mcb__add_intervals_row(const mcb_model *m, const float *x, double *scores) {
    mcb__add_intervals_plain(m, x, MCB_VALUES_F32, scores);
}

#else

#define MCB__TABLE_ADD(v, W)                                                                       \
    if (v < nv) {                                                                                  \
        mcb__f##W single = *(const mcb__fm##W *)(value + 4 * at[v]);                               \
        sum[v] += __builtin_convertvector(single, mcb__d##W);                                      \
    }

/* One row, nv vectors of classes from class `first` on. */
#define MCB__DEFINE_TABLE_ROW(W, ATTRIBUTE)                                                        \
    MCB__INLINE void mcb__table_pass_##W(const unsigned char *table, const uint64_t *row,          \
                                         size_t n, size_t K, size_t first, size_t nv,              \
                                         double *scores) {                                         \
        mcb__d##W sum[8];                                                                          \
        size_t at[8], j;                                                                           \
        MCB__EACH8(MCB__ROW_BEGIN, W)                                                              \
        for (j = 0; j < n; j++) {                                                                  \
            const unsigned char *value = table + 4 * (size_t)row[j] * K;                           \
            MCB__EACH8(MCB__TABLE_ADD, W)                                                          \
        }                                                                                          \
        MCB__EACH8(MCB__ROW_END, W)                                                                \
    }                                                                                              \
    ATTRIBUTE static inline MCB__UNUSED void mcb__add_intervals_row_##W(                           \
        const mcb_model *m, const float *x, double *scores) {                                      \
        const unsigned char *table = m->section[MCB_S_TABL].data;                                  \
        size_t K = m->n_classes, vectors = (K + W - 1) / W, passes = (vectors + 7) / 8, pass, n;   \
        uint64_t row[MCB__ROW_CHUNK], i, used = m->section[MCB_S_FIDX].count;                      \
        for (i = 0; i < used; i += n) {                                                            \
            n = used - i < MCB__ROW_CHUNK ? (size_t)(used - i) : (size_t)MCB__ROW_CHUNK;           \
            mcb__table_rows(m, x, MCB_VALUES_F32, i, n, row);                                      \
            for (pass = 0; pass < passes; pass++) {                                                \
                size_t first = pass * vectors / passes,                                            \
                       nv = (pass + 1) * vectors / passes - first;                                 \
                first *= W;                                                                        \
                switch (nv) { MCB__CASES(MCB__TABLE_CASE_##W) }                                    \
            }                                                                                      \
        }                                                                                          \
    }

#define MCB__TABLE_CASE_2(nv)                                                                      \
    case nv:                                                                                       \
        mcb__table_pass_2(table, row, n, K, first, nv, scores);                                    \
        break;
#define MCB__TABLE_CASE_4(nv)                                                                      \
    case nv:                                                                                       \
        mcb__table_pass_4(table, row, n, K, first, nv, scores);                                    \
        break;
#define MCB__TABLE_CASE_8(nv)                                                                      \
    case nv:                                                                                       \
        mcb__table_pass_8(table, row, n, K, first, nv, scores);                                    \
        break;

MCB__DEFINE_TABLE_ROW(2, )
#if MCB__CHOOSE || defined(__AVX2__) || defined(__AVX512F__)
MCB__DEFINE_TABLE_ROW(4, MCB__AVX2)
#endif
#if MCB__CHOOSE || defined(__AVX512F__)
MCB__DEFINE_TABLE_ROW(8, MCB__AVX512)
#endif

static inline void mcb__add_intervals_row(const mcb_model *m, const float *x, double *scores) {
    if (m->n_classes >= 8)
        MCB__DISPATCH(mcb__add_intervals_row_8(m, x, scores),
                      mcb__add_intervals_row_4(m, x, scores),
                      mcb__add_intervals_row_2(m, x, scores));
    else if (m->n_classes >= 4)
        MCB__DISPATCH(mcb__add_intervals_row_4(m, x, scores),
                      mcb__add_intervals_row_4(m, x, scores),
                      mcb__add_intervals_row_2(m, x, scores));
    else
        mcb__add_intervals_row_2(m, x, scores);
}

#endif /* MCB__VECTOR */

/* ------------------------------------------------------------------------------------ trees as they are in the file */

/* Scores of trees as they lie in the file, without preparation. */

/* First split of a tree. */
static inline uint64_t mcb__tree_begin(const mcb_model *m, uint64_t tree) {
    uint64_t t, begin = 0;
    for (t = 0; t < tree; t++) begin += mcb__uint(&m->section[MCB_S_TSIZ], t);
    return begin;
}

/* Add the trees from <= t < to, the first of which begins at split `begin`, to the scores of a row. values and sets,
 * whether splits may ask for sets, are constants where rows are floats. */
MCB__INLINE void mcb__add_trees_inner(const mcb_model *m, const void *x, int values, uint64_t from,
                                      uint64_t to, uint64_t begin, int sets, double *scores) {
    const mcb_section *feat = &m->section[MCB_S_FEAT], *right = &m->section[MCB_S_RGHT],
                      *cls = &m->section[MCB_S_TCLS];
    const mcb_section *base = &m->section[MCB_S_TBAS], *leaf = &m->section[MCB_S_LEAF];
    const mcb_section *first = &m->section[MCB_S_LOFF], *shared = &m->section[MCB_S_LALL];
    const mcb_section *code =
        m->decoder ? base : &m->section[MCB_S_CODE]; /* there is no base beside a code */
    const unsigned char *thrs = m->section[MCB_S_THRS].data;
    uint32_t top = feat->dtype == MCB_U8    ? 7
                   : feat->dtype == MCB_U16 ? 15
                                            : 31,
             k, K = m->n_classes;
    double all =
        0; /* for all classes; with it sums are exact, so that their order does not matter */
    uint64_t t;
    for (t = from; t < to; t++) {
        uint64_t i = begin, end = begin + mcb__uint(&m->section[MCB_S_TSIZ], t), at = begin + t;
        begin = end;
        while (i < end) {
            uint32_t f = mcb__uint(feat, i), r = mcb__uint(right, i);
            uint32_t q = sets ? mcb__uint(&m->section[MCB_S_CSET], i) : 0;
            float v = mcb__value(x, values, f & ((1u << top) - 1));
            if (q ? mcb__in_set(&m->section[MCB_S_COFF], m->section[MCB_S_CBIT].data, q, v,
                                (int)(f >> top))
                  : v <= mcb__f32(thrs + 4 * i) || (v != v && f >> top)) {
                end = i + r;
                i++;
            } else {
                at += r;
                i += r;
            }
        }
        if (first->data) {
            uint32_t e, stop = mcb__uint(first, at + 1);
            for (e = mcb__uint(first, at); e < stop; e++)
                scores[mcb__uint(&m->section[MCB_S_LCLS], e)] += mcb__real(leaf, e);
            if (shared->data) all += mcb__real(shared, at);
        } else if (!cls->data) {
            for (k = 0; k < K; k++) scores[k] += mcb__real(leaf, at * K + k);
        } else if (code->data) {
            uint64_t row = (uint64_t)mcb__uint(cls, t) * K;
            double value = mcb__real(leaf, at); /* the products are exact */
            for (k = 0; k < K; k++)
                scores[k] += value * (double)mcb__f32(code->data + 4 * (row + k));
        } else {
            double value = mcb__real(leaf, at);
            scores[mcb__uint(cls, t)] += value;
            if (base->data && mcb__uint(base, t) < K) scores[mcb__uint(base, t)] -= value;
        }
    }
    for (k = 0; k < K && all != 0; k++) scores[k] += all;
}

MCB__APART void mcb__add_trees_row(const mcb_model *m, const void *x, int values, uint64_t from,
                                   uint64_t to, uint64_t begin, double *scores) {
    int sets = m->section[MCB_S_CSET].data != 0;
    if (values != MCB_VALUES_F32)
        mcb__add_trees_inner(m, x, values, from, to, begin, sets, scores);
    else if (sets)
        mcb__add_trees_inner(m, x, MCB_VALUES_F32, from, to, begin, 1, scores);
    else
        mcb__add_trees_inner(m, x, MCB_VALUES_F32, from, to, begin, 0, scores);
}

/* ------------------------------------------------------------------------------------------- scores of packed trees */

/* Scores of packed trees. */

/* Leaf of a tree whose splits are those from i to end. values is a constant where rows are floats. */
MCB__INLINE uint64_t mcb__pack_leaf(const mcb__pack *p, const void *x, int values, uint64_t i,
                                    uint64_t end, uint64_t leaf) {
    while (i < end) {
        uint64_t bit = i * p->split_bits, right = mcb__pack_right(p, i);
        uint32_t f = mcb__bits(p->split, bit, p->feature_bits);
        uint64_t c = mcb__bits(p->split, bit + p->feature_bits, p->threshold_bits) +
                     (uint64_t)mcb__uint(&p->first, f);
        float v = mcb__value(x, values, mcb__uint(&p->feature, f));
        if (v <= (float)mcb__real(&p->threshold, c) ||
            (v != v && p->flags & MCB__PACK_MISSING &&
             mcb__bits(p->split, bit + p->split_bits - 1, 1))) {
            end = i + right;
            i++;
        } else {
            leaf += right;
            i += right;
        }
    }
    return leaf;
}

/* Add the trees from <= t < to to the scores of a row. */
MCB__INLINE void mcb__add_packed_inner(const mcb_model *m, const mcb__pack *p, const void *x,
                                       int values, uint64_t from, uint64_t to, double *scores) {
    uint64_t t, begin = 0;
    for (t = 0; t < to; t++) {
        uint64_t end = begin + mcb__pack_size(p, t);
        if (t >= from) {
            uint64_t leaf = mcb__pack_leaf(p, x, values, begin, end, begin + t);
            if (p->flags & MCB__PACK_CLASSES) {
                uint32_t k = mcb__bits(p->cls, t * p->class_bits, p->class_bits);
                scores[k] +=
                    mcb__real(&p->value, mcb__bits(p->leaf, leaf * p->leaf_bits, p->leaf_bits));
            } else {
                uint64_t bit = leaf * m->n_classes * p->leaf_bits;
                uint32_t k;
                for (k = 0; k < m->n_classes; k++, bit += p->leaf_bits)
                    scores[k] += mcb__real(&p->value, mcb__bits(p->leaf, bit, p->leaf_bits));
            }
        }
        begin = end;
    }
}

static inline void mcb__add_packed(const mcb_model *m, const void *x, int values, size_t n_rows,
                                   size_t stride, uint64_t from, uint64_t to, double *scores) {
    mcb__pack p;
    size_t r;
    mcb__pack_of(m, &p);
    for (r = 0; r < n_rows; r++, scores += m->n_classes) {
        const void *row = mcb__later(x, values, r * stride);
        if (values == MCB_VALUES_F32)
            mcb__add_packed_inner(m, &p, row, MCB_VALUES_F32, from, to, scores);
        else
            mcb__add_packed_inner(m, &p, row, values, from, to, scores);
    }
}

/* --------------------------------------------------------------------------------------------------- prepared trees */

/* How prepared trees lie in the memory that the caller provides. */

/* The caller's memory holds these, one array after the other. Trees are taken in blocks that use few different columns.
 * A column is a feature together with the side that NaN takes: rows are copied column by column with infinities in
 * place of NaN, and from there on x <= threshold is all that is asked. */
enum {
    MCB__COLUMNS = 1024,
    MCB__SPLITS = 10000,
    MCB__GROUP = 16,
    MCB__SORTED = 256,
    MCB__FEW = 32
};

typedef struct {
    uint32_t feature;
    float missing; /* what stands for NaN: an infinity */
} mcb__column;

typedef struct {
    uint64_t tree;   /* first tree */
    uint64_t column; /* first column */
} mcb__block;

/* Splits and leaves of a tree in preorder. A leaf has 0 to jump. */
typedef struct {
    float threshold; /* of a leaf: its value, or 1 + its number / 2^23 where leaves are vectors */
    uint16_t column;
    uint16_t jump[2]; /* distance to the right and to the left child, in pieces of 4 bytes */
    uint16_t shift;   /* where splits may ask for sets, see mcb__question */
} mcb__node;

/* A split of a tree with up to 32 leaves: `keep` has a 0 for each leaf that a row does not reach if it goes right. The
 * leaf of a row is the lowest 1 in the `keep` of all splits at which it goes right. */
typedef struct {
    float threshold;
    uint32_t keep, column; /* column times MCB__GROUP */
} mcb__split;

typedef struct {
    uint32_t split;     /* first split; the first node is 2 * split + number of the tree */
    uint32_t depth;     /* splits on the longest way to a leaf */
    uint16_t cls, base; /* base is the number of scores if there is none */
} mcb__tree;

/* For single rows, 256 trees of a block at a time are sorted from shallow to deep. */
typedef struct {
    uint32_t root;   /* its node */
    uint16_t number; /* which of the 256 trees */
    uint16_t depth;
} mcb__walk;

/* The same trees for AVX-512: a row's values become ranks, the numbers of thresholds of their column that are below them,
 * and a node takes 4 bytes. Two children lie side by side. From low to high a split has 6 bits of the column, 14 of the
 * threshold's number and 12 of the way to its left child; a leaf has 2^13 + its number for the threshold's number, which
 * is more than any rank, and 0 for the way. */
enum {
    MCB__R_COLUMNS = 64,
    MCB__R_CUTS = 8191,
    MCB__R_SPLITS = 2047,
    MCB__R_LEAST = 1000,
    MCB__R_LANES = 32
};
/* The nodes of the first three splits lie apart, and descents of so many more splits are put together anew. */
enum { MCB__R_TOP = 7, MCB__R_STEPS = 6 };
/* Leaves of trees that were sorted together: MCB__SORTED, and MCB__R_LANES that are thrown away. */
enum { MCB__R_LEAVES = 288 };

/* An order of trees in which groups of up to MCB__SORTED go from shallow to deep. Arrays of 32 bits have MCB__R_LANES more. */
typedef struct {
    uint32_t *root, *first; /* node and leaf that are the first of a tree */
    uint32_t *top
        [MCB__R_TOP]; /* its root, then children from left to right, then theirs; those of a leaf are like it */
    uint16_t *depth;
    uint16_t *place; /* of a tree in its group */
} mcb__sorted;

/* Descents that have not come to a leaf yet: where they are, and of which tree. */
typedef struct {
    uint32_t at[MCB__SORTED + 3 * 16], node[MCB__SORTED + 3 * 16], tree[MCB__SORTED + 3 * 16], n;
} mcb__rest;

typedef struct {
    uint32_t feature[MCB__R_COLUMNS]; /* those that are not there are like the first */
    float missing[MCB__R_COLUMNS];
    uint32_t begin[MCB__R_COLUMNS], end[MCB__R_COLUMNS]; /* of a column in `cut` */
    uint32_t n_columns, most; /* most: the largest power of 2 within thresholds of a column */
    const float *cut;         /* thresholds of each column, increasing */
    const uint32_t *node;     /* the root of a tree is where it is in the other layout */
    mcb__sorted all,
        early
            [2]; /* early, where the file has such exits: in the groups of mcb__ahead, between bounds */
} mcb__ranks;

/* Where splits may ask for sets of categories, columns are words of 32 bits, up to MCB__WORDS in a block, and blocks have
 * these in place of mcb__column. A feature with thresholds has one word: its value as an integer of the same order. A
 * categorical feature has a bit for each split of the block that asks for a set, in the order of the splits: 1 where the
 * row's code goes left. So the word << shift of a split, as a signed integer, is at most its threshold (-1 of a set, which
 * is below 0 where its bit is the highest) if and only if the row goes left. The words of every code lie in a table. */
enum { MCB__WORDS = 512, MCB__KEYS = 2048 };

typedef struct {
    uint32_t feature, kind; /* kind: 0 and 1 for thresholds, 1 where NaN goes left; MCB__SETS */
    uint32_t count, word;   /* splits of the block that ask for the feature, and its first word */
    uint32_t codes; /* that the sets cover: words of all others, which are missing, follow theirs */
    uint64_t table; /* first word in the table */
} mcb__question;

enum { MCB__SETS = 2 };

typedef struct {
    uint64_t n_blocks;
    int large;               /* most splits are in trees of more than 32 leaves */
    const mcb__block *block; /* n_blocks + 1 */
    const mcb__column *column;
    const mcb__question *question; /* in place of columns, where splits ask for sets; else null */
    const uint32_t *table;
    const mcb__tree *tree; /* trees + 1 */
    const mcb__walk *walk;
    const mcb__split *split;
    const mcb__node *node;
    const float *leaf;
    size_t step; /* from a leaf of a vector to the next: the number of classes, or somewhat more */
    const mcb__ranks *ranks; /* null if the trees are not laid out that way, too */
    const float *code;       /* null if the trees have none */
    const uint32_t
        *first; /* where the entries of each leaf begin; null if leaves have all classes */
    const uint16_t *entry; /* their classes */
    const float *all;      /* what each leaf adds to all classes; null if nothing */
    const mcb__walk *early
        [2]; /* for early exits: sorted from checkpoint to checkpoint, all of them or those with bounds */
    const uint16_t *used; /* columns of its block that a tree and those before it use */
} mcb__prepared;

/* Where rows may exit early: checkpoints of the file. */

/* The first checkpoint with bounds, which every other one up to the last has; of thresholds, all have one. */
static inline uint64_t mcb__first_exit(const mcb_model *m, int certified) {
    uint64_t K = m->n_classes;
    return certified ? m->section[MCB_S_EXIT].count + 1 -
                           2 * (m->section[MCB_S_PAIR].count / (K * (K - 1)))
                     : 0;
}

/* The first checkpoint from number c on, of those of a way, at which a row may exit; their count if there is none. Where
 * a bound is infinite no row exits, or only one in a thousand would: such a checkpoint is passed by. */
static inline uint64_t mcb__next_exit(const mcb_model *m, int certified, uint64_t c) {
    uint64_t count = m->section[MCB_S_EXIT].count, first = mcb__first_exit(m, certified),
             K = m->n_classes;
    if (certified)
        for (; c < count; c += 2)
            if (mcb__bound(&m->section[MCB_S_PAIR], (c - first) / 2 * K * (K - 1)) <= DBL_MAX)
                break;
    return c < count ? c : count;
}

/* The learners before the first of these checkpoints that comes after t learners, or all. c: where to begin to look,
 * moved on. */
static inline uint64_t mcb__part_end(const mcb_model *m, int certified, uint64_t t, uint64_t *c) {
    const mcb_section *checkpoint = &m->section[MCB_S_EXIT];
    *c = mcb__next_exit(m, certified, *c);
    while (*c < checkpoint->count && mcb__uint(checkpoint, *c) <= t)
        *c = mcb__next_exit(m, certified, *c + 1 + (uint64_t)certified);
    return *c < checkpoint->count ? mcb__uint(checkpoint, *c) : m->section[MCB_S_TSIZ].count;
}

/* ------------------------------------------------------------------------------------------ prepared trees: ranks */

/* Lays prepared trees out in ranks: each value of a row becomes the number of thresholds of its column below it. */

static inline size_t mcb__room(uint64_t count, size_t size) {
    return ((size_t)count * size + 7) / 8 * 8;
}

/* The next part of the memory from `at` on. */
#define MCB__TAKE(pointer, type, count)                                                            \
    pointer = (type *)(void *)at;                                                                  \
    at += mcb__room(count, sizeof(type))

static inline int mcb__can_rank(const mcb_model *m, uint64_t n_blocks, uint64_t n_columns) {
#if MCB__VECTOR && (MCB__CHOOSE || defined(__AVX512F__))
    const mcb_section *size = &m->section[MCB_S_TSIZ];
    uint64_t t, S = m->section[MCB_S_FEAT].count;
    if (m->section[MCB_S_LOFF].data) return 0;
    if (mcb__width() < 8 || n_blocks != 1 || n_columns > MCB__R_COLUMNS || S < MCB__R_LEAST ||
        S >= 1u << 29)
        return 0;
    for (t = 0; t < size->count; t++) {
        if (mcb__uint(size, t) > MCB__R_SPLITS) return 0;
    }
    return 1;
#else
    return (void)m, (void)n_blocks, (void)n_columns, 0;
#endif
}

static inline size_t mcb__order_size(uint64_t T) {
    return (2 + MCB__R_TOP) * mcb__room(T + MCB__R_LANES, sizeof(uint32_t)) +
           2 * mcb__room(T, sizeof(uint16_t));
}

/* Trees to descend together from number t on where a row may exit soon: 32, then those up to 128, then 128 each. */
MCB__INLINE uint64_t mcb__ahead(uint64_t t) {
    return t == 0 ? 32 : t == 32 ? 96 : 128;
}

static inline size_t mcb__ranks_size(const mcb_model *m) {
    uint64_t S = m->section[MCB_S_FEAT].count, T = m->section[MCB_S_TSIZ].count;
    return mcb__room(1, sizeof(mcb__ranks)) + mcb__room(S, sizeof(float)) +
           mcb__room(2 * S + T, sizeof(uint32_t)) +
           ((size_t)1 + (m->section[MCB_S_EXIT].data ? 1 : 0) +
            (m->section[MCB_S_PAIR].data ? 1 : 0)) *
               mcb__order_size(T);
}

/* Heap sort. */
static inline void mcb__sort_floats(float *v, size_t n) {
    size_t start = n / 2, end = n, i, child;
    while (end > 1) {
        float moved;
        if (start) {
            moved = v[--start];
        } else {
            moved = v[--end];
            v[end] = v[0];
        }
        for (i = start; (child = 2 * i + 1) < end; i = child) {
            if (child + 1 < end && v[child + 1] > v[child]) child++;
            if (!(v[child] > moved)) break;
            v[i] = v[child];
        }
        v[i] = moved;
    }
}

/* Thresholds of each column, sorted, each once. False if a column has too many. */
static inline int mcb__collect_cuts(const mcb_model *m, const mcb__prepared *p, mcb__ranks *ranks,
                                    float *cut) {
    uint32_t at = 0, c, i, most = 0;
    uint64_t j, S = m->section[MCB_S_FEAT].count;
    for (j = 0; j < S; j++) ranks->end[p->split[j].column / MCB__GROUP]++;
    for (c = 0; c < MCB__R_COLUMNS; c++) {
        ranks->begin[c] = at;
        at += ranks->end[c];
        ranks->end[c] = ranks->begin[c];
    }
    for (j = 0; j < S; j++)
        cut[ranks->end[p->split[j].column / MCB__GROUP]++] = p->split[j].threshold;
    for (c = 0; c < ranks->n_columns; c++) {
        float *mine = cut + ranks->begin[c];
        uint32_t n = ranks->end[c] - ranks->begin[c], distinct = 0;
        mcb__sort_floats(mine, n);
        for (i = 0; i < n; i++) {
            if (!distinct || mine[distinct - 1] < mine[i]) mine[distinct++] = mine[i];
        }
        ranks->end[c] = ranks->begin[c] + distinct;
        if (distinct > most) most = distinct;
    }
    for (ranks->most = 1; ranks->most <= most / 2;) ranks->most *= 2;
    return most <= MCB__R_CUTS;
}

/* Nodes of a tree of n splits in ranks. The other layout's nodes lend 16 bits for their places here. */
static inline void mcb__rank_tree(const mcb__ranks *ranks, mcb__node *from, uint32_t n,
                                  uint32_t *node) {
    uint32_t o, leaf = 0, next = 1;
    from[0].shift = 0;
    for (o = 0; o <= 2 * n; o++) {
        mcb__node *here = from + o, *right = here + here->jump[0] / (sizeof *here / 4);
        uint32_t at = here->shift, low, high;
        if (!here->jump[0]) {
            node[at] = ((MCB__R_CUTS + 1) | leaf++) << 6;
            continue;
        }
        low = ranks->begin[here->column];
        high = ranks->end[here->column] - 1;
        while (low < high) {
            uint32_t middle = low + (high - low) / 2;
            if (ranks->cut[middle] < here->threshold)
                low = middle + 1;
            else
                high = middle;
        }
        node[at] = here->column | (low - ranks->begin[here->column]) << 6 | (next - at) << 20;
        here[1].shift = (uint16_t)next;
        right->shift = (uint16_t)(next + 1);
        next += 2;
    }
}

/* Sort trees t to t + n from shallow to deep. */
static inline void mcb__order_trees(const mcb__tree *tree, const uint32_t *node, uint64_t t,
                                    uint64_t n, const mcb__sorted *out) {
    uint64_t i, j;
    uint32_t at[MCB__R_TOP];
    for (i = 0; i < n; i++) { /* root holds the trees' numbers for now */
        uint32_t *number = out->root + t;
        for (j = i; j && tree[number[j - 1]].depth > tree[t + i].depth; j--)
            number[j] = number[j - 1];
        number[j] = (uint32_t)(t + i);
    }
    for (i = t; i < t + n; i++) {
        uint32_t number = out->root[i];
        out->place[number] = (uint16_t)(i - t);
        out->depth[i] = (uint16_t)tree[number].depth;
        out->first[i] = tree[number].split + number;
        out->root[i] = at[0] = 2 * tree[number].split + number;
        for (j = 0; j < MCB__R_TOP; j++) {
            out->top[j][i] = node[at[j]];
            if (2 * j + 1 >= MCB__R_TOP) continue;
            at[2 * j + 1] = at[j] + (node[at[j]] >> 20);
            at[2 * j + 2] = at[2 * j + 1] + (node[at[j]] >> 20 ? 1 : 0);
        }
    }
}

static inline unsigned char *mcb__place_order(unsigned char *at, uint64_t T, mcb__sorted *out) {
    size_t i;
    MCB__TAKE(out->root, uint32_t, T + MCB__R_LANES);
    MCB__TAKE(out->first, uint32_t, T + MCB__R_LANES);
    for (i = 0; i < MCB__R_TOP; i++) {
        MCB__TAKE(out->top[i], uint32_t, T + MCB__R_LANES);
        memset(out->top[i] + T, 0, MCB__R_LANES * sizeof *out->root);
    }
    MCB__TAKE(out->depth, uint16_t, T);
    MCB__TAKE(out->place, uint16_t, T);
    memset(out->root + T, 0, MCB__R_LANES * sizeof *out->root);
    memset(out->first + T, 0, MCB__R_LANES * sizeof *out->first);
    return at;
}

/* Lay trees out in ranks, behind `ranks`. */
static inline int mcb__fill_ranks(const mcb_model *m, const mcb__prepared *p, mcb__node *from,
                                  mcb__ranks *ranks) {
    uint64_t S = m->section[MCB_S_FEAT].count, T = m->section[MCB_S_TSIZ].count, t, n, exit;
    unsigned char *at = (unsigned char *)ranks + mcb__room(1, sizeof *ranks);
    float *cut;
    uint32_t *node, c;
    MCB__TAKE(cut, float, S);
    MCB__TAKE(node, uint32_t, 2 * S + T);
    memset(ranks, 0, sizeof *ranks);
    at = mcb__place_order(at, T, &ranks->all);
    if (m->section[MCB_S_EXIT].data) at = mcb__place_order(at, T, &ranks->early[0]);
    if (m->section[MCB_S_PAIR].data) mcb__place_order(at, T, &ranks->early[1]);
    ranks->n_columns = (uint32_t)p->block[1].column;
    ranks->cut = cut;
    ranks->node = node;
    for (c = 0; c < MCB__R_COLUMNS; c++) {
        ranks->feature[c] = p->column[c < ranks->n_columns ? c : 0].feature;
        ranks->missing[c] = p->column[c < ranks->n_columns ? c : 0].missing;
    }
    if (!mcb__collect_cuts(m, p, ranks, cut)) return 0;
    for (t = 0; t < T; t++) {
        size_t begin = 2 * (size_t)p->tree[t].split + t;
        mcb__rank_tree(ranks, from + begin, p->tree[t + 1].split - p->tree[t].split, node + begin);
    }
    for (t = 0; t < T; t += n) {
        n = T - t < MCB__SORTED ? T - t : (uint64_t)MCB__SORTED;
        mcb__order_trees(p->tree, node, t, n, &ranks->all);
    }
    for (t = 0; t < T && m->section[MCB_S_EXIT].data; t += n) {
        n = T - t < mcb__ahead(t) ? T - t : mcb__ahead(t);
        mcb__order_trees(p->tree, node, t, n, &ranks->early[0]);
    }
    exit = mcb__first_exit(m, 1);
    for (t = 0; t < T && m->section[MCB_S_PAIR].data; t += n) {
        n = mcb__part_end(m, 1, t, &exit) - t;
        if (n > MCB__SORTED) n = MCB__SORTED;
        mcb__order_trees(p->tree, node, t, n, &ranks->early[1]);
    }
    return 1;
}

/* ------------------------------------------------------------------------------- prepared trees: sets of categories */

/* Prepares splits on sets of categories. */

/* Whether splits ask for sets. */
static inline int mcb__has_sets(const mcb_model *m) {
    return m->section[MCB_S_COFF].count > 1;
}

/* What the splits of a block ask for, found by feature and kind. */
typedef struct {
    mcb__question question[MCB__WORDS];
    uint32_t n, words;
    uint16_t slot[MCB__KEYS]; /* hash table: number of a question plus 1 */
} mcb__questions;

/* What is asked of a feature; null if there is no room for another one. */
static inline mcb__question *mcb__question_of(mcb__questions *u, uint32_t feature, uint32_t kind) {
    uint32_t at = (feature * 0x9e3779b1u + kind * 0x85ebca6bu) >> 21;
    mcb__question *question;
    for (; u->slot[at]; at = (at + 1) & (MCB__KEYS - 1)) {
        question = u->question + u->slot[at] - 1;
        if (question->feature == feature && question->kind == kind) return question;
    }
    if (u->n == MCB__WORDS) return 0;
    question = u->question + u->n;
    question->feature = feature;
    question->kind = kind;
    u->slot[at] = (uint16_t)++u->n;
    return question;
}

/* What split i asks; of a set, its number and the codes that it covers. */
static inline mcb__question *mcb__question_of_split(const mcb_model *m, uint64_t i,
                                                    mcb__questions *u, uint32_t *set,
                                                    uint32_t *codes) {
    const mcb_section *feat = &m->section[MCB_S_FEAT], *offset = &m->section[MCB_S_COFF];
    uint32_t top = feat->dtype == MCB_U8    ? 7
                   : feat->dtype == MCB_U16 ? 15
                                            : 31,
             f = mcb__uint(feat, i);
    *set = mcb__uint(&m->section[MCB_S_CSET], i);
    *codes = *set ? 8 * (mcb__uint(offset, *set) - mcb__uint(offset, *set - 1)) : 0;
    return mcb__question_of(u, f & ((1u << top) - 1), *set ? (uint32_t)MCB__SETS : f >> top);
}

/* Words of a question. */
MCB__INLINE uint32_t mcb__words_of(const mcb__question *question) {
    return question->kind == MCB__SETS ? question->count / 32 + (question->count % 32 != 0) : 1;
}

/* Count split i; false if the words of a block do not do. */
static inline int mcb__count_split(const mcb_model *m, uint64_t i, mcb__questions *u) {
    uint32_t set, codes, before;
    mcb__question *question = mcb__question_of_split(m, i, u, &set, &codes);
    if (!question) return 0;
    before = question->count ? mcb__words_of(question) : 0;
    question->count++;
    if (codes > question->codes) question->codes = codes;
    u->words += mcb__words_of(question) - before;
    return u->words <= MCB__WORDS;
}

/* Divide trees with sets into blocks. With block and question, write both; without, count: also the words of the table. False
 * if a tree has too many words or splits, or the table would take much more room than the sets. */
MCB__APART int mcb__plan_sets(const mcb_model *m, uint64_t *n_blocks, uint64_t *n_questions,
                              uint64_t *n_words, mcb__block *block, mcb__question *question) {
    const mcb_section *size = &m->section[MCB_S_TSIZ];
    uint64_t t = 0, i = 0, first, begin, n;
    uint32_t j, word;
    mcb__questions u;
    *n_blocks = *n_questions = *n_words = 0;
    while (t < size->count) {
        first = t;
        begin = i;
        memset(&u, 0, sizeof u);
        for (; t < size->count; t++, i += n) {
            uint64_t end = i + (n = mcb__uint(size, t)), k = i;
            if (n > MCB__SPLITS) return 0;
            while (k < end && mcb__count_split(m, k, &u)) k++;
            if (k < end) break;
        }
        if (t == first) return 0;
        if (t < size->count) { /* without the splits of the tree that does not fit */
            uint64_t k;
            memset(&u, 0, sizeof u);
            for (k = begin; k < i; k++) mcb__count_split(m, k, &u);
        }
        if (block) {
            block[*n_blocks].tree = first;
            block[*n_blocks].column = *n_questions;
        }
        for (j = word = 0; j < u.n; j++) {
            u.question[j].word = word;
            u.question[j].table = *n_words;
            word += mcb__words_of(u.question + j);
            if (u.question[j].kind == MCB__SETS)
                *n_words += ((uint64_t)u.question[j].codes + 1) * mcb__words_of(u.question + j);
            if (question) question[*n_questions + j] = u.question[j];
        }
        *n_questions += u.n;
        ++*n_blocks;
    }
    if (block) {
        block[*n_blocks].tree = t;
        block[*n_blocks].column = *n_questions;
    }
    return *n_words / 8 <= m->section[MCB_S_CBIT].count + 65536;
}

/* A number as an integer of the same order; -0 is 0. */
MCB__INLINE uint32_t mcb__ordered(float value) {
    uint32_t bits;
    value += 0.0f;
    memcpy(&bits, &value, sizeof bits);
    return bits >> 31 ? bits ^ 0x7fffffffu : bits;
}

/* The table, and the columns of the splits of a block: the word, and from bit 16 on the shift. */
MCB__APART void mcb__fill_sets(const mcb_model *m, const mcb__question *question,
                               uint64_t n_questions, uint64_t begin, uint64_t end,
                               mcb__split *split, uint32_t *table) {
    const mcb_section *feat = &m->section[MCB_S_FEAT];
    uint32_t top = feat->dtype == MCB_U8 ? 7 : feat->dtype == MCB_U16 ? 15 : 31, set, all, c;
    uint64_t i, j;
    mcb__questions u;
    memset(&u, 0, sizeof u);
    for (j = 0; j < n_questions; j++) { /* counted anew */
        mcb__question *one = mcb__question_of(&u, question[j].feature, question[j].kind);
        *one = question[j];
        one->count = 0;
    }
    for (i = begin; i < end; i++) {
        mcb__question *one = mcb__question_of_split(m, i, &u, &set, &all);
        const mcb__question *its = question + (one - u.question);
        uint32_t n = mcb__words_of(its), number = one->count++, missing = mcb__uint(feat, i) >> top;
        uint32_t *word = table + its->table + number / 32;
        float codes;
        const unsigned char *bits;
        split[i].column = its->word;
        if (!set) continue;
        split[i].column += number / 32 + (number % 32 << 16);
        bits = mcb__set(&m->section[MCB_S_COFF], m->section[MCB_S_CBIT].data, set, &codes);
        for (c = 0; c <= its->codes; c++, word += n)
            *word |= (uint32_t)mcb__goes_left(bits, codes, c < its->codes ? (float)c : -1.0f,
                                              (int)missing)
                     << (31 - number % 32);
    }
}

/* Blocks, questions and the table, and the columns of all splits. */
static inline void mcb__prepare_sets(const mcb_model *m, mcb__split *split, mcb__question *question,
                                     mcb__block *block, uint32_t *table) {
    uint64_t n_blocks, n_questions, n_words, b, t = 0, begin = 0, end = 0;
    mcb__plan_sets(m, &n_blocks, &n_questions, &n_words, block, question);
    memset(table, 0, (size_t)n_words * sizeof *table);
    for (b = 0; b < n_blocks; b++, begin = end) {
        for (; t < block[b + 1].tree; t++) end += mcb__uint(&m->section[MCB_S_TSIZ], t);
        mcb__fill_sets(m, question + block[b].column, block[b + 1].column - block[b].column, begin,
                       end, split, table);
    }
}

/* What the nodes and splits of a tree compare. */
static inline void mcb__set_nodes(const mcb_model *m, uint64_t begin, uint32_t n, mcb__split *split,
                                  mcb__node *node) {
    uint32_t i, o, order;
    for (i = o = 0; o <= 2 * n; o++) {
        if (!node[o].jump[0]) continue;
        order = mcb__uint(&m->section[MCB_S_CSET], begin + i) ? 0xffffffffu
                                                              : mcb__ordered(split[i].threshold);
        memcpy(&split[i].threshold, &order, sizeof order);
        node[o].threshold = split[i].threshold;
        node[o].shift = (uint16_t)(split[i].column >> 20);
        i++;
    }
}

/* Words of n_rows rows, `step` apart in v. */
MCB__INLINE void mcb__copy_words(const mcb__prepared *p, const mcb__block *block, const void *x,
                                 int values, size_t n_rows, size_t stride, size_t step, float *v) {
    const mcb__question *question = p->question + block->column,
                        *end = p->question + block[1].column;
    const uint32_t *from[MCB__GROUP] = {0};
    uint32_t word[MCB__GROUP] = {0};
    size_t r, w, n;
    for (; question < end; question++) {
        n = mcb__words_of(question);
        for (r = 0; r < step; r++) {
            const void *row = mcb__later(x, values, (r < n_rows ? r : n_rows - 1) * stride);
            float value = mcb__value(row, values, question->feature);
            if (question->kind != MCB__SETS) {
                word[r] = mcb__ordered(
                    value != value ? (question->kind ? -FLT_MAX * 2 : FLT_MAX * 2) : value);
            } else {
                uint32_t code = value >= 0 && value < (float)question->codes ? (uint32_t)value
                                                                             : question->codes;
                from[r] = p->table + question->table +
                          ((float)code == value ? code : question->codes) * n;
            }
        }
        for (w = 0; w < n; w++) {
            float *to = v + (question->word + w) * step;
            if (question->kind == MCB__SETS) {
                for (r = 0; r < step; r++) word[r] = from[r][w];
            }
            memcpy(to, word, step * sizeof *to);
        }
    }
}

/* The bits of a float. */
MCB__INLINE int32_t mcb__order_of(float value) {
    int32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Whether a row goes left at a node; v: its column. `sets` is a constant: whether columns are words. */
MCB__INLINE int mcb__left(const float *v, const mcb__node *node, int sets) {
    if (!sets) return *v <= node->threshold;
    return (int32_t)((uint32_t)mcb__order_of(*v) << node->shift) <= mcb__order_of(node->threshold);
}

/* ------------------------------------------------------------------------------------- prepared trees: the whole */

/* Prepares a model for fast scoring: plans the blocks of trees, and fills the memory. */

/* Divide the trees into blocks. With split, column and block, write the columns of splits, the columns and the blocks;
 * without, count. False if a tree has too many columns or splits. */
static inline int mcb__plan(const mcb_model *m, uint64_t *n_blocks, uint64_t *n_columns,
                            mcb__split *split, mcb__column *column, mcb__block *block) {
    const mcb_section *feat = &m->section[MCB_S_FEAT], *size = &m->section[MCB_S_TSIZ];
    uint32_t top = feat->dtype == MCB_U8    ? 7
                   : feat->dtype == MCB_U16 ? 15
                                            : 31,
             key[MCB__COLUMNS], used = 0, i;
    uint16_t slot[4 * MCB__COLUMNS]; /* hash table: number of a column plus 1 */
    uint64_t t = 0, begin = 0, first = 0, leaves = feat->count + size->count;
    memset(slot, 0, sizeof slot);
    *n_blocks = *n_columns = 0;
    if (leaves >= UINT64_C(1) << 31 || leaves >= SIZE_MAX / 64 / (m->n_classes + (size_t)1))
        return 0;
    while (t < size->count) {
        uint32_t n = mcb__uint(size, t), before = used;
        if (n > MCB__SPLITS) return 0;
        for (i = 0; i < n; i++) {
            uint32_t f = mcb__uint(feat, begin + i), k = (f & ((1u << top) - 1)) << 1 | f >> top;
            uint32_t at = k * 0x9e3779b1u >> 20;
            while (slot[at] && key[slot[at] - 1] != k) at = (at + 1) & (4 * MCB__COLUMNS - 1);
            if (!slot[at]) {
                if (used == MCB__COLUMNS) break;
                key[used] = k;
                slot[at] = (uint16_t)++used;
            }
            if (split) split[begin + i].column = slot[at] - 1u;
        }
        if (i < n) { /* a new block begins with this tree */
            if (t == first) return 0;
            used = before;
        } else {
            begin += n;
            if (++t < size->count) continue;
        }
        if (block) {
            block[*n_blocks].tree = first;
            block[*n_blocks].column = *n_columns;
            for (i = 0; i < used; i++) {
                column[*n_columns + i].feature = key[i] >> 1;
                column[*n_columns + i].missing = key[i] & 1 ? -FLT_MAX * 2 : FLT_MAX * 2;
            }
        }
        ++*n_blocks;
        *n_columns += used;
        first = t;
        used = 0;
        memset(slot, 0, sizeof slot);
    }
    if (block) {
        block[*n_blocks].tree = t;
        block[*n_blocks].column = *n_columns;
    }
    return 1;
}

/* Nodes of a tree of n splits, of which `column` is known, and their `keep`; returns the depth. */
static inline uint32_t mcb__build_tree(const mcb_model *m, uint64_t begin, uint32_t n,
                                       const float *leaf_value, mcb__split *split,
                                       mcb__node *node) {
    const mcb_section *right = &m->section[MCB_S_RGHT];
    uint32_t i, leaf, unset = 0xffffffffu, depth = 0;
    /* keep and column of a node: for now the number of leaves before the split, and its depth. A split's parent comes
     * before all others that may take it for their child: those for which a leaf lies between. */
    for (i = 0; i < n; i++) split[i].keep = i ? unset : 0;
    node->column = 1;
    for (i = 0; i < n; i++) {
        uint32_t r = mcb__uint(right, begin + i), below = node[i].column + 1u;
        if (below > depth + 1) depth = below - 1;
        if (r > 1) {
            split[i + 1].keep = split[i].keep;
            node[i + 1].column = (uint16_t)below;
        }
        if (i + r < n && split[i + r].keep == unset) {
            split[i + r].keep = split[i].keep + r;
            node[i + r].column = (uint16_t)below;
        }
    }
    for (i = leaf = 0; i + leaf <= 2 * n;) {
        mcb__node *here = node + i + leaf;
        memset(here, 0, sizeof *here);
        if (i < n && split[i].keep == leaf) {
            uint32_t r = mcb__uint(right, begin + i);
            here->threshold = split[i].threshold =
                mcb__f32(m->section[MCB_S_THRS].data + 4 * (begin + i));
            here->column = (uint16_t)split[i].column;
            here->jump[0] = (uint16_t)(2 * r * (sizeof *here / 4));
            here->jump[1] = sizeof *here / 4;
            split[i].column *= MCB__GROUP;
            split[i].keep = n < MCB__FEW ? ~(((1u << r) - 1) << leaf) : 0;
            i++;
        } else {
            uint32_t bits = 0x3f800000u + leaf;
            if (m->section[MCB_S_TCLS].data)
                here->threshold = leaf_value[leaf];
            else
                memcpy(&here->threshold, &bits, sizeof bits);
            leaf++;
        }
    }
    return depth;
}

/* Walks through n trees from number t on. */
static inline void mcb__sort_trees(const mcb__tree *tree, uint64_t t, uint32_t n, mcb__walk *walk) {
    uint32_t i, j;
    for (i = 0; i < n; i++) {
        for (j = i; j && walk[j - 1].depth > tree[i].depth; j--) walk[j] = walk[j - 1];
        walk[j].root = (uint32_t)(2 * (uint64_t)tree[i].split + t + i);
        walk[j].number = (uint16_t)i;
        walk[j].depth = (uint16_t)tree[i].depth;
    }
}

/* Walks through the trees of every part between two checkpoints, and the columns that trees use. */
static inline void mcb__sort_parts(const mcb_model *m, const mcb__prepared *p,
                                   mcb__walk *const walk[2], uint16_t *used) {
    uint64_t T = m->section[MCB_S_TSIZ].count, t, c, b, n, stop;
    int certified;
    for (certified = 0; certified < 2; certified++) {
        c = mcb__first_exit(m, certified);
        for (t = b = 0; t < T; t += n) {
            for (; p->block[b + 1].tree <= t; b++) {
            }
            stop = mcb__part_end(m, certified, t, &c);
            n = (stop < p->block[b + 1].tree ? stop : p->block[b + 1].tree) - t;
            if (n > MCB__SORTED) n = MCB__SORTED;
            mcb__sort_trees(p->tree + t, t, (uint32_t)n, walk[certified] + t);
        }
    }
    for (t = b = 0; t < T; t++) {
        const mcb__split *split = p->split + p->tree[t].split,
                         *end = p->split + p->tree[t + 1].split;
        for (; p->block[b + 1].tree <= t; b++) {
        }
        for (used[t] = t > p->block[b].tree ? used[t - 1] : 0; split < end; split++) {
            if (split->column / MCB__GROUP >= used[t])
                used[t] = (uint16_t)(split->column / MCB__GROUP + 1);
        }
    }
}

/* Room between leaves: enough for whole vectors of up to 4, where there are not many of them. */
static inline size_t mcb__leaf_step(const mcb_model *m) {
    size_t K = m->section[MCB_S_TCLS].data || m->section[MCB_S_LOFF].data ? 1 : m->n_classes, W = 1;
#if MCB__VECTOR
    W = mcb__width() < 4 ? 2 : 4;
#endif
    return K > 2 && K <= 48 ? (K + W - 1) / W * W : K;
}

static inline uint64_t mcb__n_leaf_values(const mcb_model *m) {
    if (m->section[MCB_S_LOFF].data) return m->section[MCB_S_LEAF].count;
    return (m->section[MCB_S_FEAT].count + m->section[MCB_S_TSIZ].count) * mcb__leaf_step(m);
}

/* What leaves add: values, the code, where entries begin and their classes, and numbers for all classes. */
static inline void mcb__copy_leaves(const mcb_model *m, mcb__prepared *p, float *leaf, float *code,
                                    uint32_t *first, uint16_t *entry, float *all) {
    const mcb_section *s = m->section;
    uint64_t i;
    size_t step = mcb__leaf_step(m), K = step > 1 ? m->n_classes : 1, k;
    for (i = 0; i < mcb__n_leaf_values(m) / step; i++) {
        for (k = 0; k < step; k++)
            leaf[i * step + k] = k < K ? (float)mcb__real(&s[MCB_S_LEAF], i * K + k) : 0;
    }
    for (i = 0; i < s[MCB_S_CODE].count; i++) code[i] = mcb__f32(s[MCB_S_CODE].data + 4 * i);
    for (i = 0; i < s[MCB_S_LOFF].count; i++) first[i] = mcb__uint(&s[MCB_S_LOFF], i);
    for (i = 0; i < s[MCB_S_LCLS].count; i++) entry[i] = (uint16_t)mcb__uint(&s[MCB_S_LCLS], i);
    for (i = 0; i < s[MCB_S_LALL].count; i++) all[i] = (float)mcb__real(&s[MCB_S_LALL], i);
    p->first = s[MCB_S_LOFF].data ? first : 0;
    p->entry = entry;
    p->all = s[MCB_S_LALL].data ? all : 0;
}

/* Bytes that mcb_prepare needs; 0 if there is nothing to prepare: the model is neither a linear machine nor made of
 * trees, or has a tree with over 10,000 splits, or one with over 1024 different features. Where splits ask for
 * sets of categories, a tree may have about 500 features and 16,000 sets. A linear machine takes a copy of its
 * coefficients, which only mcb_scores_sparse reads. */
MCB_API size_t mcb_prepared_size(const mcb_model *m) {
    uint64_t n_blocks, n_columns, n_words = 0, S = m->section[MCB_S_FEAT].count,
                                  T = m->section[MCB_S_TSIZ].count;
    int sets = mcb__has_sets(m);
    if (m->kind == MCB_KIND_LINEAR) return mcb__room(m->section[MCB_S_WMAT].count, sizeof(float));
    if (m->kind != MCB_KIND_TREES) return 0;
    if (!(sets ? mcb__plan_sets(m, &n_blocks, &n_columns, &n_words, 0, 0)
               : mcb__plan(m, &n_blocks, &n_columns, 0, 0, 0)))
        return 0;
    return mcb__room(1, sizeof(mcb__prepared)) + mcb__room(n_blocks + 1, sizeof(mcb__block)) +
           mcb__room(n_columns, sets ? sizeof(mcb__question) : sizeof(mcb__column)) +
           mcb__room(n_words, sizeof(uint32_t)) + mcb__room(T + 1, sizeof(mcb__tree)) +
           mcb__room(T, sizeof(mcb__walk)) + mcb__room(S, sizeof(mcb__split)) +
           mcb__room(2 * S + T, sizeof(mcb__node)) +
           mcb__room(mcb__n_leaf_values(m), sizeof(float)) +
           (!sets && mcb__can_rank(m, n_blocks, n_columns) ? mcb__ranks_size(m) : 0) +
           mcb__room(m->section[MCB_S_CODE].count, sizeof(float)) +
           mcb__room(m->section[MCB_S_LOFF].count, sizeof(uint32_t)) +
           mcb__room(m->section[MCB_S_LCLS].count, sizeof(uint16_t)) +
           mcb__room(m->section[MCB_S_LALL].count, sizeof(float)) +
           (m->section[MCB_S_EXIT].data
                ? 2 * mcb__room(T, sizeof(mcb__walk)) + mcb__room(T, sizeof(uint16_t))
                : 0);
}

static inline int mcb__prepare_linear(mcb_model *m, float *out) {
    size_t k, j, K = m->n_classes, d = m->n_features;
    for (j = 0; j < d; j++) {
        for (k = 0; k < K; k++)
            out[j * K + k] = mcb__f32(m->section[MCB_S_WMAT].data + 4 * (k * d + j));
    }
    m->prepared = out;
    return MCB_OK;
}

/* Lay trees out for speed, in the caller's memory; scores keep their bits and come several times as fast. Linear
 * machines are laid out for mcb_scores_sparse; the other functions do not need that.
 *
 * The memory is aligned as malloc does (to 8 bytes) and has mcb_prepared_size(model) bytes or more. It must stay there,
 * unchanged, while the model or a copy of it is used; there is nothing to undo. Without this call, or where there is
 * nothing to prepare, trees are scored from the bytes of the file. MCB_E_ARGUMENT if the memory is too small or misaligned. */
MCB_API int mcb_prepare(mcb_model *m, void *memory, size_t size) {
    uint64_t n_blocks, n_columns, n_words = 0, t, i, begin = 0, large = 0,
                                  S = m->section[MCB_S_FEAT].count;
    uint64_t T = m->section[MCB_S_TSIZ].count;
    unsigned char *at = (unsigned char *)memory;
    const mcb_section *s = m->section;
    mcb__prepared *p;
    mcb__block *block;
    mcb__column *column;
    mcb__question *question;
    mcb__tree *tree;
    mcb__walk *walk;
    mcb__split *split;
    mcb__node *node;
    float *leaf, *code, *all;
    mcb__walk *early[2];
    uint32_t *first, *table;
    uint16_t *used, *entry;
    mcb__ranks *ranks;
    int sets = mcb__has_sets(m);
    size_t needed = mcb_prepared_size(m);
    if (!needed) return MCB_OK;
    if (!memory || size < needed || (uintptr_t)memory % 8) return MCB_E_ARGUMENT;
    if (m->kind == MCB_KIND_LINEAR) return mcb__prepare_linear(m, (float *)memory);
    if (sets)
        mcb__plan_sets(m, &n_blocks, &n_columns, &n_words, 0, 0);
    else
        mcb__plan(m, &n_blocks, &n_columns, 0, 0, 0);
    MCB__TAKE(p, mcb__prepared, 1);
    MCB__TAKE(block, mcb__block, n_blocks + 1);
    MCB__TAKE(column, mcb__column, sets ? 0 : n_columns);
    MCB__TAKE(question, mcb__question, sets ? n_columns : 0);
    MCB__TAKE(table, uint32_t, n_words);
    MCB__TAKE(tree, mcb__tree, T + 1);
    MCB__TAKE(walk, mcb__walk, T);
    MCB__TAKE(split, mcb__split, S);
    MCB__TAKE(node, mcb__node, 2 * S + T);
    MCB__TAKE(leaf, float, mcb__n_leaf_values(m));
    MCB__TAKE(code, float, s[MCB_S_CODE].count);
    MCB__TAKE(first, uint32_t, s[MCB_S_LOFF].count);
    MCB__TAKE(entry, uint16_t, s[MCB_S_LCLS].count);
    MCB__TAKE(all, float, s[MCB_S_LALL].count);
    MCB__TAKE(early[0], mcb__walk, s[MCB_S_EXIT].data ? T : 0);
    MCB__TAKE(early[1], mcb__walk, s[MCB_S_EXIT].data ? T : 0);
    MCB__TAKE(used, uint16_t, s[MCB_S_EXIT].data ? T : 0);
    ranks = !sets && mcb__can_rank(m, n_blocks, n_columns) ? (mcb__ranks *)(void *)at : 0;
    if (sets)
        mcb__prepare_sets(m, split, question, block, table);
    else
        mcb__plan(m, &n_blocks, &n_columns, split, column, block);
    mcb__copy_leaves(m, p, leaf, code, first, entry, all);
    for (t = 0; t < T; t++) {
        uint32_t n = mcb__uint(&s[MCB_S_TSIZ], t);
        tree[t].split = (uint32_t)begin;
        tree[t].cls = (uint16_t)(s[MCB_S_TCLS].data ? mcb__uint(&s[MCB_S_TCLS], t) : 0);
        tree[t].base =
            (uint16_t)(s[MCB_S_TBAS].data ? mcb__uint(&s[MCB_S_TBAS], t) : mcb_score_width(m));
        tree[t].depth = mcb__build_tree(m, begin, n, s[MCB_S_TCLS].data ? leaf + begin + t : leaf,
                                        split + begin, node + 2 * begin + t);
        if (sets) mcb__set_nodes(m, begin, n, split + begin, node + 2 * begin + t);
        begin += n;
        large += n < MCB__FEW ? 0 : n;
    }
    tree[T].split = (uint32_t)begin;
    tree[T].depth = tree[T].cls = tree[T].base = 0;
    for (i = 0; i < n_blocks; i++) {
        for (t = block[i].tree; t < block[i + 1].tree; t += MCB__SORTED) {
            uint64_t n = block[i + 1].tree - t;
            mcb__sort_trees(tree + t, t, n < MCB__SORTED ? (uint32_t)n : (uint32_t)MCB__SORTED,
                            walk + t);
        }
    }
    p->n_blocks = n_blocks;
    p->large = large > S / 2;
    p->block = block;
    p->column = column;
    p->question = sets ? question : 0;
    p->table = table;
    p->tree = tree;
    p->walk = walk;
    p->split = split;
    p->node = node;
    p->leaf = leaf;
    p->step = mcb__leaf_step(m);
    p->ranks = 0;
    p->code = s[MCB_S_CODE].data && !m->decoder ? code : 0;
    p->early[0] = early[0];
    p->early[1] = early[1];
    p->used = used;
    if (s[MCB_S_EXIT].data && !sets) mcb__sort_parts(m, p, early, used);
    if (ranks && mcb__fill_ranks(m, p, node, ranks)) p->ranks = ranks;
    m->prepared = p;
    return MCB_OK;
}

/* ---------------------------------------------------------------------------------- prepared trees: descents in ranks */

/* Descends trees that are laid out in ranks, 16 descents at a time, with AVX-512. */

#if MCB__VECTOR && (MCB__CHOOSE || defined(__AVX512F__))

typedef uint32_t mcb__u16x __attribute__((vector_size(64)));
typedef int32_t mcb__s16x __attribute__((vector_size(64)));
typedef uint16_t mcb__w16x __attribute__((vector_size(32)));
typedef uint16_t mcb__wm16x __attribute__((vector_size(32), aligned(1), may_alias));
typedef float mcb__f16x __attribute__((vector_size(64)));
typedef uint32_t mcb__um16x __attribute__((vector_size(64), aligned(1), may_alias));
typedef float mcb__fm16x __attribute__((vector_size(64), aligned(1), may_alias));
#define MCB__ALL16(v) {v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v}

/* 16 numbers of 4 bytes from the places in `at`. */
#define MCB__GATHER(result, base, at)                                                              \
    do {                                                                                           \
        uint16_t all16;                                                                            \
        __asm__ volatile("kxnorw %1, %1, %1\n\tvpgatherdd (%2,%3,4), %0%{%1%}"                     \
                         : "=&v"(result), "=&Yk"(all16)                                            \
                         : "r"(base), "v"(at)                                                      \
                         : "memory");                                                              \
    } while (0)

/* Values of 16 columns of a row, with infinities for NaN. */
MCB__AVX512 MCB__INLINE void mcb__values_of(const mcb__ranks *p, const void *x, int values,
                                            uint32_t c, mcb__f16x *out) {
    mcb__u16x bits, missing = *(const mcb__um16x *)(p->missing + c);
    mcb__f16x value;
    uint32_t i;
    if (values == MCB_VALUES_F32) {
        mcb__u16x feature = *(const mcb__um16x *)(p->feature + c);
        MCB__GATHER(bits, x, feature);
        value = (mcb__f16x)bits;
    } else {
        for (i = 0; i < 16; i++) value[i] = mcb__value(x, values, p->feature[c + i]);
    }
    bits = (mcb__u16x)(value != value);
    *out = (mcb__f16x)(((mcb__u16x)value & ~bits) | (missing & bits));
}

/* Ranks of a row, 16 bits each: of columns 0 to 31, and of the others. Searches of all columns go on side by side. */
#define MCB__R_VALUES(i)                                                                           \
    mcb__u16x from##i = *(const mcb__um16x *)(p->begin + 16 * i), found##i = from##i;              \
    mcb__u16x to##i = *(const mcb__um16x *)(p->end + 16 * i);                                      \
    mcb__f16x value##i = (mcb__f16x)from##i;                                                       \
    if (16 * i < p->n_columns) mcb__values_of(p, x, values, 16 * i, &value##i);
#define MCB__R_SEARCH(i)                                                                           \
    if (16 * i < p->n_columns) {                                                                   \
        mcb__u16x middle = found##i + (half - 1), inside = (mcb__u16x)(middle < to##i), cut;       \
        middle &= inside;                                                                          \
        MCB__GATHER(cut, p->cut, middle);                                                          \
        found##i += ((mcb__u16x)((mcb__f16x)cut < value##i) & inside) & half;                      \
    }
#define MCB__R_FOUND(i)                                                                            \
    *(mcb__wm16x *)(void *)(rank + 16 * i) = __builtin_convertvector(found##i - from##i, mcb__w16x);
#define MCB__R_EACH1(X) X(0)
#define MCB__R_EACH2(X) X(0) X(1)
#define MCB__R_EACH3(X) MCB__R_EACH2(X) X(2)
#define MCB__R_EACH4(X) MCB__R_EACH3(X) X(3)
#define MCB__R_EACH5(X) MCB__R_EACH4(X) X(4)
#define MCB__R_EACH6(X) MCB__R_EACH5(X) X(5)
#define MCB__R_EACH7(X) MCB__R_EACH6(X) X(6)
#define MCB__R_EACH8(X) MCB__R_EACH7(X) X(7)
MCB__AVX512 MCB__INLINE void mcb__rank_row(const mcb__ranks *p, const void *x, int values,
                                           uint16_t *rank) {
    uint32_t half;
    MCB__R_EACH4(MCB__R_VALUES)
    for (half = p->most; half; half >>= 1) {
        MCB__R_EACH4(MCB__R_SEARCH)
    }
    MCB__R_EACH4(MCB__R_FOUND)
}

/* All ones in `right` where 16 descents go right: a node's column is its lowest 6 bits, and chooses among 64 ranks. */
#define MCB__R_RIGHT(right, node)                                                                  \
    mcb__u16x right = node;                                                                        \
    __asm__("vpermi2w %2, %1, %0" : "+v"(right) : "v"(low), "v"(high));                            \
    right = (mcb__u16x)((right & 0xffffu) > ((node >> 6) & 0x3fffu));
#define MCB__R_CHOOSE(right, yes, no) (((yes) & right) | ((no) & ~right))
#define MCB__R_FROM(array, i) *(const mcb__um16x *)(const void *)((array) + 16 * i)
/* The first three splits: the nodes that they may lead to lie side by side for all trees. */
#define MCB__R_BEGIN(i)                                                                            \
    mcb__u16x at##i = MCB__R_FROM(order->root + t, i),                                             \
              node##i = MCB__R_FROM(order->top[0] + t, i);                                         \
    {                                                                                              \
        MCB__R_RIGHT(one, node##i)                                                                 \
        mcb__u16x left = MCB__R_CHOOSE(one, MCB__R_FROM(order->top[5] + t, i),                     \
                                       MCB__R_FROM(order->top[3] + t, i));                         \
        mcb__u16x right = MCB__R_CHOOSE(one, MCB__R_FROM(order->top[6] + t, i),                    \
                                        MCB__R_FROM(order->top[4] + t, i));                        \
        at##i += (node##i >> 20) - one;                                                            \
        node##i = MCB__R_CHOOSE(one, MCB__R_FROM(order->top[2] + t, i),                            \
                                MCB__R_FROM(order->top[1] + t, i));                                \
        MCB__R_RIGHT(two, node##i)                                                                 \
        at##i += (node##i >> 20) - two;                                                            \
        node##i = MCB__R_CHOOSE(two, right, left);                                                 \
        MCB__R_STEP(i)                                                                             \
    }
#define MCB__R_STEP(i)                                                                             \
    {                                                                                              \
        MCB__R_RIGHT(side, node##i)                                                                \
        at##i += (node##i >> 20) - side;                                                           \
        MCB__GATHER(node##i, p->node, at##i);                                                      \
    }
#define MCB__R_MORE(i) more |= node##i;
#define MCB__R_END(i)                                                                              \
    *(mcb__um16x *)(leaf + 16 * i) =                                                               \
        MCB__R_FROM(order->first + t, i) + ((node##i >> 6) & (uint32_t)MCB__R_CUTS);
/* Descents that have not come to a leaf are put together. */
#define MCB__R_REST(i)                                                                             \
    {                                                                                              \
        uint16_t open;                                                                             \
        mcb__u16x packed, number = lane + (first + 16 * i);                                        \
        __asm__("vptestmd %1, %2, %0" : "=Yk"(open) : "v"(node##i), "v"(ways));                    \
        __asm__("vpcompressd %1, %0%{%2%}%{z%}" : "=v"(packed) : "v"(at##i), "Yk"(open));          \
        *(mcb__um16x *)(rest->at + rest->n) = packed;                                              \
        __asm__("vpcompressd %1, %0%{%2%}%{z%}" : "=v"(packed) : "v"(node##i), "Yk"(open));        \
        *(mcb__um16x *)(rest->node + rest->n) = packed;                                            \
        __asm__("vpcompressd %1, %0%{%2%}%{z%}" : "=v"(packed) : "v"(number), "Yk"(open));         \
        *(mcb__um16x *)(rest->tree + rest->n) = packed;                                            \
        rest->n += (uint32_t)__builtin_popcount(open);                                             \
    }
/* Leaves of 16 n trees from number t of those sorted on, after `steps` splits below the first three; the others are put
 * into `rest`, with their numbers from `first` on. */
#define MCB__DEFINE_RANKED(n)                                                                      \
    MCB__AVX512 MCB__APART void mcb__ranked_##n(const mcb__ranks *p, const mcb__sorted *order,     \
                                                uint64_t t, uint32_t steps, const uint16_t *rank,  \
                                                uint32_t first, uint32_t *leaf, mcb__rest *rest) { \
        const mcb__u16x lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};             \
        const mcb__u16x ways = MCB__ALL16(0xfff00000u);                                            \
        mcb__u16x low = *(const mcb__um16x *)(const void *)rank;                                   \
        mcb__u16x high = *(const mcb__um16x *)(const void *)(rank + MCB__R_COLUMNS / 2);           \
        MCB__R_EACH##n(MCB__R_BEGIN) for (; steps; steps--){                                       \
            MCB__R_EACH##n(MCB__R_STEP)} MCB__R_EACH##n(MCB__R_END) if (rest) {                    \
            MCB__R_EACH##n(MCB__R_REST)                                                            \
        }                                                                                          \
    }
MCB__DEFINE_RANKED(2)
MCB__DEFINE_RANKED(3)
MCB__DEFINE_RANKED(4)
MCB__DEFINE_RANKED(5)
MCB__DEFINE_RANKED(6)
MCB__DEFINE_RANKED(7)
MCB__DEFINE_RANKED(8)

#define MCB__R_AGAIN(i)                                                                            \
    mcb__u16x at##i = MCB__R_FROM(rest->at + from, i), node##i = MCB__R_FROM(rest->node + from, i);
#define MCB__R_KEEP(i) *(mcb__um16x *)(rest->node + from + 16 * i) = node##i;
/* The rest of 16 n descents from number `from` on. */
#define MCB__DEFINE_REST(n)                                                                        \
    MCB__AVX512 MCB__APART void mcb__rest_##n(const mcb__ranks *p, const uint16_t *rank,           \
                                              uint32_t from, mcb__rest *rest) {                    \
        mcb__u16x low = *(const mcb__um16x *)(const void *)rank, more;                             \
        mcb__u16x high = *(const mcb__um16x *)(const void *)(rank + MCB__R_COLUMNS / 2);           \
        uint16_t open;                                                                             \
        MCB__R_EACH##n(MCB__R_AGAIN) do {                                                          \
            MCB__R_EACH##n(MCB__R_STEP) MCB__R_EACH##n(MCB__R_STEP) more = node0;                  \
            MCB__R_EACH##n(MCB__R_MORE) more >>= 20;                                               \
            __asm__("vptestmd %1, %1, %0" : "=Yk"(open) : "v"(more));                              \
        }                                                                                          \
        while (open);                                                                              \
        MCB__R_EACH##n(MCB__R_KEEP)                                                                \
    }
MCB__DEFINE_REST(1)
MCB__DEFINE_REST(2)
MCB__DEFINE_REST(3)
MCB__DEFINE_REST(4)
MCB__DEFINE_REST(5)
MCB__DEFINE_REST(6)
MCB__DEFINE_REST(7)
MCB__DEFINE_REST(8)

/* Leaves of the descents that were put together. */
MCB__AVX512 MCB__INLINE void mcb__descend_rest(const mcb__ranks *p, const mcb__sorted *order,
                                               uint64_t t, const uint16_t *rank, mcb__rest *rest,
                                               uint32_t *leaf) {
    uint32_t i, n = rest->n;
    const mcb__u16x one = MCB__ALL16(1);
    if (!n) return;
    *(mcb__um16x *)(rest->at + n) = one * rest->at[0]; /* more of the first fill the last vector */
    *(mcb__um16x *)(rest->node + n) = one * rest->node[0];
    for (i = 0; i < n; i += 128) {
        switch (n - i > 112 ? 8 : (n - i + 15) / 16) {
        case 1:
            mcb__rest_1(p, rank, i, rest);
            break;
        case 2:
            mcb__rest_2(p, rank, i, rest);
            break;
        case 3:
            mcb__rest_3(p, rank, i, rest);
            break;
        case 4:
            mcb__rest_4(p, rank, i, rest);
            break;
        case 5:
            mcb__rest_5(p, rank, i, rest);
            break;
        case 6:
            mcb__rest_6(p, rank, i, rest);
            break;
        case 7:
            mcb__rest_7(p, rank, i, rest);
            break;
        default:
            mcb__rest_8(p, rank, i, rest);
            break;
        }
    }
    for (i = 0; i < n; i++)
        leaf[rest->tree[i]] =
            order->first[t + rest->tree[i]] + ((rest->node[i] >> 6) & (uint32_t)MCB__R_CUTS);
}

#define MCB__RANKED(n)                                                                             \
    mcb__ranked_##n(p, order, t + i, steps, rank, (uint32_t)i, leaf + i,                           \
                    depth > steps ? &rest : 0);                                                    \
    break;

/* Leaves of a row in trees t to t + n, which were sorted together, in the order of sorting. leaf: MCB__R_LEAVES. */
MCB__AVX512 MCB__APART void mcb__sorted_leaves(const mcb__ranks *p, const mcb__sorted *order,
                                               uint64_t t, size_t n, const uint16_t *rank,
                                               uint32_t *leaf) {
    uint32_t depth, steps;
    size_t i, vectors, parts, last;
    mcb__rest rest;
    rest.n = 0;
    for (i = 0; i < n; i += 16 * vectors) { /* parts of equal size */
        vectors = (n - i + 15) / 16;
        parts = (vectors + 7) / 8;
        vectors = (vectors + parts - 1) / parts;
        if (vectors < 2) vectors = 2;
        last = i + 16 * vectors < n ? i + 16 * vectors : n;
        depth = order->depth[t + last - 1];
        depth = depth > 3 ? depth - 3 : 0;
        steps = depth < MCB__R_STEPS ? depth : (uint32_t)MCB__R_STEPS;
        switch (vectors) {
        case 3:
            MCB__RANKED(3)
        case 4:
            MCB__RANKED(4)
        case 5:
            MCB__RANKED(5)
        case 6:
            MCB__RANKED(6)
        case 7:
            MCB__RANKED(7)
        case 8:
            MCB__RANKED(8)
        default:
            MCB__RANKED(2)
        }
    }
    mcb__descend_rest(p, order, t, rank, &rest, leaf);
}

/* The same in the order of the trees. */
MCB__AVX512 MCB__INLINE void mcb__find_ranked(const mcb__ranks *p, const mcb__sorted *order,
                                              uint64_t t, size_t n, const uint16_t *rank,
                                              size_t *row) {
    const uint16_t *place = order->place + t;
    MCB__ALIGNED uint32_t leaf[MCB__R_LEAVES];
    size_t i;
    mcb__sorted_leaves(p, order, t, n, rank, leaf);
    for (i = 0; i < n; i++) row[i] = leaf[place[i]];
}

#endif

/* ------------------------------------------------------------------------------------------- prepared trees: scores */

/* Descends prepared trees, and adds the values of their leaves. */

/* Copy the columns of a block of n_rows rows, `step` apart in v. */
MCB__INLINE void mcb__copy_columns(const mcb__prepared *p, const mcb__block *block, const void *x,
                                   int values, size_t n_rows, size_t stride, size_t step,
                                   float *v) {
    size_t n = (size_t)(block[1].column - block->column), c, r;
    const mcb__column *column = p->column + block->column;
    if (p->question) {
        mcb__copy_words(p, block, x, values, n_rows, stride, step, v);
        return;
    }
    for (r = 0; r < step; r++) {
        const void *from = mcb__later(x, values, (r < n_rows ? r : n_rows - 1) * stride);
        const float *row = (const float *)from;
        if (values != MCB_VALUES_F32) {
            for (c = 0; c < n; c++) v[c * step + r] = mcb__value(from, values, column[c].feature);
            continue;
        }
        for (c = 0; c < n; c++) {
            float value = row[column[c].feature];
            v[c * step + r] = value != value ? column[c].missing : value;
        }
    }
}

/* One step of 16 descents at a time, so that they do not wait for each other's loads; a descent that has come to its
 * leaf stays there. Where to go is looked up, as half of all jumps would be mispredicted. */
#define MCB__EACH(X)                                                                               \
    X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#define MCB__STEP(i)                                                                               \
    {                                                                                              \
        uint32_t jump = p##i->jump[mcb__left(v + MCB__PLACE(i, p##i->column), p##i, sets)];        \
        p##i = (const mcb__node *)(const void *)((const char *)p##i + 4 * (size_t)jump);           \
        MCB__HIDE(p##i); /* gcc would gather the pointers in a vector */                           \
    }
#define MCB__KEEP(i) node[i] = p##i;
#define MCB__MORE(i) p##i->jump[0] |
/* How many steps there are does not depend on the rows, so that jumps are foreseen; only deep trees are left early. */
#define MCB__DESCEND(BEGIN)                                                                        \
    MCB__EACH(BEGIN)                                                                               \
    for (;;) {                                                                                     \
        uint32_t n = depth < 12 ? depth : 12;                                                      \
        depth -= n;                                                                                \
        for (; n; n--) {                                                                           \
            MCB__EACH(MCB__STEP)                                                                   \
        }                                                                                          \
        if (!depth || !(MCB__EACH(MCB__MORE) 0)) break;                                            \
    }                                                                                              \
    MCB__EACH(MCB__KEEP)

/* Leaves of 16 trees for one row. node: their roots, then the leaves. */
MCB__INLINE void mcb__descend_trees(const mcb__node **node, uint32_t depth, const float *v,
                                    int sets) {
#define MCB__BEGIN(i) const mcb__node *p##i = node[i];
#define MCB__PLACE(i, column) column
    MCB__DESCEND(MCB__BEGIN)
#undef MCB__BEGIN
#undef MCB__PLACE
}

/* Leaves of one tree for the rows of a group. node[0]: its root. */
MCB__INLINE void mcb__descend_rows(const mcb__node **node, uint32_t depth, const float *v,
                                   int sets) {
#define MCB__BEGIN(i) const mcb__node *p##i = node[0];
#define MCB__PLACE(i, column) MCB__GROUP *(size_t)column + i
    MCB__DESCEND(MCB__BEGIN)
#undef MCB__BEGIN
#undef MCB__PLACE
}

/* What the leaves of one row have for a threshold, for the trees from t on up to `end`, or to the last one that was
 * sorted together with t; returns how many. */
MCB__INLINE size_t mcb__find_leaves(const mcb__prepared *p, const mcb__block *block, uint64_t t,
                                    uint64_t end, const float *v, float *found) {
    size_t before = (size_t)((t - block->tree) % MCB__SORTED), n = MCB__SORTED - before, i, j,
           all = n + before;
    const mcb__walk *walk = p->walk + t - before;
    mcb__walk some[MCB__SORTED];
    if (n > end - t) n = (size_t)(end - t);
    if (all > block[1].tree - t + before) all = (size_t)(block[1].tree - t) + before;
    if (n < all) { /* only some of those sorted */
        for (i = j = 0; i < all; i++) {
            some[j] = walk[i];
            some[j].number = (uint16_t)(walk[i].number - before);
            j += some[j].number < n;
        }
        walk = some;
    }
    for (i = 0; i < n; i += MCB__GROUP) {
        const mcb__node *node[MCB__GROUP];
        size_t most = n - i < MCB__GROUP ? n - i : (size_t)MCB__GROUP;
        for (j = 0; j < MCB__GROUP; j++) node[j] = p->node + walk[i + (j < most ? j : 0)].root;
        if (p->question)
            mcb__descend_trees(node, walk[i + most - 1].depth, v, 1);
        else
            mcb__descend_trees(node, walk[i + most - 1].depth, v, 0);
        for (j = 0; j < most; j++) found[walk[i + j].number] = node[j]->threshold;
    }
    return n;
}

MCB__INLINE uint32_t mcb__leaf_number(float threshold) {
    uint32_t bits;
    memcpy(&bits, &threshold, sizeof bits);
    return bits - 0x3f800000u;
}

MCB__INLINE const mcb__node *mcb__root(const mcb__prepared *p, uint64_t t) {
    return p->node + 2 * (size_t)p->tree[t].split + t;
}

MCB__INLINE void mcb__add_vector_2(const float *value, size_t K, double *scores) {
    size_t k;
    for (k = 0; k < K; k++) scores[k] += (double)value[k];
}

/* Add the vectors of n leaves one after the other to the scores of a row. */
MCB__INLINE void mcb__add_rows_plain(const mcb__prepared *p, const size_t *row, size_t n, size_t K,
                                     double *scores) {
    size_t i, k;
    for (i = 0; i < n; i++) {
        const float *value = p->leaf + row[i] * p->step;
        for (k = 0; k < K; k++) scores[k] += (double)value[k];
    }
}

#if MCB__VECTOR
/* gcc would widen halves and put them together; clang takes wide operands only in functions that are for AVX themselves. */
#if defined(__x86_64__) && !defined(__clang__)
#define MCB__WIDEN_4(wide, p) __asm__("vcvtps2pd %1, %0" : "=v"(wide) : "m"(*(const mcb__fm4 *)(p)))
#define MCB__WIDEN_8(wide, p) __asm__("vcvtps2pd %1, %0" : "=v"(wide) : "m"(*(const mcb__fm8 *)(p)))
#else
#define MCB__WIDEN_8(wide, p) wide = __builtin_convertvector(*(const mcb__fm8 *)(p), mcb__d8)
#define MCB__WIDEN_4(wide, p) wide = __builtin_convertvector(*(const mcb__fm4 *)(p), mcb__d4)
#endif
#if defined(__x86_64__) && !defined(__AVX__) && !defined(__clang__)
#define MCB__WIDEN_2(wide, p) __asm__("cvtps2pd %1, %0" : "=x"(wide) : "m"(*(const mcb__fm2 *)(p)))
#else
#define MCB__WIDEN_2(wide, p) wide = __builtin_convertvector(*(const mcb__fm2 *)(p), mcb__d2)
#endif

/* The same with sums in registers, of up to 12 W classes at a time. */
#define MCB__SUM_BEGIN(v, W)                                                                       \
    if (v < nv) sum[v] = *(const mcb__dm##W *)(all + W * v);
#define MCB__SUM_ADD(v, W)                                                                         \
    if (v < nv) {                                                                                  \
        mcb__d##W wide;                                                                            \
        MCB__WIDEN_##W(wide, value + W * v);                                                       \
        sum[v] += wide;                                                                            \
    }
#define MCB__SUM_END(v, W)                                                                         \
    if (v < nv) *(mcb__dm##W *)(all + W * v) = sum[v];
#define MCB__SUM_CASE_2(nv)                                                                        \
    case nv:                                                                                       \
        mcb__sum_rows_2(p, row, n, first, nv, all);                                                \
        break;
#define MCB__SUM_CASE_4(nv)                                                                        \
    case nv:                                                                                       \
        mcb__sum_rows_4(p, row, n, first, nv, all);                                                \
        break;
#define MCB__DEFINE_ADD_ROWS(W)                                                                    \
    MCB__INLINE void mcb__sum_rows_##W(const mcb__prepared *p, const size_t *row, size_t n,        \
                                       size_t first, size_t nv, double *all) {                     \
        mcb__d##W sum[12];                                                                         \
        size_t i;                                                                                  \
        MCB__EACH12(MCB__SUM_BEGIN, W)                                                             \
        for (i = 0; i < n; i++) {                                                                  \
            const float *value = p->leaf + row[i] * p->step + first;                               \
            MCB__EACH12(MCB__SUM_ADD, W)                                                           \
        }                                                                                          \
        MCB__EACH12(MCB__SUM_END, W)                                                               \
    }                                                                                              \
    MCB__INLINE void mcb__add_rows_##W(const mcb__prepared *p, const size_t *row, size_t n,        \
                                       size_t K, double *scores) {                                 \
        double all[12 * W];                                                                        \
        size_t first, k, nv;                                                                       \
        if (p->step % W) {                                                                         \
            mcb__add_rows_plain(p, row, n, K, scores);                                             \
            return;                                                                                \
        }                                                                                          \
        for (first = 0; first < K; first += nv * W) {                                              \
            nv = (p->step - first) / W < 12 ? (p->step - first) / W : 12;                          \
            for (k = 0; k < nv * W; k++) all[k] = first + k < K ? scores[first + k] : 0;           \
            switch (nv) { MCB__CASES12(MCB__SUM_CASE_##W) }                                        \
            for (k = 0; k < nv * W && first + k < K; k++) scores[first + k] = all[k];              \
        }                                                                                          \
    }
MCB__DEFINE_ADD_ROWS(2)
MCB__DEFINE_ADD_ROWS(4)
#define mcb__add_rows_8 mcb__add_rows_4

#define MCB__DEFINE_ADD_VECTOR(W)                                                                  \
    MCB__INLINE void mcb__add_vector_##W(const float *value, size_t K, double *scores) {           \
        size_t k;                                                                                  \
        for (k = 0; k + W <= K; k += W) {                                                          \
            mcb__d##W wide;                                                                        \
            MCB__WIDEN_##W(wide, value + k);                                                       \
            *(mcb__dm##W *)(scores + k) += wide;                                                   \
        }                                                                                          \
        for (; k < K; k++) scores[k] += (double)value[k];                                          \
    }
MCB__DEFINE_ADD_VECTOR(4)
MCB__DEFINE_ADD_VECTOR(8)

/* Leaf numbers of a tree of up to 32 leaves for a group of rows, in vectors of 2 W rows: every split is asked. */
#define MCB__LEAF_TYPES(W)                                                                         \
    typedef uint32_t mcb__ru##W __attribute__((vector_size(8 * W), may_alias));                    \
    typedef int32_t mcb__ri##W __attribute__((vector_size(8 * W), may_alias));                     \
    typedef float mcb__rf##W __attribute__((vector_size(8 * W), may_alias));
MCB__LEAF_TYPES(2)
MCB__LEAF_TYPES(4)
MCB__LEAF_TYPES(8)

#define MCB__SPREAD2(v) {v, v, v, v}
#define MCB__SPREAD4(v) {v, v, v, v, v, v, v, v}
#define MCB__SPREAD8(v) {v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v}

#define MCB__ROWS_BEGIN(q, W) mcb__ru##W s##q = ones;
#define MCB__ROWS_SPLIT(q, W)                                                                      \
    if (2 * W * q < MCB__GROUP)                                                                    \
        s##q &= (mcb__ru##W)(*(const mcb__rf##W *)(column + 2 * W * q) <= threshold) | keep;
#define MCB__WORDS_SPLIT(q, W)                                                                     \
    if (2 * W * q < MCB__GROUP)                                                                    \
        s##q &= (mcb__ru##W)((mcb__ri##W)(*(const mcb__ru##W *)(column + 2 * W * q) << shift) <=   \
                             order) |                                                              \
                keep;
/* The place of the lowest 1 is the exponent of the float that it becomes. */
#define MCB__ROWS_END(q, W)                                                                        \
    if (2 * W * q < MCB__GROUP) {                                                                  \
        mcb__rf##W lowest = __builtin_convertvector((mcb__ri##W)(s##q & (0 - s##q)), mcb__rf##W);  \
        *(mcb__ru##W *)(leaf + 2 * W * q) = (((mcb__ru##W)lowest >> 23) & 255) - 127;              \
    }
#define MCB__DEFINE_LEAVES(W)                                                                      \
    MCB__INLINE int mcb__ask_all_##W(const mcb__split *split, const mcb__split *end,               \
                                     const float *v, int sets, uint32_t *leaf) {                   \
        const mcb__ru##W ones = MCB__SPREAD##W(0xffffffffu);                                       \
        MCB__EACH4(MCB__ROWS_BEGIN, W)                                                             \
        for (; sets && split < end; split++) {                                                     \
            const float *column = v + (split->column & 0xfffffu);                                  \
            const uint32_t shift = split->column >> 20;                                            \
            mcb__ri##W order = MCB__SPREAD##W(mcb__order_of(split->threshold));                    \
            mcb__ru##W keep = MCB__SPREAD##W(split->keep);                                         \
            MCB__EACH4(MCB__WORDS_SPLIT, W)                                                        \
        }                                                                                          \
        for (; split < end; split++) {                                                             \
            const float *column = v + split->column;                                               \
            mcb__rf##W threshold = MCB__SPREAD##W(split->threshold);                               \
            mcb__ru##W keep = MCB__SPREAD##W(split->keep);                                         \
            MCB__EACH4(MCB__ROWS_SPLIT, W)                                                         \
        }                                                                                          \
        MCB__EACH4(MCB__ROWS_END, W)                                                               \
        return 1;                                                                                  \
    }
MCB__DEFINE_LEAVES(2)
MCB__DEFINE_LEAVES(4)
MCB__DEFINE_LEAVES(8)
#define MCB__ASK_ALL(W, p, t, v, leaf)                                                             \
    ((p)->tree[t + 1].split - (p)->tree[t].split < MCB__FEW &&                                     \
     mcb__ask_all_##W((p)->split + (p)->tree[t].split, (p)->split + (p)->tree[t + 1].split, v,     \
                      (p)->question != 0, leaf))
#else
#define mcb__add_rows_2 mcb__add_rows_plain
#define MCB__ASK_ALL(W, p, t, v, leaf) 0
#endif

/* A leaf's value times the code of its column; the products of two float32 numbers are exact. */
MCB__INLINE void mcb__add_code(const float *code, double value, size_t K, double *scores) {
    size_t k;
    for (k = 0; k < K; k++) scores[k] += value * (double)code[k];
}

MCB__INLINE size_t mcb__leaf_of(const mcb__prepared *p, uint64_t t, float found) {
    return p->tree[t].split + (size_t)t + mcb__leaf_number(found);
}

/* Bring the entries of a leaf nearer, some of the n trees before they are added, and before that where they begin. */
enum { MCB__AHEAD = 8 };
MCB__INLINE void mcb__fetch_entries(const mcb__prepared *p, uint64_t t, const float *found,
                                    size_t n) {
#if MCB__VECTOR
    if (n > 2 * MCB__AHEAD)
        __builtin_prefetch(p->first + mcb__leaf_of(p, t + 2 * MCB__AHEAD, found[2 * MCB__AHEAD]));
    if (n > MCB__AHEAD) {
        size_t leaf = mcb__leaf_of(p, t + MCB__AHEAD, found[MCB__AHEAD]);
        uint32_t e, end = p->first[leaf + 1];
        for (e = p->first[leaf]; e < end; e += 16) __builtin_prefetch(p->leaf + e);
        for (e = p->first[leaf]; e < end; e += 32) __builtin_prefetch(p->entry + e);
    }
#else
    (void)p;
    (void)t;
    (void)found;
    (void)n;
#endif
}

/* The entries of a leaf. */
MCB__INLINE void mcb__add_entries(const mcb__prepared *p, size_t leaf, double *scores) {
    uint32_t e, end = p->first[leaf + 1];
    for (e = p->first[leaf]; e < end; e++) scores[p->entry[e]] += (double)p->leaf[e];
}

/* What leaves add to all classes. */
MCB__INLINE void mcb__add_to_all(double all, size_t K, double *scores) {
    size_t k;
    for (k = 0; k < K && all != 0; k++) scores[k] += all;
}

/* Add the values of the leaves of n trees from t on. */
MCB__INLINE void mcb__add_values(const mcb__prepared *p, uint64_t t, const float *value, size_t n,
                                 size_t K, double *scores) {
    const mcb__tree *tree = p->tree + t, *end = tree + n;
    if (p->code) {
        for (; tree < end; tree++)
            mcb__add_code(p->code + tree->cls * K, (double)*value++, K, scores);
        return;
    }
    for (; tree < end; tree++, value++) {
        scores[tree->cls] += (double)*value;
        if (tree->base < K) scores[tree->base] -= (double)*value;
    }
}

/* ------------------------------------------------------------------------------- prepared trees: one row, or many */

/* Scores of prepared trees, for one row or for many. */

/* Whether trees from <= t < to can be descended in ranks. */
MCB__INLINE int mcb__all_ranked(const mcb__prepared *p, uint64_t from, uint64_t to) {
    return p->ranks && from == 0 && to == p->block[1].tree;
}

/* Rows to score together where none go side by side in ranks. Trees that ask all splits gain from 4 rows on, others from as
 * many as fill most of a group; large ones in ranks do not, if they fill the lanes of a row. */
MCB__INLINE size_t mcb__at_a_time(const mcb__prepared *p, int ranked, size_t n_rows) {
    if (n_rows < (p->large ? 13 : ranked ? 6 : 4)) return 1;
    if (ranked && p->large && p->block[1].tree >= MCB__R_LANES) return 1;
    return n_rows < MCB__GROUP ? n_rows : (size_t)MCB__GROUP;
}

/* Sums of one row wait for each other; those of four rows, of up to 16 classes, go on side by side. */
enum { MCB__R_ROWS = 4, MCB__R_SUMS = 16 };

#define MCB__RANKED_2 0
#define MCB__RANKED_4 0
#if MCB__VECTOR && (MCB__CHOOSE || defined(__AVX512F__))
#define MCB__RANKED_8 1
MCB__AVX512 MCB__APART void mcb__row_of_ranks(const mcb__prepared *p, size_t K, int vector,
                                              const void *x, int values, double *scores) {
    uint64_t t, end = p->block[1].tree;
    uint16_t rank[MCB__R_COLUMNS];
    size_t i, n;
    mcb__rank_row(p->ranks, x, values, rank);
    for (t = 0; t < end; t += n) {
        size_t row[MCB__SORTED];
        float value[MCB__SORTED];
        n = end - t < MCB__SORTED ? (size_t)(end - t) : (size_t)MCB__SORTED;
        mcb__find_ranked(p->ranks, &p->ranks->all, t, n, rank, row);
        for (i = 0; i < n && !vector; i++) value[i] = p->leaf[row[i]];
        if (vector)
            mcb__add_rows_8(p, row, n, K, scores);
        else
            mcb__add_values(p, t, value, n, K, scores);
    }
}

/* Sums of 4 nv numbers: in vectors of 8, and one of 4 where their number is odd. */
#define MCB__FOUR(X) X(0, 8, nv > 1, 0) X(1, 8, nv > 3, 8) X(2, 4, nv & 1, nv > 1 ? 8 : 0)
#define MCB__FOUR_BEGIN(v, W, used, from)                                                          \
    mcb__d##W a##v = MCB__SPLAT##W(0), b##v = a##v, c##v = a##v, d##v = a##v;                      \
    if (used) {                                                                                    \
        a##v = *(const mcb__dm##W *)(all + (from));                                                \
        b##v = *(const mcb__dm##W *)(all + MCB__R_SUMS + (from));                                  \
        c##v = *(const mcb__dm##W *)(all + 2 * MCB__R_SUMS + (from));                              \
        d##v = *(const mcb__dm##W *)(all + 3 * MCB__R_SUMS + (from));                              \
    }
#define MCB__FOUR_ADD(v, W, used, from)                                                            \
    if (used) {                                                                                    \
        mcb__d##W wide;                                                                            \
        MCB__WIDEN_##W(wide, first + (from));                                                      \
        a##v += wide;                                                                              \
        MCB__WIDEN_##W(wide, second + (from));                                                     \
        b##v += wide;                                                                              \
        MCB__WIDEN_##W(wide, third + (from));                                                      \
        c##v += wide;                                                                              \
        MCB__WIDEN_##W(wide, fourth + (from));                                                     \
        d##v += wide;                                                                              \
    }
#define MCB__FOUR_END(v, W, used, from)                                                            \
    if (used) {                                                                                    \
        *(mcb__dm##W *)(all + (from)) = a##v;                                                      \
        *(mcb__dm##W *)(all + MCB__R_SUMS + (from)) = b##v;                                        \
        *(mcb__dm##W *)(all + 2 * MCB__R_SUMS + (from)) = c##v;                                    \
        *(mcb__dm##W *)(all + 3 * MCB__R_SUMS + (from)) = d##v;                                    \
    }
MCB__AVX512 MCB__INLINE void mcb__sum_four(const mcb__prepared *p, uint32_t (*leaf)[MCB__R_LEAVES],
                                           const uint16_t *place, size_t n, size_t nv,
                                           double *all) {
    size_t i;
    MCB__FOUR(MCB__FOUR_BEGIN)
    for (i = 0; i < n; i++) {
        size_t at = place[i];
        const float *first = p->leaf + leaf[0][at] * p->step,
                    *second = p->leaf + leaf[1][at] * p->step;
        const float *third = p->leaf + leaf[2][at] * p->step,
                    *fourth = p->leaf + leaf[3][at] * p->step;
        MCB__FOUR(MCB__FOUR_ADD)
    }
    MCB__FOUR(MCB__FOUR_END)
}

/* Scores of 3 or 4 rows of trees with vectors of up to 16 numbers. */
MCB__AVX512 MCB__APART void mcb__rows_of_ranks(const mcb__prepared *p, size_t K, const void *x,
                                               int values, size_t n_rows, size_t stride,
                                               double *scores) {
    uint64_t t, end = p->block[1].tree;
    uint16_t rank[MCB__R_ROWS][MCB__R_COLUMNS];
    MCB__ALIGNED uint32_t leaf[MCB__R_ROWS][MCB__R_LEAVES];
    size_t r, k, n;
    double all[MCB__R_ROWS * MCB__R_SUMS];
    if (n_rows < MCB__R_ROWS)
        memset(leaf[MCB__R_ROWS - 1], 0, sizeof leaf[0]); /* its sums are thrown away */
    for (r = 0; r < MCB__R_ROWS; r++) {
        if (r < n_rows) mcb__rank_row(p->ranks, mcb__later(x, values, r * stride), values, rank[r]);
        for (k = 0; k < MCB__R_SUMS; k++)
            all[r * MCB__R_SUMS + k] = r < n_rows && k < K ? scores[r * K + k] : 0;
    }
    for (t = 0; t < end; t += n) {
        n = end - t < MCB__SORTED ? (size_t)(end - t) : (size_t)MCB__SORTED;
        for (r = 0; r < n_rows; r++)
            mcb__sorted_leaves(p->ranks, &p->ranks->all, t, n, rank[r], leaf[r]);
        switch (p->step / 4) {
        case 1:
            mcb__sum_four(p, leaf, p->ranks->all.place + t, n, 1, all);
            break;
        case 2:
            mcb__sum_four(p, leaf, p->ranks->all.place + t, n, 2, all);
            break;
        case 3:
            mcb__sum_four(p, leaf, p->ranks->all.place + t, n, 3, all);
            break;
        default:
            mcb__sum_four(p, leaf, p->ranks->all.place + t, n, 4, all);
            break;
        }
    }
    for (r = 0; r < n_rows; r++) {
        for (k = 0; k < K; k++) scores[r * K + k] = all[r * MCB__R_SUMS + k];
    }
}

/* How many rows go side by side; 1 where they do not: two rows would save less than they throw away. Groups of rows are
 * faster where trees do not fill the lanes of a row, or ask all splits. */
MCB__INLINE size_t mcb__side_by_side(const mcb__prepared *p, int vector, size_t n_rows) {
    if (!vector || n_rows < 3 || p->step % 4 || p->step > MCB__R_SUMS) return 1;
    if (n_rows > (p->large ? 12 : 7) && (!p->large || p->block[1].tree < MCB__R_LANES)) return 1;
    return n_rows < MCB__R_ROWS ? n_rows : (size_t)MCB__R_ROWS;
}
#else
#define mcb__row_of_ranks(p, K, vector, x, values, scores) (void)0
#define mcb__rows_of_ranks(p, K, x, values, n_rows, stride, scores) (void)0
#define mcb__side_by_side(p, vector, n_rows) 1
#endif

#define MCB__GROUP_2
#define MCB__GROUP_4
#if MCB__VECTOR && (MCB__CHOOSE || defined(__AVX512F__))
#define MCB__GROUP_8                                                                               \
    else if (mcb__sums_of_group(p, vector, n))                                                     \
        mcb__group_of_rows(p, K, x, values, n, stride, from, to, scores);

/* Numbers of a leaf whose sums for a group of rows take 6 KB, so that the stack is as large as mcb.h says. */
enum { MCB__G_SUMS = 48 };

/* Whether a group of rows has its sums side by side: trees of one block, with few numbers in a leaf. What is missing in
 * a group is added all the same, so that 4 and 5 rows are slower. */
MCB__INLINE int mcb__sums_of_group(const mcb__prepared *p, int vector, size_t n_rows) {
    return vector && !p->first && (p->n_blocks == 1 || p->question) && p->step % 4 == 0 &&
           p->step <= MCB__G_SUMS && n_rows > 5;
}

/* Leaves of a tree for a group of rows. */
MCB__AVX512 MCB__INLINE void mcb__group_leaves(const mcb__prepared *p, uint64_t t, const float *v,
                                               uint32_t *leaf) {
    const mcb__node *node[MCB__GROUP] = {mcb__root(p, t)};
    size_t r;
    if (MCB__ASK_ALL(8, p, t, v, leaf)) return;
    if (p->question)
        mcb__descend_rows(node, p->tree[t].depth, v, 1);
    else
        mcb__descend_rows(node, p->tree[t].depth, v, 0);
    for (r = 0; r < MCB__GROUP; r++) leaf[r] = mcb__leaf_number(node[r]->threshold);
}

#define MCB__GROUP_ADD(v, W, used, from)                                                           \
    if (used) {                                                                                    \
        mcb__d##W wide;                                                                            \
        MCB__WIDEN_##W(wide, one + (from));                                                        \
        *(mcb__dm##W *)(sum + (from)) += wide;                                                     \
    }
#define MCB__GROUP_ROW(r)                                                                          \
    {                                                                                              \
        const float *one = value + leaf[i][r] * p->step;                                           \
        double *sum = all + (r) * MCB__R_SUMS;                                                     \
        MCB__FOUR(MCB__GROUP_ADD)                                                                  \
    }
/* Add 4 nv numbers of the leaves of n trees from t on, which begin at `leaves`, to the sums of a group of rows. */
MCB__AVX512 MCB__INLINE void mcb__group_sums(const mcb__prepared *p, uint64_t t, size_t n,
                                             const float *leaves, size_t nv,
                                             uint32_t (*leaf)[MCB__GROUP], double *all) {
    size_t i;
    for (i = 0; i < n; i++) {
        const float *value = leaves + (p->tree[t + i].split + (size_t)(t + i)) * p->step;
        MCB__EACH(MCB__GROUP_ROW)
    }
}

/* Scores of a group of rows. Some trees are descended before the first of them is added, so that no addition waits. */
MCB__AVX512 MCB__APART void mcb__group_of_rows(const mcb__prepared *p, size_t K, const void *x,
                                               int values, size_t n_rows, size_t stride,
                                               uint64_t from, uint64_t to, double *scores) {
    MCB__ALIGNED float v[MCB__COLUMNS * MCB__GROUP];
    MCB__ALIGNED uint32_t leaf[MCB__GROUP][MCB__GROUP];
    MCB__ALIGNED double sums[(size_t)MCB__GROUP * MCB__G_SUMS];
    uint64_t t, end = from;
    const mcb__block *block = p->block;
    size_t r, k, n, i;
#define MCB__GROUP_SUM(r, k)                                                                       \
    sums[((k) / MCB__R_SUMS * MCB__GROUP + (r)) * MCB__R_SUMS + (k) % MCB__R_SUMS]
    for (r = 0; r < MCB__GROUP; r++) {
        for (k = 0; k < p->step; k++)
            MCB__GROUP_SUM(r, k) = r < n_rows && k < K ? scores[r * K + k] : 0;
    }
    for (t = from; t < to; t += n) {
        if (t == end) { /* the next block */
            for (; block[1].tree <= t; block++) {
            }
            end = to < block[1].tree ? to : block[1].tree;
            mcb__copy_columns(p, block, x, values, n_rows, stride, MCB__GROUP, v);
        }
        n = end - t < MCB__GROUP ? (size_t)(end - t) : (size_t)MCB__GROUP;
        for (i = 0; i < n; i++) mcb__group_leaves(p, t + i, v, leaf[i]);
        for (k = 0; k < p->step; k += MCB__R_SUMS) {
            double *all = sums + k * MCB__GROUP;
            switch ((p->step - k) / 4) {
            case 1:
                mcb__group_sums(p, t, n, p->leaf + k, 1, leaf, all);
                break;
            case 2:
                mcb__group_sums(p, t, n, p->leaf + k, 2, leaf, all);
                break;
            case 3:
                mcb__group_sums(p, t, n, p->leaf + k, 3, leaf, all);
                break;
            default:
                mcb__group_sums(p, t, n, p->leaf + k, 4, leaf, all);
                break;
            }
        }
    }
    for (r = 0; r < n_rows; r++) {
        for (k = 0; k < K; k++) scores[r * K + k] = MCB__GROUP_SUM(r, k);
    }
#undef MCB__GROUP_SUM
}
#endif

#define MCB__DEFINE_TREES(W, ATTRIBUTE)                                                            \
    MCB__INLINE void mcb__row_of_trees_##W(const mcb__prepared *p, size_t K, int vector,           \
                                           const void *x, int values, uint64_t from, uint64_t to,  \
                                           double *scores) {                                       \
        float v[MCB__COLUMNS];                                                                     \
        double all = 0;                                                                            \
        uint64_t b;                                                                                \
        size_t i, n;                                                                               \
        if (MCB__RANKED_##W && mcb__all_ranked(p, from, to)) {                                     \
            mcb__row_of_ranks(p, K, vector, x, values, scores);                                    \
            return;                                                                                \
        }                                                                                          \
        for (b = 0; b < p->n_blocks; b++) {                                                        \
            const mcb__block *block = p->block + b;                                                \
            uint64_t t = from > block->tree ? from : block->tree,                                  \
                     end = to < block[1].tree ? to : block[1].tree;                                \
            if (t >= end) continue;                                                                \
            mcb__copy_columns(p, block, x, values, 1, 0, 1, v);                                    \
            for (; t < end; t += n) {                                                              \
                float found[MCB__SORTED];                                                          \
                size_t row[MCB__SORTED];                                                           \
                n = mcb__find_leaves(p, block, t, end, v, found);                                  \
                for (i = 0; i < n && p->first; i++) {                                              \
                    mcb__fetch_entries(p, t + i, found + i, n - i);                                \
                    mcb__add_entries(p, mcb__leaf_of(p, t + i, found[i]), scores);                 \
                    if (p->all) all += (double)p->all[mcb__leaf_of(p, t + i, found[i])];           \
                }                                                                                  \
                if (p->first) continue;                                                            \
                for (i = 0; i < n && vector; i++) row[i] = mcb__leaf_of(p, t + i, found[i]);       \
                if (vector)                                                                        \
                    mcb__add_rows_##W(p, row, n, K, scores);                                       \
                else                                                                               \
                    mcb__add_values(p, t, found, n, K, scores);                                    \
            }                                                                                      \
        }                                                                                          \
        mcb__add_to_all(all, K, scores);                                                           \
    }                                                                                              \
    ATTRIBUTE MCB__APART void mcb__rows_of_trees_##W(                                              \
        const mcb__prepared *p, size_t K, int vector, const void *x, int values, size_t n_rows,    \
        size_t stride, uint64_t from, uint64_t to, double *scores) {                               \
        MCB__ALIGNED float v[MCB__COLUMNS * MCB__GROUP];                                           \
        MCB__ALIGNED uint32_t leaf[MCB__GROUP];                                                    \
        float own[MCB__GROUP];                                                                     \
        double all[MCB__GROUP] = {0};                                                              \
        uint64_t b;                                                                                \
        size_t r, step = p->step;                                                                  \
        for (b = 0; b < p->n_blocks; b++) {                                                        \
            const mcb__block *block = p->block + b;                                                \
            uint64_t t = from > block->tree ? from : block->tree,                                  \
                     end = to < block[1].tree ? to : block[1].tree;                                \
            if (t >= end) continue;                                                                \
            mcb__copy_columns(p, block, x, values, n_rows, stride, MCB__GROUP, v);                 \
            for (; t < end; t++) {                                                                 \
                const mcb__tree *tree = p->tree + t;                                               \
                const float *value = p->leaf;                                                      \
                size_t cls = tree->cls, base = tree->base;                                         \
                if (!p->first) value += (tree->split + (size_t)t) * step;                          \
                if (!MCB__ASK_ALL(W, p, t, v, leaf)) {                                             \
                    const mcb__node *node[MCB__GROUP] = {mcb__root(p, t)};                         \
                    if (p->question)                                                               \
                        mcb__descend_rows(node, tree->depth, v, 1);                                \
                    else                                                                           \
                        mcb__descend_rows(node, tree->depth, v, 0);                                \
                    for (r = 0; r < n_rows; r++) {                                                 \
                        leaf[r] = vector ? mcb__leaf_number(node[r]->threshold) : (uint32_t)r;     \
                        own[r] = node[r]->threshold;                                               \
                    }                                                                              \
                    if (!vector) value = own;                                                      \
                }                                                                                  \
                if (p->first) {                                                                    \
                    for (r = 0; r < n_rows; r++)                                                   \
                        mcb__add_entries(p, tree->split + (size_t)t + leaf[r], scores + r * K);    \
                    for (r = 0; r < n_rows && p->all; r++)                                         \
                        all[r] += (double)p->all[tree->split + (size_t)t + leaf[r]];               \
                } else if (vector) {                                                               \
                    for (r = 0; r < n_rows; r++)                                                   \
                        mcb__add_vector_##W(value + leaf[r] * step, K, scores + r * K);            \
                } else if (p->code) {                                                              \
                    for (r = 0; r < n_rows; r++)                                                   \
                        mcb__add_code(p->code + cls * K, (double)value[leaf[r]], K,                \
                                      scores + r * K);                                             \
                } else {                                                                           \
                    for (r = 0; r < n_rows; r++) scores[r * K + cls] += (double)value[leaf[r]];    \
                    if (base < K) {                                                                \
                        for (r = 0; r < n_rows; r++)                                               \
                            scores[r * K + base] -= (double)value[leaf[r]];                        \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        for (r = 0; r < n_rows; r++) mcb__add_to_all(all[r], K, scores + r * K);                   \
    }                                                                                              \
    ATTRIBUTE MCB__APART void mcb__add_prepared_##W(const mcb_model *m, const void *x, int values, \
                                                    size_t n_rows, size_t stride, uint64_t from,   \
                                                    uint64_t to, double *scores) {                 \
        const mcb__prepared *p = (const mcb__prepared *)m->prepared;                               \
        size_t K = mcb_score_width(m), n;                                                          \
        int vector = !m->section[MCB_S_TCLS].data;                                                 \
        int ranked = MCB__RANKED_##W && mcb__all_ranked(p, from, to);                              \
        for (; n_rows; n_rows -= n, x = mcb__later(x, values, n * stride), scores += n * K) {      \
            n = ranked ? mcb__side_by_side(p, vector, n_rows) : 1;                                 \
            if (n > 1) {                                                                           \
                mcb__rows_of_ranks(p, K, x, values, n, stride, scores);                            \
                continue;                                                                          \
            }                                                                                      \
            n = mcb__at_a_time(p, ranked, n_rows);                                                 \
            if (n == 1) mcb__row_of_trees_##W(p, K, vector, x, values, from, to, scores);          \
            MCB__GROUP_##W else mcb__rows_of_trees_##W(p, K, vector, x, values, n, stride, from,   \
                                                       to, scores);                                \
        }                                                                                          \
    }

MCB__DEFINE_TREES(2, )
#if MCB__VECTOR && (MCB__CHOOSE || defined(__AVX2__) || defined(__AVX512F__))
MCB__DEFINE_TREES(4, MCB__AVX2)
#endif
#if MCB__VECTOR && (MCB__CHOOSE || defined(__AVX512F__))
MCB__DEFINE_TREES(8, MCB__AVX512)
#endif

static inline void mcb__add_trees(const mcb_model *m, const void *x, int values, size_t n_rows,
                                  size_t stride, uint64_t from, uint64_t to, double *scores) {
    uint64_t begin;
    size_t r;
    if (m->prepared && values != MCB__VALUES_LAZY) {
#if MCB__VECTOR
        MCB__DISPATCH(mcb__add_prepared_8(m, x, values, n_rows, stride, from, to, scores),
                      mcb__add_prepared_4(m, x, values, n_rows, stride, from, to, scores),
                      mcb__add_prepared_2(m, x, values, n_rows, stride, from, to, scores));
#else
        mcb__add_prepared_2(m, x, values, n_rows, stride, from, to, scores);
#endif
        return;
    }
    begin = mcb__tree_begin(m, from);
    for (r = 0; r < n_rows; r++)
        mcb__add_trees_row(m, mcb__later(x, values, r * stride), values, from, to, begin,
                           scores + r * (size_t)mcb_score_width(m));
}

/* ------------------------------------------------------------------------------------------------ exp, log and sqrt */

/* exp, log and square root with the same bits on every machine. */

static inline uint64_t mcb__mul_high(uint64_t a, uint64_t b) {
#if defined(__SIZEOF_INT128__)
    __extension__ typedef unsigned __int128 mcb__u128;
    return (uint64_t)((mcb__u128)a * b >> 64);
#else
    uint64_t a0 = a & 0xffffffffu, a1 = a >> 32, b0 = b & 0xffffffffu, b1 = b >> 32;
    uint64_t middle = a1 * b0 + (a0 * b0 >> 32), other = a0 * b1 + (middle & 0xffffffffu);
    return a1 * b1 + (middle >> 32) + (other >> 32);
#endif
}

/* e^x in integer arithmetic, so that every compiler and processor gives the same bits.
 * Error below 0.65 units in the last place (of the smallest number where the result is subnormal);
 * 0 below -745.14, infinity above 709.79, NaN for NaN. */
MCB_API double mcb_exp(double x) {
    /* 2^(i/16) * 2^63 */
    static const uint64_t power[16] = {
        UINT64_C(0x8000000000000000), UINT64_C(0x85aac367cc487b15), UINT64_C(0x8b95c1e3ea8bd6e7),
        UINT64_C(0x91c3d373ab11c336), UINT64_C(0x9837f0518db8a96f), UINT64_C(0x9ef5326091a111ae),
        UINT64_C(0xa5fed6a9b15138ea), UINT64_C(0xad583eea42a14ac6), UINT64_C(0xb504f333f9de6484),
        UINT64_C(0xbd08a39f580c36bf), UINT64_C(0xc5672a115506dadd), UINT64_C(0xce248c151f8480e4),
        UINT64_C(0xd744fccad69d6af4), UINT64_C(0xe0ccdeec2a94e111), UINT64_C(0xeac0c6e7dd24392f),
        UINT64_C(0xf5257d152486cc2c)};
    /* 2^62 / n! for n = 9 down to 0 */
    static const uint64_t term[10] = {UINT64_C(0x00000b8ef1d2ab64), UINT64_C(0x0000680680680680),
                                      UINT64_C(0x0003403403403403), UINT64_C(0x0016c16c16c16c17),
                                      UINT64_C(0x0088888888888889), UINT64_C(0x02aaaaaaaaaaaaab),
                                      UINT64_C(0x0aaaaaaaaaaaaaab), UINT64_C(0x2000000000000000),
                                      UINT64_C(0x4000000000000000), UINT64_C(0x4000000000000000)};
    const uint64_t log2_e = UINT64_C(0xb8aa3b295c17f0bc),
                   ln_2 = UINT64_C(0xb17217f7d1cf79ac); /* * 2^63, * 2^64 */
    uint64_t bits = mcb__bits_of(x), mantissa, high, low, fraction, z, p;
    int exponent = (int)(bits >> 52 & 0x7ff), negative = (int)(bits >> 63), shift, whole, i;
    if (exponent >= 1023 + 10) {
        if (x != x) return x;
        return negative ? 0.0 : mcb__f64_of(UINT64_C(0x7ff0000000000000));
    }
    if (exponent < 1023 - 54) return 1.0;
    /* |x| / ln 2 = whole + fraction / 2^64 */
    mantissa = (bits & ((MCB__SIGN >> 11) - 1)) | MCB__SIGN >> 11;
    high = mcb__mul_high(mantissa, log2_e);
    low = mantissa * log2_e;
    shift = 1023 + 51 - exponent; /* 42 to 105 */
    if (shift < 64) {
        whole = (int)(high >> shift);
        fraction = low >> shift | high << (64 - shift);
    } else {
        whole = 0;
        fraction = high >> (shift - 64);
    }
    if (negative) {
        whole = fraction ? -whole - 1 : -whole;
        fraction = 0 - fraction;
    }
    z = mcb__mul_high(fraction << 4, ln_2) >> 4;
    p = term[0];
    for (i = 1; i < 10; i++) p = term[i] + mcb__mul_high(p, z);
    p = mcb__mul_high(
        p, power[fraction >> 60]); /* 2^61 to 2^62 - 1, which the largest fraction gives */
    if (whole > 1023) return mcb__f64_of(UINT64_C(0x7ff0000000000000));
    if (whole >= -1022) return mcb__f64_of(((uint64_t)(whole + 1022) << 52) + ((p + 256) >> 9));
    shift = 9 - 1022 - whole;
    return shift > 63 ? 0.0 : mcb__f64_of((p + (UINT64_C(1) << (shift - 1))) >> shift);
}

/* Natural logarithm of a normal number above 0, with an error of a few units in the last place (next to 1, of 1e-16).
 * Products are stored before they are added, so that no compiler fuses the two and all give the same bits. */
MCB_API double mcb_log(double x) {
    uint64_t bits = mcb__bits_of(x), mantissa = bits & ((MCB__SIGN >> 11) - 1);
    int exponent = (int)(bits >> 52 & 0x7ff) - 1023, i;
    volatile double product;
    double m, s, square, sum = 0;
    if (mantissa >= UINT64_C(0x6a09e667f3bcd)) exponent++; /* from sqrt(2) on */
    m = mcb__f64_of(mantissa | (uint64_t)(mantissa >= UINT64_C(0x6a09e667f3bcd) ? 1022 : 1023)
                                   << 52);
    s = (m - 1) / (m + 1); /* log m = 2 (s + s^3/3 + s^5/5 + ...), |s| < 0.172 */
    product = s * s;
    square = product;
    for (i = 21; i >= 3; i -= 2) {
        sum += 1.0 / i;
        product = sum * square;
        sum = product;
    }
    product = sum * s;
    sum = product;
    product = (double)exponent * 0.693147180559945286;
    return product + 2 * (s + sum);
}

/* Square root, correctly rounded, in integer arithmetic; NaN below zero. */
MCB_API double mcb_sqrt(double x) {
    uint64_t bits = mcb__bits_of(x), mantissa, rest = 0, root = 0;
    int exponent = (int)(bits >> 52 & 0x7ff), i;
    if (bits << 1 == 0 || x != x || bits == UINT64_C(0x7ff0000000000000)) return x;
    if (bits >> 63) return mcb__f64_of(UINT64_C(0x7ff8000000000000));
    mantissa = bits & ((MCB__SIGN >> 11) - 1);
    if (exponent == 0) {
        exponent = 1;
        while (mantissa < MCB__SIGN >> 11) {
            mantissa <<= 1;
            exponent--;
        }
    } else {
        mantissa |= MCB__SIGN >> 11;
    }
    exponent -= 1023;
    if (exponent & 1) mantissa <<= 1;
    exponent = (exponent - (exponent & 1)) / 2;
    /* 54 binary digits of the root of mantissa * 2^54, one after the other; the last one rounds. */
    for (i = 53; i >= 0; i--) {
        uint64_t two = i >= 27 ? mantissa >> (2 * (i - 27)) & 3 : 0, trial = root << 2 | 1;
        rest = rest << 2 | two;
        root <<= 1;
        if (rest >= trial) {
            rest -= trial;
            root |= 1;
        }
    }
    return mcb__f64_of(((uint64_t)(exponent + 1022) << 52) + (root >> 1) + (root & 1));
}

/* ------------------------------------------------------------------------------------------------- sums of products */

/* Products of rows with vectors of the file, and squared distances, with the same bits in every build. */

/* Products x . z of rows with vectors of the file, or squared distances |x - z|^2. Feature j is added to sum number
 * j mod 8, in ascending order; mcb__total adds the 8 sums. A term is a product of two float32 numbers, which is exact in
 * double, so that fusing it with the addition changes nothing; and a sum that begins at +0 is never -0, so that leaving
 * out or adding features of 0 changes nothing either. Tiles of up to 8 rows with 64 vectors go through the features
 * in steps of 512. */
enum {
    MCB__SUMS = 8,
    MCB__T_ROWS = 8,
    MCB__T_VECTORS = 64,
    MCB__T_FEATURES = 512,
    MCB__T_CLASSES = 32
};

MCB__INLINE double mcb__total(const double *s) {
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

/* The totals of n_rows rows with n_vectors vectors: [row][MCB__T_VECTORS]. */
static inline void mcb__totals_2(const double *sum, size_t n_rows, size_t n_vectors,
                                 double *total) {
    size_t r, v;
    for (r = 0; r < n_rows; r++) {
        for (v = 0; v < n_vectors; v++)
            total[r * MCB__T_VECTORS + v] = mcb__total(sum + (r * MCB__T_VECTORS + v) * MCB__SUMS);
    }
}

#if !MCB__VECTOR

/* Sums of n_rows rows, x_stride floats apart, with n_vectors vectors that begin at w, w_stride floats apart, in a section
 * that ends at `end`, over n features; sum is [row][MCB__T_VECTORS][MCB__SUMS]. fresh: begin with zeros. */
static inline void mcb__sums(const float *x, size_t n_rows, size_t x_stride, const unsigned char *w,
                             const unsigned char *end, size_t n_vectors, size_t w_stride, size_t n,
                             int distance, int fresh, double *sum) {
    size_t r, v, j;
    (void)end;
    for (r = 0; r < n_rows; r++) {
        for (v = 0; v < n_vectors; v++) {
            const float *a = x + r * x_stride;
            const unsigned char *b = w + 4 * v * w_stride;
            double *s = sum + (r * MCB__T_VECTORS + v) * MCB__SUMS;
            for (j = 0; j < MCB__SUMS && fresh; j++) s[j] = 0;
            if (distance) {
                for (j = 0; j < n; j++) {
                    float difference = (float)(a[j] - mcb__f32(b + 4 * j));
                    s[j % MCB__SUMS] += (double)difference * (double)difference;
                }
            } else {
                for (j = 0; j < n; j++)
                    s[j % MCB__SUMS] += (double)a[j] * (double)mcb__f32(b + 4 * j);
            }
        }
    }
}

#define mcb__totals mcb__totals_2

#else

/* The same with W of the 8 sums in a vector, for up to 4 rows and 4 vectors of the file at a time; n is a multiple of
 * 8. nr and nv are constants, so that the tests go away and the sums stay in registers. */
#define MCB__GRID_ROWS_2 2 /* 16 registers do not hold the sums of 4 rows */
#define MCB__GRID_ROWS_4 2
#define MCB__GRID_ROWS_8 4
#define MCB__GRID_ROW(X, r, W) X(r, 0, W) X(r, 1, W) X(r, 2, W) X(r, 3, W)
#define MCB__GRID(X, W)                                                                            \
    MCB__GRID_ROW(X, 0, W) MCB__GRID_ROW(X, 1, W) MCB__GRID_ROW(X, 2, W) MCB__GRID_ROW(X, 3, W)

#define MCB__GRID_BEGIN(r, v, W)                                                                   \
    if (r < nr && v < nv) {                                                                        \
        s[4 * r + v] = zero;                                                                       \
        if (!fresh)                                                                                \
            s[4 * r + v] = *(const mcb__dm##W *)(at + (r * MCB__T_VECTORS + v) * MCB__SUMS);       \
    }
#define MCB__GRID_END(r, v, W)                                                                     \
    if (r < nr && v < nv) *(mcb__dm##W *)(at + (r * MCB__T_VECTORS + v) * MCB__SUMS) = s[4 * r + v];
#define MCB__GRID_X(r, W)                                                                          \
    if (r < nr) {                                                                                  \
        single[r] = *(const mcb__fm##W *)(x + r * x_stride + j);                                   \
        if (!distance) a[r] = __builtin_convertvector(single[r], mcb__d##W);                       \
    }
#define MCB__GRID_W(v, W)                                                                          \
    if (v < nv) {                                                                                  \
        other[v] = *(const mcb__fm##W *)(w + 4 * (v * w_stride + j));                              \
        if (!distance) b[v] = __builtin_convertvector(other[v], mcb__d##W);                        \
    }
#define MCB__GRID_ADD(r, v, W)                                                                     \
    if (r < nr && v < nv) {                                                                        \
        if (distance) {                                                                            \
            mcb__d##W c = __builtin_convertvector(single[r] - other[v], mcb__d##W);                \
            s[4 * r + v] += c * c;                                                                 \
        } else {                                                                                   \
            s[4 * r + v] += a[r] * b[v];                                                           \
        }                                                                                          \
    }
#define MCB__SUMS_CASE(W, nr, nv, distance)                                                        \
    mcb__grid_##W(x, x_stride, w, w_stride, n, nr, nv, distance, fresh, sum)
#define MCB__SUMS_ROWS(W, nr)                                                                      \
    do {                                                                                           \
        if (distance) {                                                                            \
            if (nv == 4)                                                                           \
                MCB__SUMS_CASE(W, nr, 4, 1);                                                       \
            else if (nv == 2)                                                                      \
                MCB__SUMS_CASE(W, nr, 2, 1);                                                       \
            else                                                                                   \
                MCB__SUMS_CASE(W, nr, 1, 1);                                                       \
        } else {                                                                                   \
            if (nv == 4)                                                                           \
                MCB__SUMS_CASE(W, nr, 4, 0);                                                       \
            else if (nv == 2)                                                                      \
                MCB__SUMS_CASE(W, nr, 2, 0);                                                       \
            else                                                                                   \
                MCB__SUMS_CASE(W, nr, 1, 0);                                                       \
        }                                                                                          \
    } while (0)

#define MCB__DEFINE_SUMS(W, ATTRIBUTE)                                                             \
    MCB__INLINE void mcb__grid_##W(const float *x, size_t x_stride, const unsigned char *w,        \
                                   size_t w_stride, size_t n, size_t nr, size_t nv, int distance,  \
                                   int fresh, double *sum) {                                       \
        size_t lane, j;                                                                            \
        for (lane = 0; lane < MCB__SUMS; lane += W) {                                              \
            double *at = sum + lane;                                                               \
            mcb__d##W s[16], a[4], b[4], zero = MCB__SPLAT##W(0);                                  \
            mcb__f##W single[4], other[4];                                                         \
            MCB__GRID(MCB__GRID_BEGIN, W)                                                          \
            for (j = lane; j < n; j += MCB__SUMS) {                                                \
                MCB__EACH4(MCB__GRID_X, W)                                                         \
                MCB__EACH4(MCB__GRID_W, W)                                                         \
                MCB__GRID(MCB__GRID_ADD, W)                                                        \
            }                                                                                      \
            MCB__GRID(MCB__GRID_END, W)                                                            \
        }                                                                                          \
    }                                                                                              \
    ATTRIBUTE MCB__APART void mcb__sums_##W(                                                       \
        const float *x, size_t n_rows, size_t x_stride, const unsigned char *w, size_t n_vectors,  \
        size_t w_stride, size_t n, int distance, int fresh, double *sum) {                         \
        for (; n_vectors;) {                                                                       \
            size_t nv = n_vectors < 2 ? 1 : n_vectors < 4 ? 2 : 4, r = 0;                          \
            const float *row = x;                                                                  \
            double *first = sum;                                                                   \
            for (; r + MCB__GRID_ROWS_##W <= n_rows; r += MCB__GRID_ROWS_##W) {                    \
                MCB__SUMS_ROWS(W, MCB__GRID_ROWS_##W);                                             \
                x += MCB__GRID_ROWS_##W * x_stride;                                                \
                sum += MCB__GRID_ROWS_##W * MCB__T_VECTORS * MCB__SUMS;                            \
            }                                                                                      \
            for (; r < n_rows; r++) {                                                              \
                MCB__SUMS_ROWS(W, 1);                                                              \
                x += x_stride;                                                                     \
                sum += MCB__T_VECTORS * MCB__SUMS;                                                 \
            }                                                                                      \
            x = row;                                                                               \
            sum = first + nv * MCB__SUMS;                                                          \
            w += 4 * nv * w_stride;                                                                \
            n_vectors -= nv;                                                                       \
        }                                                                                          \
    }

MCB__DEFINE_SUMS(2, )
#if MCB__CHOOSE || defined(__AVX2__) || defined(__AVX512F__)
MCB__DEFINE_SUMS(4, MCB__AVX2)
#endif
#if MCB__CHOOSE || defined(__AVX512F__)
MCB__DEFINE_SUMS(8, MCB__AVX512)
#endif

#if MCB__CHOOSE || defined(__AVX2__) || defined(__AVX512F__)
#if defined(__clang__)
#define MCB__SHUFFLE(to, a, b, i, j, k, l) to = __builtin_shufflevector(a, b, i, j, k, l)
#else
#define MCB__SHUFFLE(to, a, b, i, j, k, l)                                                         \
    do {                                                                                           \
        const mcb__i4 order = {i, j, k, l};                                                        \
        to = __builtin_shuffle(a, b, order);                                                       \
    } while (0)
#endif
/* Four vectors at a time, the same additions. */
MCB__AVX2 MCB__APART void mcb__totals_4(const double *sum, size_t n_rows, size_t n_vectors,
                                        double *total) {
    size_t r, v, i;
    for (r = 0; r < n_rows; r++, sum += MCB__T_VECTORS * MCB__SUMS, total += MCB__T_VECTORS) {
        for (v = 0; v + 4 <= n_vectors; v += 4) {
            mcb__d4 half[4], low, high, ac, bd;
            for (i = 0; i < 4; i++) {
                const double *s = sum + (v + i) * MCB__SUMS;
                half[i] = *(const mcb__dm4 *)s + *(const mcb__dm4 *)(s + 4);
            }
            MCB__SHUFFLE(low, half[0], half[2], 0, 1, 4, 5);
            MCB__SHUFFLE(high, half[0], half[2], 2, 3, 6, 7);
            ac = low + high;
            MCB__SHUFFLE(low, half[1], half[3], 0, 1, 4, 5);
            MCB__SHUFFLE(high, half[1], half[3], 2, 3, 6, 7);
            bd = low + high;
            MCB__SHUFFLE(low, ac, bd, 0, 4, 2, 6);
            MCB__SHUFFLE(high, ac, bd, 1, 5, 3, 7);
            *(mcb__dm4 *)(total + v) = low + high;
        }
        for (; v < n_vectors; v++) total[v] = mcb__total(sum + v * MCB__SUMS);
    }
}
#undef MCB__SHUFFLE
#endif

static inline void mcb__totals(const double *sum, size_t n_rows, size_t n_vectors, double *total) {
    MCB__DISPATCH(mcb__totals_4(sum, n_rows, n_vectors, total),
                  mcb__totals_4(sum, n_rows, n_vectors, total),
                  mcb__totals_2(sum, n_rows, n_vectors, total));
}

static inline void mcb__sums_of_8(const float *x, size_t n_rows, size_t x_stride,
                                  const unsigned char *w, size_t n_vectors, size_t w_stride,
                                  size_t n, int distance, int fresh, double *sum) {
    MCB__DISPATCH(
        mcb__sums_8(x, n_rows, x_stride, w, n_vectors, w_stride, n, distance, fresh, sum),
        mcb__sums_4(x, n_rows, x_stride, w, n_vectors, w_stride, n, distance, fresh, sum),
        mcb__sums_2(x, n_rows, x_stride, w, n_vectors, w_stride, n, distance, fresh, sum));
}

/* The features that are left over, at most 7, filled up with zeros to 8. */
MCB__INLINE void mcb__fill_up(const unsigned char *from, size_t rest, float *to) {
    size_t i = 0;
    if (rest & 4) {
        memcpy(to, from, 4 * sizeof *to);
        i = 4;
    }
    if (rest & 2) {
        memcpy(to + i, from + 4 * i, 2 * sizeof *to);
        i += 2;
    }
    if (rest & 1) {
        memcpy(to + i, from + 4 * i, sizeof *to);
        i++;
    }
    for (; i < MCB__SUMS; i++) to[i] = 0;
}

MCB__APART void mcb__sums_of_rest(const float *x, size_t n_rows, size_t x_stride,
                                  const unsigned char *w, const unsigned char *end,
                                  size_t n_vectors, size_t w_stride, size_t rest, int distance,
                                  int fresh, double *sum) {
    float rows[MCB__T_ROWS * MCB__SUMS], vectors[MCB__T_VECTORS * MCB__SUMS];
    size_t i, direct = 0;
    for (i = 0; i < n_rows; i++)
        mcb__fill_up((const unsigned char *)(x + i * x_stride), rest, rows + i * MCB__SUMS);
    /* What follows a vector is finite, too, and a product with 0 changes no sum. */
    if (!distance) {
        direct = n_vectors;
        while (direct && (size_t)(end - w) < 4 * ((direct - 1) * w_stride + MCB__SUMS)) direct--;
        if (direct)
            mcb__sums_of_8(rows, n_rows, MCB__SUMS, w, direct, w_stride, MCB__SUMS, 0, fresh, sum);
    }
    for (i = direct; i < n_vectors; i++)
        mcb__fill_up(w + 4 * i * w_stride, rest, vectors + i * MCB__SUMS);
    if (direct < n_vectors)
        mcb__sums_of_8(rows, n_rows, MCB__SUMS,
                       (const unsigned char *)(vectors + direct * MCB__SUMS), n_vectors - direct,
                       MCB__SUMS, MCB__SUMS, distance, fresh, sum + direct * MCB__SUMS);
}

static inline void mcb__sums(const float *x, size_t n_rows, size_t x_stride, const unsigned char *w,
                             const unsigned char *end, size_t n_vectors, size_t w_stride, size_t n,
                             int distance, int fresh, double *sum) {
    size_t rest = n % MCB__SUMS, whole = n - rest;
    if (whole)
        mcb__sums_of_8(x, n_rows, x_stride, w, n_vectors, w_stride, whole, distance, fresh, sum);
    if (rest)
        mcb__sums_of_rest(x + whole, n_rows, x_stride, w + 4 * whole, end, n_vectors, w_stride,
                          rest, distance, fresh && !whole, sum);
}

#endif

/* --------------------------------------------------------------------------------------- linear and kernel machines */

/* Scores of linear and kernel machines. */

/* Rounded to 29 significant bits, halves away from 0; 0 below 2^-700; NaN unless finite. Its products with float32
 * numbers are exact. */
static inline double mcb__shortened(double v) {
    uint64_t bits = mcb__bits_of(v), exponent = bits >> 52 & 0x7ff;
    if (exponent < 1023 - 700) return 0.0;
    if (exponent == 0x7ff) return mcb__f64_of(UINT64_C(0x7ff8000000000000));
    return mcb__f64_of((bits + 0x800000) & ~UINT64_C(0xffffff));
}

/* mcb_sqrt by the processor where that is known to round correctly without a call of the C library. */
static inline double mcb__quick_sqrt(double v) {
#if MCB__VECTOR && defined(__x86_64__) && defined(__AVX__)
    double root;
    __asm__("vsqrtsd %1, %1, %0" : "=x"(root) : "x"(v));
    return root;
#elif MCB__VECTOR && defined(__x86_64__)
    double root;
    __asm__("sqrtsd %1, %0" : "=x"(root) : "x"(v));
    return root;
#elif MCB__VECTOR && defined(__aarch64__)
    double root;
    __asm__("fsqrt %d0, %d1" : "=w"(root) : "w"(v));
    return root;
#else
    return mcb_sqrt(v);
#endif
}

typedef struct {
    double gamma, coef0;
    int kernel, degree;
} mcb__kernel;

/* Values of the kernel in place of n products x . z or squared distances |x - z|^2. */
static inline void mcb__kernel_values(const mcb__kernel *k, size_t n, double *v) {
    size_t i;
    switch (k->kernel) {
    case MCB_KERNEL_POLY:
        for (i = 0; i < n; i++) {
            double base = k->gamma * mcb__shortened(v[i]) + k->coef0,
                   power = 1; /* the product is exact */
            int left;
            for (left = k->degree; left > 0; left >>= 1) {
                if (left & 1) power *= base;
                base *= base;
            }
            v[i] = mcb__shortened(power);
        }
        break;
    case MCB_KERNEL_RBF:
        for (i = 0; i < n; i++)
            v[i] = mcb__shortened(v[i] <= DBL_MAX ? mcb_exp(-(k->gamma * v[i])) : v[i]);
        break;
    case MCB_KERNEL_PERCEPTRON:
        for (i = 0; i < n; i++) v[i] = mcb__shortened(-mcb__quick_sqrt(v[i]));
        break;
    default:
        for (i = 0; i < n; i++) v[i] = mcb__shortened(v[i]);
    }
}

/* n features from j on of n_rows rows, scaled, as rows of MCB__T_FEATURES floats. */
static inline void mcb__scale_rows(const mcb_model *m, const float *x, size_t n_rows, size_t stride,
                                   size_t j, size_t n, float *scaled) {
    const unsigned char *offset = m->section[MCB_S_SCAL].data + 4 * j,
                        *factor = offset + 4 * (size_t)m->n_features;
    size_t r, i;
    for (r = 0; r < n_rows; r++) {
        for (i = 0; i < n; i++) {
            double shifted = (double)x[r * stride + j + i] - (double)mcb__f32(offset + 4 * i);
            scaled[r * MCB__T_FEATURES + i] = (float)(shifted * (double)mcb__f32(factor + 4 * i));
        }
    }
}

/* Add to the scores of at most MCB__T_ROWS rows; sum, product and scaled have room for as many. */
MCB__INLINE void mcb__tile_of_rows(const mcb_model *m, const float *x, size_t n_rows, size_t stride,
                                   double *sum, double *product, float *scaled, double *scores) {
    int linear = m->kind == MCB_KIND_LINEAR;
    const mcb_section *section = &m->section[linear ? MCB_S_WMAT : MCB_S_SVEC];
    const unsigned char *kpar = m->section[MCB_S_KPAR].data, *dual = m->section[MCB_S_DUAL].data;
    const unsigned char *end = section->data + 4 * section->count;
    size_t K = m->n_classes, d = m->n_features, total = (size_t)(section->count / d), first, n, r,
           v, k, j;
    int scale = m->section[MCB_S_SCAL].data != 0, distance = 0;
    mcb__kernel kernel = {0, 0, 0, 0};
    if (!linear) {
        kernel.kernel = (int)mcb__f32(kpar);
        kernel.gamma = (double)mcb__f32(kpar + 4);
        kernel.coef0 = (double)mcb__f32(kpar + 8);
        kernel.degree = (int)mcb__f32(kpar + 12);
        distance = kernel.kernel == MCB_KERNEL_RBF || kernel.kernel == MCB_KERNEL_PERCEPTRON;
    }
    if (scale && d <= MCB__T_FEATURES) {
        mcb__scale_rows(m, x, n_rows, stride, 0, d, scaled);
        x = scaled;
        stride = MCB__T_FEATURES;
        scale = 0;
    }
    for (first = 0; first < total; first += n) {
        const unsigned char *vectors = section->data + 4 * first * d;
        n = total - first < MCB__T_VECTORS ? total - first : (size_t)MCB__T_VECTORS;
        for (j = 0; j < d; j += MCB__T_FEATURES) {
            size_t features = d - j < MCB__T_FEATURES ? d - j : (size_t)MCB__T_FEATURES;
            const float *rows = x + j;
            size_t step = stride;
            if (scale) {
                mcb__scale_rows(m, x, n_rows, stride, j, features, scaled);
                rows = scaled;
                step = MCB__T_FEATURES;
            }
            mcb__sums(rows, n_rows, step, vectors + 4 * j, end, n, d, features, distance, j == 0,
                      sum);
        }
        mcb__totals(sum, n_rows, n, product);
        for (r = 0; r < n_rows; r++) {
            double *mine = product + r * MCB__T_VECTORS;
            double *score = scores + r * K;
            if (linear) {
                for (v = 0; v < n; v++) score[first + v] += mine[v];
                continue;
            }
            mcb__kernel_values(&kernel, n, mine);
            for (v = 0; v < n; v++) {
                const unsigned char *coef = dual + 4 * (first + v) * K;
                double value = mine[v];
                for (k = 0; k < K; k++) score[k] += (double)mcb__f32(coef + 4 * k) * value;
            }
        }
    }
    for (r = 0; r < n_rows; r++) {
        /* Every coefficient of a linear machine meets every feature, so that one class tells of all. */
        int finite = 1;
        for (k = 0; k < (linear ? 1 : K); k++) finite &= scores[r * K + k] - scores[r * K + k] == 0;
        for (k = 0; k < K && !finite; k++)
            scores[r * K + k] = mcb__f64_of(UINT64_C(0x7ff8000000000000));
    }
}

/* One row needs less room on the stack than several. */
MCB__APART void mcb__machine_row(const mcb_model *m, const float *x, double *scores) {
    double sum[MCB__T_VECTORS * MCB__SUMS], product[MCB__T_VECTORS];
    float scaled[MCB__T_FEATURES];
    mcb__tile_of_rows(m, x, 1, 0, sum, product, scaled, scores);
}

MCB__APART void mcb__machine_rows(const mcb_model *m, const float *x, size_t n_rows, size_t stride,
                                  double *scores) {
    double sum[MCB__T_ROWS * MCB__T_VECTORS * MCB__SUMS], product[MCB__T_ROWS * MCB__T_VECTORS];
    float scaled[MCB__T_ROWS * MCB__T_FEATURES];
    size_t n;
    for (; n_rows; n_rows -= n, x += n * stride, scores += n * m->n_classes) {
        n = n_rows < MCB__T_ROWS ? n_rows : (size_t)MCB__T_ROWS;
        mcb__tile_of_rows(m, x, n, stride, sum, product, scaled, scores);
    }
}

static inline void mcb__add_machine(const mcb_model *m, const float *x, size_t n_rows,
                                    size_t stride, double *scores) {
    if (n_rows == 1)
        mcb__machine_row(m, x, scores);
    else
        mcb__machine_rows(m, x, n_rows, stride, scores);
}

/* ------------------------------------------------------------------------------------------------------ sparse rows */

/* Scores of sparse rows by linear and kernel machines. */

/* Add x * coefficients of n classes to sums of 8 x MCB__T_CLASSES. */
#define MCB__DEFINE_SPARSE(W, ATTRIBUTE)                                                           \
    ATTRIBUTE MCB__APART void mcb__sparse_##W(const float *column, size_t K, size_t nk, size_t n,  \
                                              const uint32_t *index, const float *value,           \
                                              double *sum) {                                       \
        size_t i, k;                                                                               \
        for (i = 0; i < n; i++) {                                                                  \
            const float *w = column + (size_t)index[i] * K;                                        \
            double x = (double)value[i], *s = sum + index[i] % MCB__SUMS * MCB__T_CLASSES;         \
            for (k = 0; k < nk; k++) s[k] += x * (double)w[k];                                     \
        }                                                                                          \
    }
MCB__DEFINE_SPARSE(2, )
#if MCB__VECTOR && (MCB__CHOOSE || defined(__AVX2__) || defined(__AVX512F__))
MCB__DEFINE_SPARSE(4, MCB__AVX2)
#endif
#if MCB__VECTOR && (MCB__CHOOSE || defined(__AVX512F__))
MCB__DEFINE_SPARSE(8, MCB__AVX512)
#endif

static inline void mcb__add_sparse(const float *column, size_t K, size_t nk, size_t n,
                                   const uint32_t *index, const float *value, double *sum) {
#if MCB__VECTOR
    MCB__DISPATCH(mcb__sparse_8(column, K, nk, n, index, value, sum),
                  mcb__sparse_4(column, K, nk, n, index, value, sum),
                  mcb__sparse_2(column, K, nk, n, index, value, sum));
#else
    mcb__sparse_2(column, K, nk, n, index, value, sum);
#endif
}

/* What is wrong with the indices of n features that are not 0: each below n_features, strictly increasing. */
static inline int mcb__check_index(const mcb_model *m, size_t n, const uint32_t *index) {
    size_t i;
    for (i = 0; i < n; i++) {
        if (index[i] >= m->n_features || (i > 0 && index[i] <= index[i - 1])) return MCB_E_ARGUMENT;
    }
    return MCB_OK;
}

/* Products of n features that are not 0 with K hyperplanes, to which the biases are added if they are not null. column:
 * feature after feature, K coefficients each. */
MCB__APART void mcb__sparse_products(const float *column, size_t K, const unsigned char *bias,
                                     size_t n, const uint32_t *index, const float *value,
                                     double *product) {
    double sum[MCB__SUMS * MCB__T_CLASSES];
    size_t first, nk, k, c;
    for (first = 0; first < K; first += nk) {
        nk = K - first < MCB__T_CLASSES ? K - first : (size_t)MCB__T_CLASSES;
        for (c = 0; c < MCB__SUMS; c++) {
            for (k = 0; k < nk; k++) sum[c * MCB__T_CLASSES + k] = 0;
        }
        mcb__add_sparse(column + first, K, nk, n, index, value, sum);
        for (k = 0; k < nk; k++) {
            const double *s = sum + k;
#define MCB__PAIR(c) (s[c * MCB__T_CLASSES] + s[(c + 4) * MCB__T_CLASSES])
            product[first + k] = (bias ? (double)mcb__f32(bias + 4 * (first + k)) : 0) +
                                 ((MCB__PAIR(0) + MCB__PAIR(2)) + (MCB__PAIR(1) + MCB__PAIR(3)));
#undef MCB__PAIR
        }
    }
}

/* mcb_scores_sparse of a linear machine, for checked indices. */
static inline void mcb__linear_sparse(const mcb_model *m, size_t n, const uint32_t *index,
                                      const float *value, double *scores) {
    size_t K = m->n_classes, k;
    int finite;
    mcb__sparse_products((const float *)m->prepared, K, m->section[MCB_S_BIAS].data, n, index,
                         value, scores);
    finite = scores[0] - scores[0] == 0;
    for (k = 0; k < K && !finite; k++) scores[k] = mcb__f64_of(UINT64_C(0x7ff8000000000000));
}

/* ----------------------------------------------------------------------------------------------------------- scores */

/* Scores of any model, for one row or for many, and predictions from them. */

/* Scores before any learner, for n_rows rows of mcb_score_width scores: the biases, or 0 where there is a decoder. */
MCB_API void mcb_start_scores(const mcb_model *m, size_t n_rows, double *scores) {
    size_t r, k, K = mcb_score_width(m);
    for (r = 0; r < n_rows; r++) {
        for (k = 0; k < K; k++)
            scores[r * K + k] =
                m->decoder ? 0.0 : (double)mcb__f32(m->section[MCB_S_BIAS].data + 4 * k);
    }
}

/* Scores of the classes of one row from those that the learners have been added to (mcb_score_width of them). Without
 * a decoder they are the same. Hamming: minus the number of columns on whose other side the class stands, one half for
 * those that say nothing; exp: minus the logarithm of the sum of exp(-code * score). */
MCB_API void mcb_decode(const mcb_model *m, const double *columns, double *scores) {
    uint32_t j, k, K = m->n_classes, P = mcb_score_width(m);
    const unsigned char *code = m->section[MCB_S_CODE].data;
    for (k = 0; k < K; k++) {
        double bias = (double)mcb__f32(m->section[MCB_S_BIAS].data + 4 * k), sum = 0, top = 0;
        if (!m->decoder) {
            scores[k] = columns[k];
            continue;
        }
        for (j = 0; j < P; j++) {
            double margin = (double)mcb__f32(code + 4 * ((uint64_t)j * K + k)) * columns[j];
            if (m->decoder == MCB_DECODER_HAMMING)
                sum += margin > 0 ? 0.0 : margin < 0 ? 1.0 : 0.5;
            else if (j == 0 || -margin > top)
                top = -margin;
        }
        if (m->decoder == MCB_DECODER_EXP) {
            for (j = 0; j < P; j++) {
                volatile double margin =
                    (double)mcb__f32(code + 4 * ((uint64_t)j * K + k)) * columns[j];
                sum += mcb_exp(-margin - top);
            }
            sum = top + mcb_log(sum);
        }
        scores[k] = bias - sum;
    }
}

/* Add the learners from <= j < to to the scores of n_rows rows (of mcb_score_width each, for mcb_decode), for staged
 * scores. Adding 0 to 5 and then 5 to n gives
 * the bits of 0 to n. MCB_E_TRUNCATE unless mcb_has_learners; MCB_E_ARGUMENT unless from <= to <= n_learners. */
MCB_API int mcb_add_learners(const mcb_model *m, const float *x, size_t n_rows, size_t stride,
                             uint64_t from, uint64_t to, double *scores) {
    if (!mcb_has_learners(m)) return MCB_E_TRUNCATE;
    if (from > to || to > m->n_learners) return MCB_E_ARGUMENT;
    if (m->kind == MCB_KIND_TREES)
        mcb__add_trees(m, x, MCB_VALUES_F32, n_rows, stride, from, to, scores);
    else if (m->kind == MCB_KIND_PACKED)
        mcb__add_packed(m, x, MCB_VALUES_F32, n_rows, stride, from, to, scores);
    else if (from < to)
        mcb__add_stumps_batch(m, x, n_rows, stride, from, to, scores);
    return MCB_OK;
}

/* Groups of rows whose scores of columns fit on the stack: 32 KB. */
MCB__APART void mcb__scores_decoded(const mcb_model *m, const void *x, int values, size_t n_rows,
                                    size_t stride, double *scores) {
    double columns[MCB_MAX_COLUMNS];
    size_t r, n, P = mcb_score_width(m);
    for (; n_rows; n_rows -= n, x = mcb__later(x, values, n * stride), scores += n * m->n_classes) {
        n = MCB_MAX_COLUMNS / P < n_rows ? MCB_MAX_COLUMNS / P : n_rows;
        if (n > 16) n = 16;
        mcb_start_scores(m, n, columns);
        mcb__add_trees(m, x, values, n, stride, 0, m->n_learners, columns);
        for (r = 0; r < n; r++) mcb_decode(m, columns + r * P, scores + r * m->n_classes);
    }
}

/* Scores of one row: x has n_features floats, scores room for n_classes doubles. */
MCB_API void mcb_scores(const mcb_model *m, const float *x, double *scores) {
    if (m->decoder) {
        mcb__scores_decoded(m, x, MCB_VALUES_F32, 1, 0, scores);
        return;
    }
    mcb_start_scores(m, 1, scores);
    if (m->kind == MCB_KIND_STUMPS)
        mcb__add_stumps_row(m, x, 0, m->n_learners, scores);
    else if (m->kind == MCB_KIND_TREES)
        mcb__add_trees(m, x, MCB_VALUES_F32, 1, 0, 0, m->n_learners, scores);
    else if (m->kind == MCB_KIND_PACKED)
        mcb__add_packed(m, x, MCB_VALUES_F32, 1, 0, 0, m->n_learners, scores);
    else if (m->kind == MCB_KIND_LINEAR || m->kind == MCB_KIND_KERNEL)
        mcb__add_machine(m, x, 1, 0, scores);
    else
        mcb__add_intervals_row(m, x, scores);
}

/* Scores of n_rows rows that begin stride floats apart (stride >= n_features); scores is n_rows x n_classes, row after
 * row. The same bits as mcb_scores gives row by row. */
MCB_API void mcb_scores_batch(const mcb_model *m, const float *x, size_t n_rows, size_t stride,
                              double *scores) {
    size_t r;
    if (m->decoder) {
        mcb__scores_decoded(m, x, MCB_VALUES_F32, n_rows, stride, scores);
        return;
    }
    mcb_start_scores(m, n_rows, scores);
    if (m->kind == MCB_KIND_STUMPS) {
        if (m->n_learners) mcb__add_stumps_batch(m, x, n_rows, stride, 0, m->n_learners, scores);
    } else if (m->kind == MCB_KIND_TREES) {
        mcb__add_trees(m, x, MCB_VALUES_F32, n_rows, stride, 0, m->n_learners, scores);
    } else if (m->kind == MCB_KIND_PACKED) {
        mcb__add_packed(m, x, MCB_VALUES_F32, n_rows, stride, 0, m->n_learners, scores);
    } else if (m->kind == MCB_KIND_LINEAR || m->kind == MCB_KIND_KERNEL) {
        mcb__add_machine(m, x, n_rows, stride, scores);
    } else {
        for (r = 0; r < n_rows; r++)
            mcb__add_intervals_row(m, x + r * stride, scores + r * (size_t)m->n_classes);
    }
}

MCB__INLINE int mcb__before(const double *scores, uint32_t a, uint32_t b) {
    return scores[a] > scores[b] || (scores[a] == scores[b] && a < b);
}

/* Where class k belongs in a heap of n without its top. */
static inline uint32_t mcb__sift(const double *scores, uint32_t *heap, uint32_t n, uint32_t k) {
    uint32_t i = 0, child;
    for (; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && mcb__before(scores, heap[child], heap[child + 1])) child++;
        if (!mcb__before(scores, k, heap[child])) break;
        heap[i] = heap[child];
    }
    return i;
}

/* Class with the highest score; ties go to the lowest index. */
MCB_API uint32_t mcb_argmax(const mcb_model *m, const double *scores) {
    uint32_t k, best = 0;
    for (k = 1; k < m->n_classes; k++) {
        if (scores[k] > scores[best]) best = k;
    }
    return best;
}

/* Add a class to a heap of up to n of those with the highest scores, its last in order on top. */
static inline void mcb__keep(const double *scores, uint32_t k, uint32_t n, uint32_t *kept,
                             uint32_t *heap) {
    uint32_t i;
    if (*kept < n) {
        for (i = (*kept)++; i && mcb__before(scores, heap[(i - 1) / 2], k); i = (i - 1) / 2)
            heap[i] = heap[(i - 1) / 2];
    } else {
        if (!mcb__before(scores, k, heap[0])) return;
        i = mcb__sift(scores, heap, n, k);
    }
    heap[i] = k;
}

/* A heap of n classes in order, from the highest score on. */
static inline void mcb__in_order(const double *scores, uint32_t n, uint32_t *heap) {
    while (n > 1) { /* the last goes to the end */
        uint32_t child = heap[--n], k = heap[0];
        heap[mcb__sift(scores, heap, n, child)] = child;
        heap[n] = k;
    }
}

/* The n classes with the highest scores, from the highest on; of equal scores the lowest class comes first. n is from 1 to
 * n_classes; top has room for n numbers. Takes n_classes steps, and about n log(n) more for each new one among the n. */
MCB_API void mcb_top(const mcb_model *m, const double *scores, uint32_t n, uint32_t *top) {
    uint32_t k, kept = 0;
    for (k = 0; k < m->n_classes; k++) mcb__keep(scores, k, n, &kept, top);
    mcb__in_order(scores, kept, top);
}

/* Class of one row; scores (room for n_classes doubles) receives its scores. */
MCB_API uint32_t mcb_predict(const mcb_model *m, const float *x, double *scores) {
    mcb_scores(m, x, scores);
    return mcb_argmax(m, scores);
}

/* ------------------------------------------------------------------------------- the highest scores of few entries */

/* The highest scores of very many classes, where leaves have numbers of few classes: the others keep their bias. */

/* What a row finds and leaves behind: the scores are the biases. */
typedef struct {
    double *score;         /* n_classes */
    uint32_t *order;       /* classes by bias, the highest first, of equal ones the lowest class */
    uint32_t *touched;     /* n_classes + 1: classes whose scores the row changes */
    unsigned char *marked; /* n_classes: 1 for these */
} mcb__tops;

/* Bytes that mcb_top_begin needs; 0 where the model is not prepared, or the leaves of its trees have numbers for all
 * classes: then mcb_scores and mcb_top are the way. */
MCB_API size_t mcb_top_size(const mcb_model *m) {
    size_t K = m->n_classes;
    if (m->kind != MCB_KIND_TREES || !m->prepared || !m->section[MCB_S_LOFF].data) return 0;
    return mcb__room(1, sizeof(mcb__tops)) + mcb__room(K, sizeof(double)) +
           mcb__room(K, sizeof(uint32_t)) + mcb__room(K + 1, sizeof(uint32_t)) + mcb__room(K, 1);
}

/* Get memory ready for mcb_top_scores: aligned to 8 bytes, mcb_top_size(model) of them or more, for one thread at a time.
 * MCB_E_ARGUMENT if it is too small or misaligned, or if that size is 0. */
MCB_API int mcb_top_begin(const mcb_model *m, void *memory, size_t size) {
    size_t K = m->n_classes, needed = mcb_top_size(m);
    unsigned char *at = (unsigned char *)memory;
    mcb__tops *tops;
    if (!needed || !memory || size < needed || (uintptr_t)memory % 8) return MCB_E_ARGUMENT;
    MCB__TAKE(tops, mcb__tops, 1);
    MCB__TAKE(tops->score, double, K);
    MCB__TAKE(tops->order, uint32_t, K);
    MCB__TAKE(tops->touched, uint32_t, K + 1);
    tops->marked = at;
    memset(at, 0, K);
    mcb_start_scores(m, 1, tops->score);
    mcb_top(m, tops->score, m->n_classes, tops->order);
    return MCB_OK;
}

/* Add the entries of the leaves of a row; returns how many classes they touch, and to `all` what all classes get. */
static inline uint32_t mcb__touch(const mcb_model *m, const mcb__tops *tops, const float *x,
                                  double *all) {
    const mcb__prepared *p = (const mcb__prepared *)m->prepared;
    float v[MCB__COLUMNS];
    uint32_t count = 0, e;
    uint64_t b, t, end;
    size_t i, n;
    for (b = 0; b < p->n_blocks; b++) {
        const mcb__block *block = p->block + b;
        t = block->tree;
        end = m->n_learners < block[1].tree ? m->n_learners : block[1].tree;
        if (t >= end) continue;
        mcb__copy_columns(p, block, x, MCB_VALUES_F32, 1, 0, 1, v);
        for (; t < end; t += n) {
            float found[MCB__SORTED];
            n = mcb__find_leaves(p, block, t, end, v, found);
            for (i = 0; i < n; i++) {
                size_t leaf = mcb__leaf_of(p, t + i, found[i]);
                mcb__fetch_entries(p, t + i, found + i, n - i);
                for (e = p->first[leaf]; e < p->first[leaf + 1]; e++) {
                    uint32_t k = p->entry[e];
                    tops->touched[count] = k;
                    count += !tops->marked[k];
                    tops->marked[k] = 1;
                    tops->score[k] += (double)p->leaf[e];
                }
                if (p->all) *all += (double)p->all[leaf];
            }
        }
    }
    return count;
}

/* The n classes with the highest scores of one row, from the highest on, and these scores: the classes of mcb_top and the
 * bits of mcb_scores. The time does not depend on the number of classes, but on the entries of the leaves that the row
 * comes to. memory: of mcb_top_begin; n is from 1 to n_classes; top and scores have room for n. */
MCB_API void mcb_top_scores(const mcb_model *m, void *memory, const float *x, uint32_t n,
                            uint32_t *top, double *scores) {
    const mcb__tops *tops = (const mcb__tops *)memory;
    double all = 0;
    uint32_t count = mcb__touch(m, tops, x, &all), kept = 0, j, others = 0;
    for (j = 0; j < count; j++) mcb__keep(tops->score, tops->touched[j], n, &kept, top);
    for (j = 0; j < m->n_classes && others < n; j++) {
        if (tops->marked[tops->order[j]]) continue;
        mcb__keep(tops->score, tops->order[j], n, &kept, top);
        others++;
    }
    mcb__in_order(tops->score, kept, top);
    for (j = 0; j < n; j++) {
        scores[j] = tops->score[top[j]];
        mcb__add_to_all(all, 1, scores + j);
    }
    for (j = 0; j < count; j++) {
        uint32_t k = tops->touched[j];
        tops->score[k] = (double)mcb__f32(m->section[MCB_S_BIAS].data + 4 * (size_t)k);
        tops->marked[k] = 0;
    }
}

/* ------------------------------------------------------------------------------------- hyperplanes that are left out */

/* Prepares linear machines whose hyperplanes are left out where they cannot win. */

/* Certified exits of linear machines. The hyperplanes of a few classes, the basis, may give those of all others but for
 * a small rest: w_k = sum_p share_kp w_p + rest_k. So it is after fewer rounds than classes, and with fewer features than
 * classes. The products of a row with the basis then say what class k gets but for bound_k |x|, and only classes that
 * this leaves a chance to win need hyperplanes of their own. Classes that no round has told apart are twins: the first
 * of them stands for all.
 *
 * |x|^2 = sum_j (unit_j x_j)^2; unit_j, a power of 2, is about the largest coefficient of feature j, so that the units of
 * the features do not matter. Factors are rounded so that products are exact: no build has other bits. */
enum { MCB__BASIS = 256, MCB__SKETCH = 1024 };

typedef struct {
    size_t n;            /* hyperplanes in the basis; 0 if nothing can be left out */
    const uint32_t *cls; /* their classes */
    const float *share;  /* n x n_classes */
    const float *bound;  /* of each class, 0 in the basis */
    const float *slack;  /* to be added to the bound times |x|: 0 in the basis alone */
    const float *unit;   /* of each feature */
    const float *plane;  /* coefficients of the basis, n x n_features */
    const float *column; /* the same, n_features x n, for sparse rows */
    const uint32_t *
        twin; /* of each class, the first one that has the same hyperplane and bias: maybe itself */
} mcb__basis;

/* Hyperplanes in a basis at most: with more of them, little is left out. */
static inline size_t mcb__most_basis(const mcb_model *m) {
    size_t K = m->n_classes, most = K - (K + 3) / 4;
    if (most > m->n_features) most = m->n_features;
    return most < MCB__BASIS ? most : (size_t)MCB__BASIS;
}

/* Bytes that mcb_prepare_early needs; 0 unless the model is a linear machine, and one that leaves room in memory. */
MCB_API size_t mcb_early_size(const mcb_model *m) {
    size_t K = m->n_classes, d = m->n_features, n,
           width = d < MCB__SKETCH ? d : (size_t)MCB__SKETCH;
    if (m->kind != MCB_KIND_LINEAR || m->section[MCB_S_WMAT].count >= SIZE_MAX / 64) return 0;
    n = mcb__most_basis(m);
    return mcb__room(1, sizeof(mcb__basis)) + mcb__room(n + K, sizeof(uint32_t)) +
           mcb__room(n * K, sizeof(float)) + 2 * mcb__room(K, sizeof(float)) +
           mcb__room(d, sizeof(float)) + 2 * mcb__room(n * d, sizeof(float)) +
           mcb__room(K * width, sizeof(double)) + mcb__room(K * n, sizeof(double)) +
           2 * mcb__room(K, sizeof(double));
}

static inline float mcb__coefficient(const mcb_model *m, size_t k, size_t j) {
    return mcb__f32(m->section[MCB_S_WMAT].data + 4 * (k * m->n_features + j));
}

/* The first class with the same bytes as each. spare: room for a number of each class. */
static inline void mcb__find_twins(const mcb_model *m, double *spare, uint32_t *twin) {
    const unsigned char *w = m->section[MCB_S_WMAT].data, *bias = m->section[MCB_S_BIAS].data;
    size_t K = m->n_classes, size = 4 * (size_t)m->n_features, k, i;
    for (k = 0; k < K; k++) {
        spare[k] = (double)mcb_crc32c(0, w + k * size, size);
        for (i = 0; i < k; i++) {
            if (spare[i] == spare[k] && memcmp(bias + 4 * i, bias + 4 * k, 4) == 0 &&
                memcmp(w + i * size, w + k * size, size) == 0)
                break;
        }
        twin[k] = (uint32_t)i;
    }
}

/* The powers of 2 below the largest coefficients; 0 for features without any. */
static inline void mcb__units(const mcb_model *m, float *unit) {
    size_t K = m->n_classes, d = m->n_features, j, k;
    for (j = 0; j < d; j++) unit[j] = 0;
    for (k = 0; k < K; k++) {
        for (j = 0; j < d; j++) {
            float w = mcb__coefficient(m, k, j);
            w = w < 0 ? -w : w;
            if (w > unit[j]) unit[j] = w;
        }
    }
    for (j = 0; j < d; j++) {
        uint32_t bits;
        memcpy(&bits, unit + j, sizeof bits);
        bits = bits & 0x7f800000u ? bits & 0x7f800000u : (uint32_t)(bits > 0);
        memcpy(unit + j, &bits, sizeof bits);
    }
}

/* Hyperplanes in units, with the features of many added up at random, with either sign: as many of these are independent. */
static inline void mcb__sketch(const mcb_model *m, const float *unit, size_t width,
                               double *sketch) {
    size_t K = m->n_classes, d = m->n_features, j, k;
    for (j = 0; j < K * width; j++) sketch[j] = 0;
    for (k = 0; k < K; k++) {
        double *mine = sketch + k * width;
        for (j = 0; j < d; j++) {
            uint32_t hash = (uint32_t)j * 0x9e3779b1u;
            double w = unit[j] > 0 ? (double)mcb__coefficient(m, k, j) / (double)unit[j] : 0;
            if (width == d)
                mine[j] = w;
            else
                mine[hash >> 22] += hash >> 21 & 1 ? w : -w; /* MCB__SKETCH of them */
        }
        for (j = 0; j < width; j++) mine[j] = mcb__shortened(mine[j]);
    }
}

/* Sum of products of numbers with 29 bits and floats, in 8 chains. */
static inline double mcb__inner(const double *v, const float *w, size_t n) {
    double sum[MCB__SUMS] = {0, 0, 0, 0, 0, 0, 0, 0};
    size_t i, j;
    for (j = 0; j + MCB__SUMS <= n; j += MCB__SUMS) {
        for (i = 0; i < MCB__SUMS; i++) sum[i] += v[j + i] * (double)w[j + i];
    }
    for (i = 0; i < n - j; i++) sum[i] += v[j + i] * (double)w[j + i];
    return mcb__total(sum);
}

/* Sum of squares of numbers rounded to float. */
static inline double mcb__square(const double *v, size_t n) {
    double sum[MCB__SUMS] = {0, 0, 0, 0, 0, 0, 0, 0};
    size_t i, j;
    for (j = 0; j + MCB__SUMS <= n; j += MCB__SUMS) {
        for (i = 0; i < MCB__SUMS; i++) sum[i] += (double)(float)v[j + i] * (double)(float)v[j + i];
    }
    for (i = 0; i < n - j; i++) sum[i] += (double)(float)v[j + i] * (double)(float)v[j + i];
    return mcb__total(sum);
}

/* Choose a basis by Gram and Schmidt, the hyperplane with the largest rest next; triangle receives the parts of all
 * hyperplanes, n_classes x most. Returns how many it has, 0 if they are not enough. */
static inline size_t mcb__choose_basis(size_t K, size_t width, size_t most, double *sketch,
                                       double *triangle, double *whole, double *rest,
                                       const uint32_t *twin, uint32_t *cls) {
    float way[MCB__SKETCH];
    size_t n, k, j, next;
    for (n = 0;; n++) {
        double largest = 0, length;
        for (k = 0, next = K; k < K; k++) {
            rest[k] = twin[k] == k ? mcb__square(sketch + k * width, width) : 0;
            if (!n) whole[k] = rest[k];
            /* Rounded coefficients leave squares of about 2^-48: less than 2^-36 is nothing. */
            if (rest[k] * 68719476736.0 <= whole[k] || rest[k] / whole[k] <= largest) continue;
            largest = rest[k] / whole[k];
            next = k;
        }
        if (next == K) return n;
        if (n == most) return 0;
        cls[n] = (uint32_t)next;
        length = mcb__quick_sqrt(rest[next]);
        for (j = 0; j < width; j++) way[j] = (float)(sketch[next * width + j] / length);
        for (k = 0; k < K; k++) {
            double *mine = sketch + k * width, part = mcb__shortened(mcb__inner(mine, way, width));
            triangle[k * most + n] = part;
            for (j = 0; j < width; j++) mine[j] = mcb__shortened(mine[j] - part * (double)way[j]);
            if (k == next) {
                for (j = 0; j < width; j++) mine[j] = 0;
            }
        }
    }
}

/* What each hyperplane of the basis has in class k, by substitution. False if a share is out of all proportion. */
static inline int mcb__shares(const mcb_model *m, size_t n, size_t most, const uint32_t *cls,
                              const double *triangle, size_t k, float *share) {
    size_t K = m->n_classes, i, j;
    for (i = n; i-- > 0;) {
        double v = triangle[k * most + i];
        float part;
        for (j = i + 1; j < n; j++) v -= (double)share[j * K + k] * triangle[cls[j] * most + i];
        v /= triangle[cls[i] * most + i];
        if (!(v < 1e12 && v > -1e12)) return 0;
        part = (float)v;
        share[i * K + k] = part;
    }
    return 1;
}

/* Norms in units of the hyperplane of class k, and of what is left of it without its shares of the basis. */
static inline void mcb__norms(const mcb_model *m, const mcb__basis *b, size_t k, double *whole,
                              double *rest) {
    double left[MCB__T_FEATURES];
    size_t K = m->n_classes, d = m->n_features, j, i, p, n;
    int shared;
    for (shared = 0; shared < (rest ? 2 : 1); shared++) {
        double sum = 0;
        for (j = 0; j < d; j += n) {
            n = d - j < MCB__T_FEATURES ? d - j : (size_t)MCB__T_FEATURES;
            for (i = 0; i < n; i++) left[i] = (double)mcb__coefficient(m, k, j + i);
            for (p = 0; p < b->n && shared; p++) {
                const unsigned char *w =
                    m->section[MCB_S_WMAT].data + 4 * ((size_t)b->cls[p] * d + j);
                double part = (double)b->share[p * K + k];
                for (i = 0; i < n; i++) left[i] -= part * (double)mcb__f32(w + 4 * i);
            }
            for (i = 0; i < n; i++)
                left[i] = b->unit[j + i] > 0 ? left[i] / (double)b->unit[j + i] : 0;
            sum += mcb__square(left, n);
        }
        /* Somewhat more than its rounding errors; numbers too small for a float are below 2^-149. */
        sum = mcb__shortened((mcb__quick_sqrt(sum) + 1e-38) * (1 + 1 / 1048576.0));
        *(shared ? rest : whole) = sum;
    }
}

/* The least power of 2 that is n or more, times 2^-53. */
static inline double mcb__rounding(size_t n) {
    double power = DBL_EPSILON / 2;
    for (; n > 1; n = (n + 1) / 2) power *= 2;
    return power;
}

/* Bounds of class k times |x|: the rest; 2^-28 of the shares, whose products have 29 bits; the rounding errors of sums
 * over the features, of this hyperplane and of those it has shares of. */
static inline float mcb__bound_of(const mcb_model *m, const mcb__basis *b, size_t k,
                                  const double *whole) {
    double mine = 0, rest = 0, shares = 0, bound,
           rounding = mcb__rounding((size_t)m->n_features + 300);
    size_t p;
    float up;
    mcb__norms(m, b, k, &mine, &rest);
    for (p = 0; p < b->n; p++) {
        float share = b->share[p * m->n_classes + k];
        shares += (double)(share < 0 ? -share : share) * whole[p];
    }
    shares = mcb__shortened(shares * (1 + 1 / 1048576.0));
    bound = rest + (rounding * mine + (rounding * shares + shares / 268435456.0));
    up = (float)(bound * (1 + 1 / 1048576.0));
    return up;
}

static inline void mcb__fill_basis(const mcb_model *m, mcb__basis *b, float *share, float *bound,
                                   float *slack, float *plane, float *column,
                                   const double *triangle, size_t most, double *whole) {
    size_t K = m->n_classes, d = m->n_features, k, j, p;
    for (k = 0; k < K && b->n; k++) {
        /* The bias is what the shares are added to, 256 of them at most; 1e-37 is more than what is too small to tell. */
        float bias = mcb__f32(m->section[MCB_S_BIAS].data + 4 * k);
        slack[k] = (bias < 0 ? -bias : bias) / 8796093022208.0f + 1e-37f; /* 2^43 */
        if (!mcb__shares(m, b->n, most, b->cls, triangle, k, share)) b->n = 0;
    }
    for (p = 0; p < b->n; p++) {
        bound[b->cls[p]] = slack[b->cls[p]] = 0;
        for (k = 0; k < b->n; k++) share[k * K + b->cls[p]] = 0;
        mcb__norms(m, b, b->cls[p], whole + p, 0);
    }
    for (k = 0; k < K && b->n; k++) {
        if (!(slack[k] > 0)) continue;
        bound[k] = mcb__bound_of(m, b, k, whole);
        if (!(bound[k] <= FLT_MAX)) b->n = 0;
    }
    for (p = 0; p < b->n; p++) {
        for (j = 0; j < d; j++)
            column[j * b->n + p] = plane[p * d + j] = mcb__coefficient(m, b->cls[p], j);
    }
}

/* Find out which hyperplanes of a linear machine its certified exits can leave out; mcb_has_early is then true. The
 * memory is as for mcb_prepare, and has mcb_early_size(model) bytes or more. Models of other kinds stay as they are.
 * MCB_E_ARGUMENT if the memory is too small or misaligned. */
MCB_API int mcb_prepare_early(mcb_model *m, void *memory, size_t size) {
    size_t K = m->n_classes, d = m->n_features, most,
           width = d < MCB__SKETCH ? d : (size_t)MCB__SKETCH;
    size_t needed = mcb_early_size(m);
    unsigned char *at = (unsigned char *)memory;
    mcb__basis *b;
    uint32_t *cls;
    float *share, *bound, *slack, *unit, *plane, *column;
    double *sketch, *triangle, *whole, *rest;
    if (!needed) return MCB_OK;
    if (!memory || size < needed || (uintptr_t)memory % 8) return MCB_E_ARGUMENT;
    most = mcb__most_basis(m);
    MCB__TAKE(b, mcb__basis, 1);
    MCB__TAKE(cls, uint32_t, most + K);
    MCB__TAKE(share, float, most *K);
    MCB__TAKE(bound, float, K);
    MCB__TAKE(slack, float, K);
    MCB__TAKE(unit, float, d);
    MCB__TAKE(plane, float, most *d);
    MCB__TAKE(column, float, most *d);
    MCB__TAKE(sketch, double, K *width);
    MCB__TAKE(triangle, double, K *most);
    MCB__TAKE(whole, double, K);
    MCB__TAKE(rest, double, K);
    mcb__find_twins(m, sketch, cls + most);
    mcb__units(m, unit);
    mcb__sketch(m, unit, width, sketch);
    b->cls = cls;
    b->share = share;
    b->bound = bound;
    b->slack = slack;
    b->unit = unit;
    b->plane = plane;
    b->column = column;
    b->twin = cls + most;
    b->n = mcb__choose_basis(K, width, most, sketch, triangle, whole, rest, b->twin, cls);
    mcb__fill_basis(m, b, share, bound, slack, plane, column, triangle, most, whole);
    m->basis = b;
    return MCB_OK;
}

/* ---------------------------------------------------------------------------- rows of machines that leave some out */

/* Predicts rows by a linear machine whose hyperplanes are left out where they cannot win. */

/* A row of a linear machine: all its features, or n that are not 0. */
typedef struct {
    const float *x;
    const uint32_t *index; /* null for all features */
    size_t n;
} mcb__row;

/* The product of a row with a hyperplane, with the bits that it has among all of them. */
static inline double mcb__product(const mcb_model *m, const mcb__row *row, size_t k) {
    const mcb_section *s = &m->section[MCB_S_WMAT];
    const unsigned char *w = s->data + 4 * k * m->n_features;
    double sum[MCB__SUMS] = {0, 0, 0, 0, 0, 0, 0, 0};
    size_t i;
    if (!row->index) {
        mcb__sums(row->x, 1, 0, w, s->data + 4 * s->count, 1, m->n_features, m->n_features, 0, 1,
                  sum);
    } else {
        for (i = 0; i < row->n; i++)
            sum[row->index[i] % MCB__SUMS] +=
                (double)row->x[i] * (double)mcb__f32(w + 4 * (size_t)row->index[i]);
    }
    return mcb__total(sum);
}

/* The products of a row with the basis. */
MCB__APART void mcb__dense_products(const mcb__basis *b, const float *x, size_t d,
                                    double *product) {
    double sum[MCB__SUMS * MCB__T_VECTORS];
    const unsigned char *w = (const unsigned char *)b->plane, *end = w + 4 * b->n * d;
    size_t first, n;
    for (first = 0; first < b->n && d; first += n) {
        n = b->n - first < MCB__T_VECTORS ? b->n - first : (size_t)MCB__T_VECTORS;
        mcb__sums(x, 1, 0, w + 4 * first * d, end, n, d, d, 0, 1, sum);
        mcb__totals(sum, 1, n, product + first);
    }
}

/* At least the length of a row in units, with 29 bits; not finite where a feature is not. */
static inline double mcb__length(const mcb__basis *b, const mcb__row *row) {
    double sum[MCB__SUMS] = {0, 0, 0, 0, 0, 0, 0, 0}, v;
    size_t i, j;
    for (j = 0; !row->index && j + MCB__SUMS <= row->n; j += MCB__SUMS) {
        for (i = 0; i < MCB__SUMS; i++) {
            v = (double)b->unit[j + i] * (double)row->x[j + i]; /* a float, but for its exponent */
            sum[i] += v * v;
        }
    }
    for (; j < row->n; j++) {
        v = (double)b->unit[row->index ? row->index[j] : j] * (double)row->x[j];
        sum[j % MCB__SUMS] += v * v;
    }
    return mcb__shortened(mcb__quick_sqrt(mcb__total(sum)) * (1 + 1 / 1048576.0));
}

/* Add what products with the basis say of the classes from k on to their scores. */
static inline void mcb__spread_rest(const mcb__basis *b, size_t k, size_t K, const double *v,
                                    double *scores) {
    size_t p;
    for (; k < K; k++) {
        for (p = 0; p < b->n; p++) scores[k] += v[p] * (double)b->share[p * K + k];
    }
}

#if MCB__VECTOR
#define MCB__SPREAD_BEGIN(i, W) s[i] = *(const mcb__dm##W *)(scores + k + W * i);
#define MCB__SPREAD_ADD(i, W)                                                                      \
    s[i] += factor * __builtin_convertvector(*(const mcb__fm##W *)(share + W * i), mcb__d##W);
#define MCB__SPREAD_END(i, W) *(mcb__dm##W *)(scores + k + W * i) = s[i];
#define MCB__DEFINE_SPREAD(W, ATTRIBUTE)                                                           \
    ATTRIBUTE MCB__APART void mcb__spread_##W(const mcb__basis *b, size_t K, const double *v,      \
                                              double *scores) {                                    \
        size_t p, k;                                                                               \
        for (k = 0; k + 4 * W <= K; k += 4 * W) {                                                  \
            mcb__d##W s[4];                                                                        \
            MCB__EACH4(MCB__SPREAD_BEGIN, W)                                                       \
            for (p = 0; p < b->n; p++) {                                                           \
                const float *share = b->share + p * K + k;                                         \
                const mcb__d##W factor = MCB__SPLAT##W(v[p]);                                      \
                MCB__EACH4(MCB__SPREAD_ADD, W)                                                     \
            }                                                                                      \
            MCB__EACH4(MCB__SPREAD_END, W)                                                         \
        }                                                                                          \
        for (; k + W <= K; k += W) {                                                               \
            mcb__d##W s[1];                                                                        \
            MCB__SPREAD_BEGIN(0, W)                                                                \
            for (p = 0; p < b->n; p++) {                                                           \
                const float *share = b->share + p * K + k;                                         \
                const mcb__d##W factor = MCB__SPLAT##W(v[p]);                                      \
                MCB__SPREAD_ADD(0, W)                                                              \
            }                                                                                      \
            MCB__SPREAD_END(0, W)                                                                  \
        }                                                                                          \
        mcb__spread_rest(b, k, K, v, scores);                                                      \
    }
MCB__DEFINE_SPREAD(2, )
#if MCB__CHOOSE || defined(__AVX2__) || defined(__AVX512F__)
MCB__DEFINE_SPREAD(4, MCB__AVX2)
#endif
#if MCB__CHOOSE || defined(__AVX512F__)
MCB__DEFINE_SPREAD(8, MCB__AVX512)
#endif
#endif

static inline void mcb__spread(const mcb__basis *b, size_t K, const double *v, double *scores) {
#if MCB__VECTOR
    MCB__DISPATCH(mcb__spread_8(b, K, v, scores), mcb__spread_4(b, K, v, scores),
                  mcb__spread_2(b, K, v, scores));
#else
    mcb__spread_rest(b, 0, K, v, scores);
#endif
}

/* Scores of the basis, what they say of the other classes, and scores of those classes that may still win. Returns how
 * many hyperplanes have been evaluated; 0, and nothing is known, if a feature is not finite. */
static inline size_t mcb__leave_out(const mcb_model *m, const mcb__basis *b, const mcb__row *row,
                                    double *scores) {
    const unsigned char *bias = m->section[MCB_S_BIAS].data;
    size_t K = m->n_classes, p, k, n = b->n, left = 0;
    double product[MCB__BASIS], length = mcb__length(b, row), best = 0;
    if (!(length <= DBL_MAX)) return 0;
    if (row->index)
        mcb__sparse_products(b->column, b->n, 0, row->n, row->index, row->x, product);
    else
        mcb__dense_products(b, row->x, m->n_features, product);
    for (k = 0; k < K; k++) scores[k] = (double)mcb__f32(bias + 4 * k);
    for (p = 0; p < b->n; p++) { /* classes of the basis have no shares */
        scores[b->cls[p]] += product[p];
        product[p] = mcb__shortened(product[p]);
    }
    mcb__spread(b, K, product, scores);
    for (k = 0; k < K; k++) {
        double low = scores[k] - ((double)b->bound[k] * length + (double)b->slack[k]);
        if (!k || low > best) best = low;
    }
#define MCB__HIGH(k) (scores[k] + ((double)b->bound[k] * length + (double)b->slack[k]))
    for (k = 0; k < K; k++) left += MCB__HIGH(k) >= best && b->twin[k] == k;
    for (k = 0; k < K && left > 1; k++) {
        if (!(b->slack[k] > 0 && b->twin[k] == k && MCB__HIGH(k) >= best)) continue;
        scores[k] = (double)mcb__f32(bias + 4 * k) + mcb__product(m, row, k);
        if (scores[k] > best) best = scores[k];
        n++;
    }
#undef MCB__HIGH
    for (k = 0; k < K; k++) scores[k] = scores[b->twin[k]];
    return n;
}

static inline int mcb__predict_linear(const mcb_model *m, const mcb__row *row, double *scores,
                                      uint32_t *label, uint64_t *n_learners) {
    const mcb__basis *b = (const mcb__basis *)m->basis;
    size_t k, n = b->n ? mcb__leave_out(m, b, row, scores) : 0;
    if (!n && !row->index) mcb_scores(m, row->x, scores);
    if (!n && row->index && m->prepared) mcb__linear_sparse(m, row->n, row->index, row->x, scores);
    for (k = 0; k < m->n_classes && !n && row->index && !m->prepared; k++) {
        scores[k] = (double)mcb__f32(m->section[MCB_S_BIAS].data + 4 * k) + mcb__product(m, row, k);
        if (scores[k] - scores[k] != 0) scores[k] = mcb__f64_of(UINT64_C(0x7ff8000000000000));
    }
    *label = mcb_argmax(m, scores);
    *n_learners = n ? n : m->n_classes;
    return MCB_OK;
}

/* ------------------------------------------------------------------------------------------------------- early exit */

/* Predictions that stop early, by certified, calibrated or rejection exits. */

/* Ways to leave learners out, for models whose file has what they need.
 *   certified   the label is that of all learners
 *   calibrated  with 95% confidence, fewer than a stated share of the labels differ, on rows like the held-out ones
 *   rejection   rows of one class, the background, are left early; others get all learners */
enum mcb_early { MCB_EARLY_CERTIFIED = 0, MCB_EARLY_CALIBRATED = 1, MCB_EARLY_REJECTION = 2 };

/* Whether mcb_predict_early can leave learners out in this way. Not after mcb_truncate: what the file has is for all of
 * them. Linear machines have certified exits after mcb_prepare_early. */
MCB_API int mcb_has_early(const mcb_model *m, int way) {
    const mcb_section *s = m->section;
    if (m->kind == MCB_KIND_LINEAR) return way == MCB_EARLY_CERTIFIED && m->basis;
    if (way < MCB_EARLY_CERTIFIED || way > MCB_EARLY_REJECTION || !s[MCB_S_PAIR + way].data)
        return 0;
    return m->n_learners == mcb__all_learners(m);
}

/* A row on its way through the learners. */
typedef struct {
    const void *x;
    double *scores;
    uint64_t learner, split; /* the next ones */
    uint32_t top, rival;     /* the class that leads, and one that has kept it from being certain */
    int width;               /* of vectors */
    int values, certified;
    const mcb__walk *walk; /* null if the trees are not prepared */
    const mcb__block *block;
    size_t copied;         /* columns of the block */
    uint64_t begin, found; /* trees whose leaves are known, in ranks */
    size_t row[MCB__SORTED];
    uint16_t rank[MCB__R_COLUMNS];
    double sums[48]; /* where scores are whole vectors, so that they need no copies */
} mcb__passage;

/* Leaves of 8 trees for one row, where there are no 16. */
MCB__INLINE void mcb__descend_8(const mcb__node **node, uint32_t depth, const float *v) {
#define MCB__HALF(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define MCB__BEGIN(i) const mcb__node *p##i = node[i];
#define MCB__PLACE(i, column) column
    const int sets = 0;
    MCB__HALF(MCB__BEGIN)
    for (; depth; depth--) {
        MCB__HALF(MCB__STEP)
        if (!(MCB__HALF(MCB__MORE) 0)) break;
    }
    MCB__HALF(MCB__KEEP)
#undef MCB__BEGIN
#undef MCB__PLACE
#undef MCB__HALF
}

/* What the leaves of n trees have for a threshold: as mcb__find_leaves, of trees that were sorted together. */
MCB__INLINE void mcb__find_sorted(const mcb__prepared *p, const mcb__walk *walk, size_t n,
                                  const float *v, float *found) {
    size_t i, j, most;
    for (i = 0; i < n; i += most) {
        const mcb__node *node[MCB__GROUP];
        size_t lanes = n - i > MCB__GROUP / 2 ? MCB__GROUP : MCB__GROUP / 2;
        most = n - i < lanes ? n - i : lanes;
        for (j = 0; j < lanes; j++) node[j] = p->node + walk[i + (j < most ? j : 0)].root;
        if (lanes == MCB__GROUP)
            mcb__descend_trees(node, walk[i + most - 1].depth, v, 0);
        else
            mcb__descend_8(node, walk[i + most - 1].depth, v);
        for (j = 0; j < most; j++) found[walk[i + j].number] = node[j]->threshold;
    }
}

/* Add prepared trees up to `end`, where those of the passage's walk were sorted apart. Columns are copied when a tree
 * asks for them: they are numbered in the order of the trees. */
#define MCB__DEFINE_PASS(W, ATTRIBUTE)                                                             \
    ATTRIBUTE MCB__APART void mcb__pass_##W(const mcb_model *m, mcb__passage *s, uint64_t end,     \
                                            float *v) {                                            \
        const mcb__prepared *p = (const mcb__prepared *)m->prepared;                               \
        const float *x = (const float *)s->x;                                                      \
        size_t K = m->n_classes, i, n;                                                             \
        for (; s->learner < end; s->learner += n) {                                                \
            uint64_t t = s->learner, stop;                                                         \
            float found[MCB__SORTED];                                                              \
            const mcb__column *column;                                                             \
            if (t == s->block[1].tree) {                                                           \
                s->block++;                                                                        \
                s->copied = 0;                                                                     \
            }                                                                                      \
            column = p->column + s->block->column;                                                 \
            stop = end < s->block[1].tree ? end : s->block[1].tree;                                \
            n = stop - t < MCB__SORTED ? (size_t)(stop - t) : (size_t)MCB__SORTED;                 \
            for (i = s->copied; i < p->used[t + n - 1]; i++) {                                     \
                float value = x[column[i].feature];                                                \
                v[i] = value != value ? column[i].missing : value;                                 \
            }                                                                                      \
            s->copied = i;                                                                         \
            mcb__find_sorted(p, s->walk + t, n, v, found);                                         \
            if (m->section[MCB_S_TCLS].data) {                                                     \
                mcb__add_values(p, t, found, n, K, s->scores);                                     \
                continue;                                                                          \
            }                                                                                      \
            for (i = 0; i < n; i++) {                                                              \
                size_t leaf = mcb__leaf_of(p, t + i, found[i]);                                    \
                if (p->first)                                                                      \
                    mcb__add_entries(p, leaf, s->scores);                                          \
                else                                                                               \
                    mcb__add_vector_##W(p->leaf + leaf * p->step, K, s->scores);                   \
            }                                                                                      \
        }                                                                                          \
    }

MCB__DEFINE_PASS(2, )
#if MCB__VECTOR && (MCB__CHOOSE || defined(__AVX2__) || defined(__AVX512F__))
MCB__DEFINE_PASS(4, MCB__AVX2)
#endif
#if MCB__VECTOR && (MCB__CHOOSE || defined(__AVX512F__))
MCB__DEFINE_PASS(8, MCB__AVX512)
#endif

#if MCB__VECTOR && (MCB__CHOOSE || defined(__AVX512F__))
/* The same for trees in ranks. More of them are descended at a time than lie between two checkpoints. */
MCB__AVX512 MCB__APART void mcb__pass_ranked(const mcb_model *m, mcb__passage *s, uint64_t end) {
    const mcb__prepared *p = (const mcb__prepared *)m->prepared;
    size_t K = m->n_classes, i, n;
    if (!s->found) mcb__rank_row(p->ranks, s->x, s->values, s->rank);
    for (; s->learner < end; s->learner += n) {
        const size_t *row;
        float value[MCB__SORTED];
        if (s->learner == s->found) {
            uint64_t rest = m->n_learners - s->found, ahead = mcb__ahead(s->found);
            if (s->certified)
                ahead = end - s->found < MCB__SORTED ? end - s->found : (uint64_t)MCB__SORTED;
            n = (size_t)(rest < ahead ? rest : ahead);
            mcb__find_ranked(p->ranks, &p->ranks->early[s->certified], s->found, n, s->rank,
                             s->row);
            s->begin = s->found;
            s->found += n;
        }
        row = s->row + (s->learner - s->begin);
        n = (size_t)((end < s->found ? end : s->found) - s->learner);
        if (s->scores == s->sums) {
            const size_t first = 0;
            double *all = s->sums;
            switch (p->step / 4) { MCB__CASES12(MCB__SUM_CASE_4) }
        } else if (!m->section[MCB_S_TCLS].data) {
            mcb__add_rows_8(p, row, n, K, s->scores);
        } else {
            for (i = 0; i < n; i++) value[i] = p->leaf[row[i]];
            mcb__add_values(p, s->learner, value, n, K, s->scores);
        }
    }
}
#endif

/* Add the learners up to `end`. v: room for the columns of a block. */
static inline void mcb__pass(const mcb_model *m, mcb__passage *s, uint64_t end, float *v) {
    if (m->kind == MCB_KIND_STUMPS) {
        if (s->values == MCB_VALUES_F32)
            mcb__add_stumps_row(m, (const float *)s->x, s->learner, end, s->scores);
        else
            mcb__add_stumps_plain(m, s->x, s->values, s->learner, end, s->scores);
    } else if (!s->walk) {
        mcb__add_trees_row(m, s->x, s->values, s->learner, end, s->split, s->scores);
        for (; s->learner < end; s->learner++)
            s->split += mcb__uint(&m->section[MCB_S_TSIZ], s->learner);
    } else {
#if MCB__VECTOR && (MCB__CHOOSE || defined(__AVX512F__))
        if (s->width == 8) {
            if (((const mcb__prepared *)m->prepared)->ranks)
                mcb__pass_ranked(m, s, end);
            else
                mcb__pass_8(m, s, end, v);
            return;
        }
#endif
#if MCB__VECTOR && (MCB__CHOOSE || defined(__AVX2__) || defined(__AVX512F__))
        if (s->width == 4) {
            mcb__pass_4(m, s, end, v);
            return;
        }
#endif
        mcb__pass_2(m, s, end, v);
    }
    s->learner = end;
}

/* The largest of the scores, and the largest but one. */
static inline double mcb__two_largest(const double *scores, size_t K, double *second) {
    double first = scores[0], next = scores[1];
    size_t k;
    if (next > first) {
        next = scores[0];
        first = scores[1];
    }
    for (k = 2; k < K; k++) {
        double v = scores[k], low = v < first ? v : first;
        first = v > first ? v : first;
        next = low > next ? low : next;
    }
    *second = next;
    return first;
}

/* Whether class s->top leads every other by more than bounds number c say that the other learners take away. The rival
 * that was too near before is asked first. */
static inline int mcb__certain(const mcb_model *m, mcb__passage *s, uint64_t c) {
    const mcb_section *pair = &m->section[MCB_S_PAIR];
    size_t K = m->n_classes, k, j;
    double largest = s->scores[0], lead;
    const double *scores = s->scores;
    uint64_t row;
    for (k = 1; k < K; k++) largest = scores[k] > largest ? scores[k] : largest;
    if (scores[s->top] < largest) s->top = mcb_argmax(m, scores);
    lead = scores[s->top];
    row = (c * K + s->top) * (K - 1);
#define MCB__BOUND(j) mcb__bound(pair, row + (j) - ((j) > s->top))
    if (s->rival != s->top && !(lead - scores[s->rival] > MCB__BOUND(s->rival))) return 0;
    for (j = 0; j < K; j++) {
        if (j == s->top || lead - scores[j] > MCB__BOUND(j)) continue;
        s->rival = (uint32_t)j;
        return 0;
    }
#undef MCB__BOUND
    return 1;
}

/* Whether the learners after checkpoint c can be left out. s->top becomes the label. */
static inline int mcb__may_exit(const mcb_model *m, mcb__passage *s, int way, uint64_t c) {
    const unsigned char *number = m->section[MCB_S_PAIR + way].data;
    size_t K = m->n_classes, k;
    double threshold, other;
    if (way == MCB_EARLY_CERTIFIED) return mcb__certain(m, s, (c - mcb__first_exit(m, 1)) / 2);
    threshold = mcb__f64(number + 8 * (3 + c));
    if (!(threshold <= DBL_MAX)) return 0;
    if (way == MCB_EARLY_CALIBRATED) {
        double first = mcb__two_largest(s->scores, K, &other);
        if (!(first - other > threshold)) return 0;
        s->top = mcb_argmax(m, s->scores);
        return 1;
    }
    s->top = (uint32_t)mcb__f64(number + 16);
    other = s->scores[s->top ? 0 : 1];
    for (k = 0; k < K; k++) other = k != s->top && s->scores[k] > other ? s->scores[k] : other;
    return s->scores[s->top] - other > threshold;
}

static inline int mcb__predict_early(const mcb_model *m, int way, const void *x, int values,
                                     double *scores, uint32_t *label, uint64_t *n_learners) {
    const mcb_section *checkpoint = &m->section[MCB_S_EXIT];
    const mcb__prepared *p = (const mcb__prepared *)m->prepared;
    const int certified = way == MCB_EARLY_CERTIFIED;
    float v[MCB__COLUMNS];
    mcb__passage s;
    uint64_t c;
    if (!mcb_has_early(m, way)) return MCB_E_EARLY;
    c = mcb__next_exit(m, certified, mcb__first_exit(m, certified));
    if (c >= checkpoint->count && values == MCB_VALUES_F32) { /* nowhere to exit */
        *label = mcb_predict(m, (const float *)x, scores);
        *n_learners = m->n_learners;
        return MCB_OK;
    }
    memset(&s, 0, offsetof(mcb__passage, row));
    s.x = x;
    s.values = values;
    s.certified = certified;
    s.scores = scores;
    if (p && values == MCB_VALUES_F32 && p->ranks && p->step % 4 == 0 && p->step <= 48)
        s.scores = s.sums;
#if MCB__VECTOR
    s.width = mcb__width();
#endif
    if (p && values == MCB_VALUES_F32 && !p->question) {
        s.block = p->block;
        s.walk = p->early[certified];
    }
    mcb_start_scores(m, 1, s.scores);
    for (; c < checkpoint->count; c = mcb__next_exit(m, certified, c + 1 + (uint64_t)certified)) {
        mcb__pass(m, &s, mcb__uint(checkpoint, c), v);
        if (mcb__may_exit(m, &s, way, c)) break;
    }
    if (c >= checkpoint->count) {
        mcb__pass(m, &s, m->n_learners, v);
        s.top = mcb_argmax(m, s.scores);
    }
    if (s.scores != scores) memcpy(scores, s.scores, m->n_classes * sizeof *scores);
    *label = s.top;
    *n_learners = s.learner;
    return MCB_OK;
}

/* Class of one row, for which the last learners may be skipped (enum mcb_early). scores (room for n_classes doubles)
 * receives the sums of the first n_learners learners: do not pass them to mcb_probabilities. After mcb_prepare it is
 * faster, unless splits ask for sets of categories. MCB_E_EARLY, and nothing is written, unless mcb_has_early.
 *
 * The learners of a linear machine are the hyperplanes of its n_classes classes. Classes without theirs have scores that
 * are nearly right, and below the largest, unless it is the only one that is left. */
MCB_API int mcb_predict_early(const mcb_model *m, int way, const float *x, double *scores,
                              uint32_t *label, uint64_t *n_learners) {
    if (m->kind == MCB_KIND_LINEAR && mcb_has_early(m, way)) {
        mcb__row row;
        row.x = x;
        row.index = 0;
        row.n = m->n_features;
        return mcb__predict_linear(m, &row, scores, label, n_learners);
    }
    return mcb__predict_early(m, way, x, MCB_VALUES_F32, scores, label, n_learners);
}

/* ----------------------------------------------------------------------------------------- lazy features, integers */

/* Rows that ask for their features one by one, and sparse rows and rows of integers. */

/* Scores of rows that are not floats. */
static inline void mcb__scores_of(const mcb_model *m, const void *x, int values, size_t n_rows,
                                  size_t stride, double *scores) {
    size_t r, K = m->n_classes;
    if (m->decoder) {
        mcb__scores_decoded(m, x, values, n_rows, stride, scores);
        return;
    }
    mcb_start_scores(m, n_rows, scores);
    if (m->kind == MCB_KIND_TREES) {
        mcb__add_trees(m, x, values, n_rows, stride, 0, m->n_learners, scores);
        return;
    }
    if (m->kind == MCB_KIND_PACKED) {
        mcb__add_packed(m, x, values, n_rows, stride, 0, m->n_learners, scores);
        return;
    }
    for (r = 0; r < n_rows; r++) {
        const void *row = mcb__later(x, values, r * stride);
        if (m->kind == MCB_KIND_STUMPS)
            mcb__add_stumps_plain(m, row, values, 0, m->n_learners, scores + r * K);
        else
            mcb__add_intervals_plain(m, row, values, scores + r * K);
    }
}

/* Scores of one row whose features are computed when a learner asks for them, each at most once. get(context, feature)
 * gives the value of one, NaN if it is missing.
 *
 * row has room for n_features floats and known for (n_features + 7) / 8 bytes: bit f mod 8 of byte f / 8 says that row
 * has feature f. Clear them before a row, but for features that are there already; afterwards they say what was
 * computed. The same bits as mcb_scores gives for the whole row. Linear and kernel machines ask for everything. */
MCB_API void mcb_scores_lazy(const mcb_model *m, mcb_feature get, void *context, float *row,
                             unsigned char *known, double *scores) {
    mcb__lazy s;
    uint32_t f;
    s.get = get;
    s.context = context;
    s.row = row;
    s.known = known;
    if (m->kind != MCB_KIND_LINEAR && m->kind != MCB_KIND_KERNEL) {
        mcb__scores_of(m, &s, MCB__VALUES_LAZY, 1, 0, scores);
        return;
    }
    for (f = 0; f < m->n_features; f++) mcb__ask(&s, f);
    mcb_scores(m, row, scores);
}

/* mcb_predict_early with features that are computed as for mcb_scores_lazy: those of learners that are left out are not. */
MCB_API int mcb_predict_early_lazy(const mcb_model *m, int way, mcb_feature get, void *context,
                                   float *row, unsigned char *known, double *scores,
                                   uint32_t *label, uint64_t *n_learners) {
    mcb__lazy s;
    uint32_t f;
    s.get = get;
    s.context = context;
    s.row = row;
    s.known = known;
    if (m->kind == MCB_KIND_LINEAR &&
        mcb_has_early(m, way)) { /* every hyperplane asks for everything */
        for (f = 0; f < m->n_features; f++) mcb__ask(&s, f);
        return mcb_predict_early(m, way, row, scores, label, n_learners);
    }
    return mcb__predict_early(m, way, &s, MCB__VALUES_LAZY, scores, label, n_learners);
}

/* A feature of a row given by those that are not 0. */
static inline float mcb__entry(void *context, uint32_t feature) {
    const mcb__row *row = (const mcb__row *)context;
    size_t first = 0, n = row->n;
    while (n) {
        size_t half = n / 2;
        if (row->index[first + half] < feature) {
            first += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return first < row->n && row->index[first] == feature ? row->x[first] : 0;
}

static inline mcb__lazy mcb__entries(mcb__row *row, size_t n, const uint32_t *index,
                                     const float *value) {
    static const uint32_t none = 0; /* a null index would mean all features */
    mcb__lazy s;
    row->x = value;
    row->index = n ? index : &none;
    row->n = n;
    s.get = mcb__entry;
    s.context = row;
    s.row = 0;
    s.known = 0;
    return s;
}

/* Scores of one row given by its n features that are not 0: index strictly increasing. The same bits as mcb_scores gives
 * for the whole row, in time and memory that do not depend on n_features: lists of stumps and trees look up the features
 * that their splits ask about, as they are in the file, and a linear machine must have been prepared (mcb_prepare).
 * MCB_E_ARGUMENT for a linear machine that is not, for a kernel machine, whose support vectors ask for every feature, and
 * for a wrong index. */
MCB_API int mcb_scores_sparse(const mcb_model *m, size_t n, const uint32_t *index,
                              const float *value, double *scores) {
    mcb__row row;
    mcb__lazy s;
    if (m->kind == MCB_KIND_KERNEL || (m->kind == MCB_KIND_LINEAR && !m->prepared))
        return MCB_E_ARGUMENT;
    if (mcb__check_index(m, n, index)) return MCB_E_ARGUMENT;
    if (m->kind == MCB_KIND_LINEAR) {
        mcb__linear_sparse(m, n, index, value, scores);
        return MCB_OK;
    }
    s = mcb__entries(&row, n, index, value);
    mcb__scores_of(m, &s, MCB__VALUES_LAZY, 1, 0, scores);
    return MCB_OK;
}

/* mcb_predict_early with MCB_EARLY_CERTIFIED for a row given by its n features that are not 0: index strictly increasing.
 * MCB_E_EARLY unless mcb_has_early; MCB_E_ARGUMENT for a wrong index. */
MCB_API int mcb_predict_early_sparse(const mcb_model *m, size_t n, const uint32_t *index,
                                     const float *value, double *scores, uint32_t *label,
                                     uint64_t *n_learners) {
    mcb__row row;
    mcb__lazy s;
    if (!mcb_has_early(m, MCB_EARLY_CERTIFIED)) return MCB_E_EARLY;
    if (mcb__check_index(m, n, index)) return MCB_E_ARGUMENT;
    s = mcb__entries(&row, n, index, value);
    if (m->kind == MCB_KIND_LINEAR) return mcb__predict_linear(m, &row, scores, label, n_learners);
    return mcb__predict_early(m, MCB_EARLY_CERTIFIED, &s, MCB__VALUES_LAZY, scores, label,
                              n_learners);
}

/* Scores of rows of uint8_t, int16_t or float (enum mcb_values), without a converted copy. Rows begin stride numbers
 * apart, which may be fewer than n_features: windows of a signal. The same bits as for the same numbers in float32.
 * MCB_E_ARGUMENT for other values, and for integers with a linear or kernel machine. */
MCB_API int mcb_scores_values(const mcb_model *m, int values, const void *x, size_t n_rows,
                              size_t stride, double *scores) {
    if (values == MCB_VALUES_F32) {
        mcb_scores_batch(m, (const float *)x, n_rows, stride, scores);
        return MCB_OK;
    }
    if ((values != MCB_VALUES_U8 && values != MCB_VALUES_I16) || m->kind == MCB_KIND_LINEAR ||
        m->kind == MCB_KIND_KERNEL)
        return MCB_E_ARGUMENT;
    mcb__scores_of(m, x, values, n_rows, stride, scores);
    return MCB_OK;
}

/* ------------------------------------------------------------------------------------------------- features in use */

/* Which features a model uses. */

/* Set the bit of a feature; 1 if it was not set before. */
static inline uint32_t mcb__use(unsigned char *used, uint32_t f) {
    unsigned char bit = (unsigned char)(1u << (f & 7));
    if (used[f >> 3] & bit) return 0;
    used[f >> 3] = (unsigned char)(used[f >> 3] | bit);
    return 1;
}

/* Features of the splits of the first trees of a packed model. */
static inline uint32_t mcb__used_packed(const mcb_model *m, unsigned char *used) {
    uint64_t i, t, end = 0;
    uint32_t count = 0;
    mcb__pack p;
    mcb__pack_of(m, &p);
    for (t = 0; t < m->n_learners; t++) end += mcb__pack_size(&p, t);
    for (i = 0; i < end; i++) {
        uint32_t f = mcb__bits(p.split, i * p.split_bits, p.feature_bits);
        count += mcb__use(used, mcb__uint(&p.feature, f));
    }
    return count;
}

/* Features of a machine that have a number other than 0 in some hyperplane or support vector; all of them where the
 * kernel takes distances, to which every feature adds. Not those that a scale makes 0. */
static inline uint32_t mcb__used_machine(const mcb_model *m, unsigned char *used) {
    const mcb_section *s = &m->section[m->kind == MCB_KIND_LINEAR ? MCB_S_WMAT : MCB_S_SVEC];
    const unsigned char *scale = m->section[MCB_S_SCAL].data, *kpar = m->section[MCB_S_KPAR].data;
    int kernel = m->kind == MCB_KIND_LINEAR ? MCB_KERNEL_LINEAR : (int)mcb__f32(kpar);
    int all = kernel == MCB_KERNEL_RBF || kernel == MCB_KERNEL_PERCEPTRON;
    uint64_t i, d = m->n_features;
    uint32_t count = 0;
    for (i = 0; i < s->count; i++) {
        uint32_t f = (uint32_t)(i % d);
        if (scale && mcb__f32(scale + 4 * (size_t)(d + f)) == 0) continue;
        if (all || mcb__f32(s->data + 4 * (size_t)i) != 0) count += mcb__use(used, f);
    }
    return count;
}

/* Which features can matter to the learners in use. used has room for (n_features + 7) / 8 bytes: bit f mod 8 of byte
 * f / 8 says that feature f occurs in a learner, or in a machine moves a product or a distance; the others may hold
 * anything that stays finite in float32 after the machine's scaling. Returns how many they are. Reads the whole model:
 * not for every row. */
MCB_API uint32_t mcb_used_features(const mcb_model *m, unsigned char *used) {
    const mcb_section *s = &m->section[m->kind == MCB_KIND_INTERVALS ? MCB_S_FIDX : MCB_S_FEAT];
    uint64_t i, end = m->kind == MCB_KIND_INTERVALS ? s->count : m->n_learners;
    uint32_t count = 0, mask = UINT32_MAX;
    memset(used, 0, ((size_t)m->n_features + 7) / 8);
    if (m->kind == MCB_KIND_PACKED) return mcb__used_packed(m, used);
    if (m->kind == MCB_KIND_LINEAR || m->kind == MCB_KIND_KERNEL) return mcb__used_machine(m, used);
    if (m->kind == MCB_KIND_TREES) end = mcb__tree_begin(m, m->n_learners);
    if (m->kind != MCB_KIND_INTERVALS)
        mask = s->dtype == MCB_U8 ? 0x7fu : s->dtype == MCB_U16 ? 0x7fffu : 0x7fffffffu;
    for (i = 0; i < end; i++) count += mcb__use(used, mcb__uint(s, i) & mask);
    return count;
}

/* ---------------------------------------------------------------------------------------------------- probabilities */

/* Probabilities from scores, and sets of labels. */

/* The factor by which scores are multiplied on their way to probabilities, 1 / temperature, of a model that is
 * calibrated or whose loss asks for one; 0 for others. A calibration is one of all learners: where mcb_truncate has left
 * some out, it is the factor that the loss asks for, or 0. */
MCB_API double mcb_calibration(const mcb_model *m) {
    int all = m->n_learners == mcb__all_learners(m);
    const unsigned char *factor = m->section[all ? MCB_S_CALB : MCB_S_FCAL].data;
    return factor ? mcb__f64(factor) : 0.0;
}

MCB_API int mcb_has_probabilities(const mcb_model *m) {
    return m->link != MCB_LINK_NONE || mcb_calibration(m) > 0;
}

/* Sum of the exponentials of a softmax, each from 0 to 1, in whole numbers of 2^-52 (fewer digits from 1,024 classes on).
 * Such a sum does not depend on the order of the classes: rows with the same scores in another order have equal
 * probabilities, so that they tie in a ranking. The error is below K / 2 units, and the sum is at least 1. */
static double mcb__sum_of_exponentials(const double *e, uint32_t K) {
    double unit = 4503599627370496.0; /* 2^52 */
    int64_t sum = 0;
    uint32_t k;
    while (unit * K > 4611686018427387904.0) unit /= 2; /* 2^62 */
    for (k = 0; k < K; k++)
        if (e[k] > 0)
            sum += (int64_t)(e[k] * unit + 0.5); /* NaN is above nothing; the product is exact */
    return (double)sum / unit;
}

/* The softmax of the scores of one row, or of twice the scores, times the factor, in place. */
static void mcb__softmax(double *scores, uint32_t K, int doubled, double factor) {
    double top = scores[0], sum;
    uint32_t k;
    for (k = 1; k < K; k++)
        if (scores[k] > top) top = scores[k];
    for (k = 0; k < K; k++) {
        double below = scores[k] - top;
        if (doubled) below += below;
        scores[k] =
            mcb_exp(below * factor); /* the doubling is exact, so that there is nothing to fuse */
    }
    sum = mcb__sum_of_exponentials(scores, K);
    for (k = 0; k < K; k++) scores[k] /= sum;
}

/* The share of every class in the sum of the scores of one row, in place. Scores below 0 count as 0; where none is above
 * 0, all shares are equal. */
static void mcb__share_out(double *scores, uint32_t K) {
    double top = scores[0], sum;
    uint32_t k;
    for (k = 1; k < K; k++)
        if (scores[k] > top) top = scores[k];
    if (top <= 0) {
        for (k = 0; k < K; k++) scores[k] = 1.0 / K;
        return;
    }
    for (k = 0; k < K; k++) scores[k] = scores[k] > 0 ? scores[k] / top : 0.0;
    sum = mcb__sum_of_exponentials(scores, K); /* they are from 0 to 1, too */
    for (k = 0; k < K; k++) scores[k] /= sum;
}

/* Turn the scores of one row into probabilities, in place: softmax of the scores, or of twice the scores (link 2), times
 * the factor of a calibrated model; 1 / (1 + exp(-score)) of each label (link 3); shares in the sum of the scores (link
 * 4). MCB_E_NO_LINK, and scores untouched, if the model has neither link nor factor. */
MCB_API int mcb_probabilities(const mcb_model *m, double *scores) {
    uint32_t k;
    double factor = mcb_calibration(m);
    if (m->link == MCB_LINK_SHARES) {
        mcb__share_out(scores, m->n_classes);
        return MCB_OK;
    }
    if (!(factor > 0)) {
        if (m->link == MCB_LINK_NONE) return MCB_E_NO_LINK;
        factor = 1;
    }
    if (m->link != MCB_LINK_SIGMOID) {
        mcb__softmax(scores, m->n_classes, m->link == MCB_LINK_SOFTMAX2, factor);
        return MCB_OK;
    }
    for (k = 0; k < m->n_classes; k++) {
        double x = scores[k] * factor, e = mcb_exp(x < 0 ? x : -x);
        scores[k] = (x < 0 ? e : 1.0) / (1.0 + e);
    }
    return MCB_OK;
}

/* Labels of one row from its scores, of a model with link 3: given[k] is 1 where the score is above that label's
 * threshold, else 0. Returns how many there are. Scores, not probabilities. */
MCB_API uint32_t mcb_labels_above(const mcb_model *m, const double *scores, unsigned char *given) {
    const unsigned char *above = m->section[MCB_S_ABOV].data;
    uint32_t k, n = 0;
    for (k = 0; k < m->n_classes; k++) {
        given[k] = (unsigned char)(scores[k] > (above ? mcb__f64(above + 8 * (size_t)k) : 0.0));
        n += given[k];
    }
    return n;
}


#ifdef __cplusplus
}
#endif

#endif /* MCB_H */
