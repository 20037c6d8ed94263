/* clock.h - the time that work takes. */
#ifndef SG_CLOCK_H
#define SG_CLOCK_H

/* Returns the seconds on a clock that only goes forward. */
double sg_seconds(void);

#endif
