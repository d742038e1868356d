/* signals.h - signals that no program of this project ends by. */
#ifndef BASE_SIGNALS_H
#define BASE_SIGNALS_H

/* Before the first line is logged: the log may be a pipe that nobody reads any more. */
void signals_ignore(void);

#endif
