#include "pipeline/publish/positions.h"

/* The platform has everything below `next`. */
static enum position_news move(struct positions *p, uint64_t next)
{
    bool lower = next - 1 < p->confirmed;
    p->next = next;
    p->confirmed = next - 1;
    return lower ? POSITION_REPLAY : POSITION_FINE;
}

enum position_news positions_found(struct positions *p, const struct stream_report *r, uint64_t end)
{
    uint64_t next = r->known ? r->next_seq : 1, from = r->known ? r->want_from : 1;
    if (next == 0 || from == 0 || from > next || r->log_id[0] == '\0') return POSITION_NONSENSE;
    if (next - 1 > end) return POSITION_AHEAD;

    bool other = p->log_id[0] != '\0' && strcmp(p->log_id, r->log_id) != 0;
    memcpy(p->log_id, r->log_id, sizeof p->log_id);
    enum position_news news = move(p, from);
    return other ? POSITION_NEW_LOG : news;
}

enum position_news positions_relayed(struct positions *p, const struct stream_report *r,
                                     uint64_t end)
{
    struct positions moved = *p;
    enum position_news news = positions_found(&moved, r, end);
    if (news == POSITION_AHEAD || news == POSITION_NONSENSE) return news;
    /* The first answer shows where to begin. That covers any earlier request. */
    bool asked = p->next != 0 && r->replay != 0 && r->replay != p->replay;
    bool stays = p->next > moved.next && !asked;
    if (stays) moved.next = p->next;
    if (r->replay != 0) moved.replay = r->replay;
    *p = moved;
    return asked ? POSITION_ASKED : news;
}

enum position_news positions_accepted(struct positions *p, uint64_t first, uint64_t count,
                                      uint64_t next_seq, uint64_t end)
{
    /* It took the batch, so its position must be behind it. */
    if (next_seq < first + count) return POSITION_NONSENSE;
    if (next_seq - 1 > end) return POSITION_AHEAD;
    return move(p, next_seq);
}

enum position_news positions_gap(struct positions *p, uint64_t first, uint64_t want_from,
                                 uint64_t end)
{
    if (want_from == 0) return POSITION_NONSENSE;
    if (want_from - 1 > end) return POSITION_AHEAD;
    /* A gap at or behind the sent batch is impossible. Sending again would never end. */
    if (want_from >= first) return POSITION_NONSENSE;
    return move(p, want_from);
}
