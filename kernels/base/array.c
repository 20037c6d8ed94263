/* array.c - see array.h. */
#include "base/array.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_ROOM = 16 };

bool sg_array_reserve_(void *array, size_t *room, size_t need, size_t size)
{
    const size_t most = PTRDIFF_MAX / size;
    void        *p;
    if (need <= *room) return true;
    if (need > most) return false;
    size_t more = *room > most / 2 ? most : 2 * *room;
    if (more < FIRST_ROOM && FIRST_ROOM <= most) more = FIRST_ROOM;
    if (more < need) more = need;
    memcpy(&p, array, sizeof p); /* a pointer of another type may not be read as void * */
    if (!(p = realloc(p, more * size))) return false;
    memcpy(array, &p, sizeof p);
    *room = more;
    return true;
}
