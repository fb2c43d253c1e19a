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
