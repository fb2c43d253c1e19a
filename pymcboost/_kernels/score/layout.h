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
