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
