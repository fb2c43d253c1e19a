/* Makes the variants of a body: includes PMB_BODY once for each of float and double and 4, 8 and 16 lanes. */
#ifdef PMB_BODY
#define REAL float
#define RTAG f
#define LANES 4
#include PMB_BODY
#undef LANES
#define LANES 8
#include PMB_BODY
#undef LANES
#define LANES 16
#include PMB_BODY
#undef LANES
#undef REAL
#undef RTAG
#define REAL double
#define RTAG d
#define LANES 4
#include PMB_BODY
#undef LANES
#define LANES 8
#include PMB_BODY
#undef LANES
#define LANES 16
#include PMB_BODY
#undef LANES
#undef REAL
#undef RTAG
#undef PMB_BODY
#endif
