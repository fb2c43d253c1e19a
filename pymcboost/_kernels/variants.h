/* Makes the variants of a body: includes PMB_BODY once for each of two types and 4, 8 and 16 lanes. The types are double
 * and a narrow one: float with the tag f, unless PMB_NARROW and PMB_NARROW_TAG name another. */
#ifdef PMB_BODY
#ifndef PMB_NARROW
#define PMB_NARROW float
#define PMB_NARROW_TAG f
#endif
#define REAL PMB_NARROW
#define RTAG PMB_NARROW_TAG
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
#undef PMB_NARROW
#undef PMB_NARROW_TAG
#endif
