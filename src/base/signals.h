/* signals.h - signals that do not end a program of this project. */
#ifndef BASE_SIGNALS_H
#define BASE_SIGNALS_H

/* Before the first line is logged: the log may be a pipe without a reader. */
void signals_ignore(void);

#endif
