package inbox

import (
	"cmp"
	"context"
	"slices"

	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// stream is a source, a topic and an ordering key. The messages of a stream have an order.
type stream struct{ source, topic, key string }

// compareStreams is the order in which all processes lock positions.
func compareStreams(a, b stream) int {
	return cmp.Or(cmp.Compare(a.source, b.source), cmp.Compare(a.topic, b.topic), cmp.Compare(a.key, b.key))
}

// position is a row of once_inbox_position: the progress of one key.
type position struct {
	stream

	seq    int64 // the Seq of the last message that was applied or skipped
	parked int64
	dead   bool // the message seq+1 is a dead letter
	recent recent

	before stored // the values when the row was read
}

// stored holds the values of a position that show whether it must be written.
type stored struct {
	seq, parked int64
	dead, begun bool
}

// stored returns the values of p.
func (p *position) stored() stored { return stored{p.seq, p.parked, p.dead, len(p.recent) > 0} }

// beginsAt reports whether the next message of a key begins the sequence of the key, whatever its Seq is.
func (c *Config) beginsAt(p *position) bool {
	return c.fromAny() && !p.begun()
}

// begun reports whether the sequence of the key has begun. The Seq alone does not show it, because a sequence
// that begins with Seq 1 leaves the Seq at 0: see begin.
func (p *position) begun() bool { return p.seq > 0 || p.parked > 0 || p.dead || len(p.recent) > 0 }

// begin makes the key begin with the message seq, also if seq is 1.
func (p *position) begin(seq int64) {
	p.seq = seq - 1
	if len(p.recent) == 0 {
		p.recent = recentAt(p.seq)
	}
}

// move advances p to an applied message.
func (p *position) move(m *message.Message) {
	p.seq, p.dead, p.recent = m.Seq, false, p.recent.with(m.Seq, m.ID)
}

// changed reports whether p differs from its row.
func (p *position) changed() bool { return p.stored() != p.before }

// lock reads the positions of streams, and locks them until the transaction ends. It first inserts missing
// positions, because a missing row cannot be locked. It locks all positions in one order, so that two transactions do
// not deadlock.
func (in *Inbox[TX]) lock(ctx context.Context, r sqlplane.Runner, streams []stream) (map[stream]*position, error) {
	list := make(map[stream]*position, len(streams))
	if len(streams) == 0 {
		return list, nil
	}
	streams = slices.Clone(streams)
	slices.SortFunc(streams, compareStreams)
	streams = slices.Compact(streams)
	if in.db.Dialect() == sqlplane.MySQL { // a locking read that finds no row would lock the gap in the index, and two such transactions deadlock
		if err := in.newPositions(ctx, r, streams); err != nil {
			return nil, err
		}
	}
	if err := in.readPositions(ctx, r, streams, list); err != nil {
		return nil, err
	}
	missing := slices.DeleteFunc(streams, func(s stream) bool { return list[s] != nil })
	if len(missing) == 0 {
		return list, nil
	}
	if err := in.newPositions(ctx, r, missing); err != nil {
		return nil, err
	}
	// Another process may have inserted these rows meanwhile, so their values must be read.
	return list, in.readPositions(ctx, r, missing, list)
}

// newPositions inserts the positions of those streams that have none.
func (in *Inbox[TX]) newPositions(ctx context.Context, r sqlplane.Runner, streams []stream) error {
	for rest := streams; len(rest) > 0; {
		n := in.sql.chunk(len(rest))
		s := store.Statement{SQL: in.sql.newRows[n]}
		if in.sql.newPosition != "" {
			s.SQL, s.Args = in.sql.newPosition, append([]any{in.cfg.Consumer}, dialect.Arrays(rowsOfStreams(rest))...)
		} else {
			for _, k := range rest[:n] {
				s.Args = append(s.Args, in.cfg.Consumer, k.source, k.topic, k.key)
			}
		}
		if _, err := r.Exec(ctx, s); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

func rowsOfStreams(streams []stream) [][]any {
	rows := make([][]any, len(streams))
	for i, k := range streams {
		rows[i] = []any{k.source, k.topic, k.key}
	}
	return rows
}

// readPositions locks the existing positions of streams, and adds them to list.
func (in *Inbox[TX]) readPositions(ctx context.Context, r sqlplane.Runner, streams []stream, list map[stream]*position) error {
	for rest := streams; len(rest) > 0; {
		n, s := in.sql.chunk(len(rest)), store.Statement{}
		switch {
		case n == 1:
			s.SQL, s.Args = in.sql.lockOne, []any{in.cfg.Consumer, rest[0].source, rest[0].topic, rest[0].key}
		case in.sql.lockMany != "":
			s.SQL, s.Args = in.sql.lockMany, append(dialect.Arrays(rowsOfStreams(rest)), in.cfg.Consumer)
		default:
			s.SQL, s.Args = in.sql.lockRows[n], append(s.Args, in.cfg.Consumer)
			for _, k := range rest[:n] {
				s.Args = append(s.Args, k.source, k.topic, k.key)
			}
		}
		err := r.Query(ctx, s, func(row sqlplane.Row) error {
			p := new(position)
			err := row.Scan(&p.source, &p.topic, &p.key, &p.seq, &p.parked, &p.dead, (*[]byte)(&p.recent))
			p.before = p.stored()
			list[p.stream] = p
			return err
		})
		if err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// write writes the changed positions. pgxstore sends these writes with the COMMIT.
func (in *Inbox[TX]) write(ctx context.Context, r sqlplane.Runner, list map[stream]*position) error {
	var changed []*position
	for _, p := range list {
		if p.changed() {
			changed = append(changed, p)
		}
	}
	slices.SortFunc(changed, func(a, b *position) int { return compareStreams(a.stream, b.stream) })
	if len(changed) > 1 && in.sql.moveMany != "" {
		rows := make([][]any, len(changed))
		for i, p := range changed {
			rows[i] = []any{p.source, p.topic, p.key, p.seq, p.parked, p.dead, []byte(p.recent)}
		}
		return r.Append(ctx, store.Statement{SQL: in.sql.moveMany, Args: append(dialect.Arrays(rows), in.cfg.Consumer)})
	}
	for _, p := range changed {
		if err := r.Append(ctx, store.Statement{SQL: in.sql.moveOne, Args: []any{p.seq, p.seq, p.parked, p.dead, []byte(p.recent), in.cfg.Consumer, p.source, p.topic, p.key}, Rows: 1}); err != nil {
			return err
		}
	}
	return nil
}
