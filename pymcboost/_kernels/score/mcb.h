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

#include "platform.h"
#include "errors.h"
#include "model.h"
#include "bytes.h"
#include "checksum.h"
#include "rules.h"
#include "packed.h"
#include "shapes.h"
#include "text.h"
#include "contents.h"
#include "open.h"
#include "access.h"
#include "categories.h"
#include "vectors.h"
#include "values.h"
#include "stumps_row.h"
#include "stumps_batch.h"
#include "intervals.h"
#include "trees.h"
#include "packed_row.h"
#include "layout.h"
#include "exits.h"
#include "ranks.h"
#include "sets.h"
#include "prepare.h"
#include "ranked.h"
#include "descend.h"
#include "tree_rows.h"
#include "functions.h"
#include "sums.h"
#include "machines.h"
#include "sparse.h"
#include "scores.h"
#include "tops.h"
#include "basis.h"
#include "planes.h"
#include "early.h"
#include "lazy.h"
#include "used.h"
#include "links.h"

#ifdef __cplusplus
}
#endif

#endif /* MCB_H */
