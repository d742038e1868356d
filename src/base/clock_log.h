/* clock_log.h - the log line when the machine's clock and this program's part, and when they agree again. */
#ifndef BASE_CLOCK_LOG_H
#define BASE_CLOCK_LOG_H

/* After each world_time_discipline(); logs a change only. Any thread. */
void clock_log(void);

#endif
