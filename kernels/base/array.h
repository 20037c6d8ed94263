/* array.h - an array that grows: a pointer, a count and a room (how many elements there is memory for), which are
 * members or variables of the caller's. All zero is an empty array; free() frees it. */
#ifndef SG_ARRAY_H
#define SG_ARRAY_H

#include <stdbool.h>
#include <stddef.h>

/* Makes room for at least `need` elements of `size` bytes at *array, at least doubling *room when it grows. False, with
 * *array and *room as they were, when memory runs out or the bytes exceed PTRDIFF_MAX. `array` points to a pointer of
 * any type. */
bool sg_array_reserve_(void *array, size_t *room, size_t need, size_t size);

/* `array` and `room` (a size_t) are lvalues. */
#define sg_array_reserve(array, room, need) sg_array_reserve_(&(array), &(room), need, sizeof *(array))

/* Appends a value, which may be a compound literal. False, with all as it was, when memory runs out. The arguments are
 * evaluated more than once, except the value. */
#define sg_array_push(array, count, room, ...)                                                                         \
    (sg_array_reserve(array, room, (size_t)(count) + 1) && ((array)[(count)++] = (__VA_ARGS__), true))

#endif
