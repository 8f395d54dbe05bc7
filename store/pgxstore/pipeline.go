package pgxstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/oncelib/once/internal/sql/pgsql"
	"github.com/oncelib/once/store"
)

// pipeline is a list of statements that are sent together.
type pipeline []statement

// statement is one statement of a pipeline.
type statement struct {
	sql  string
	args []any
	rows bool                 // a caller reads the rows and their columns
	each func(pgx.Rows) error // reads each row, if set

	appended bool // a Runner has appended the statement, so its tables belong to a capability

	// refusal is the kind of error that a division by zero in one of the store's own statements means. A unique violation
	// in such a statement means [store.KindTaken]. Zero: the statement cannot refuse.
	refusal store.Kind
}

func (t *pipeline) queue(sql string, args ...any) { *t = append(*t, statement{sql: sql, args: args}) }

// refusing queues one of the store's own statements, which refuses a change by a division by zero.
func (t *pipeline) refusing(kind store.Kind, sql string, args ...any) {
	*t = append(*t, statement{sql: sql, args: args, refusal: kind})
}

// at returns statement i. After the last statement it returns an empty one: then a deferred constraint has failed.
func (t *pipeline) at(i int) statement {
	if i < len(*t) {
		return (*t)[i]
	}
	return statement{}
}

// batch returns t as a batch of pgx.
func (t *pipeline) batch() *pgx.Batch {
	b := &pgx.Batch{QueuedQueries: make([]*pgx.QueuedQuery, 0, len(*t))}
	for _, s := range *t {
		b.Queue(s.sql, s.args...)
	}
	return b
}

// send sends t in one round trip. A [pgx.Batch] works for every statement and argument, but two of them are a large
// part of the client's cost of an operation. So the few most frequent statements are sent without a pgx.Batch.
func (s *Store) send(ctx context.Context, conn *pgx.Conn, t pipeline) pgx.BatchResults {
	if !s.prepares || !t.own() {
		return conn.SendBatch(ctx, t.batch())
	}
	br, err := s.sendPrepared(ctx, ctx, conn, t)
	if err != nil {
		return refusedBatch{err}
	}
	return br
}

// mayPrepare reports whether connections of the pool may keep prepared statements.
func mayPrepare(cfg *pgx.ConnConfig) bool {
	return cfg.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement && cfg.StatementCacheCapacity > 0
}

// own reports whether t contains only the store's own frequent statements. These stay prepared as long as the
// connection lives.
func (t *pipeline) own() bool {
	for _, s := range *t {
		if !own[s.sql] {
			return false
		}
	}
	return true
}

// own contains the texts of the store's own frequent statements.
var own = map[string]bool{
	beginText[store.DefaultIsolation]: true, beginText[store.ReadCommitted]: true,
	beginText[store.RepeatableRead]: true, beginText[store.Serializable]: true,
	pgsql.Budget: true, pgsql.Bounds: true, pgsql.Name: true,
	pgsql.Lock: true, pgsql.LockOrFail: true, pgsql.LockAbsentOrFail: true, pgsql.Read: true, pgsql.InsertDone: true, pgsql.InsertClaim: true, commit: true, endLookUp: true,
	pgsql.SweepLightly: true, pgsql.Sweep: true,
	pgsql.Start: true, pgsql.BoundsStart: true, pgsql.SameTransaction: true, pgsql.Expired: true, pgsql.InsertDoneRequest: true, pgsql.InsertClaimRequest: true,
	pgsql.SwapInsert: true, pgsql.SwapInsertSame: true, pgsql.SwapUpdate: true, pgsql.SwapKeep: true, pgsql.SwapKeepSame: true, pgsql.SwapDelete: true, pgsql.Held: true, pgsql.InTime: true,
	pgsql.Renew: true, pgsql.Recovery: true, pgsql.Unfinished: true,
}

// encoder holds buffers for the arguments of the store's own statements. Each connection keeps one encoder.
type encoder struct {
	values [][]byte
	space  []byte // for the values of all arguments that are not []byte
}

// queue adds one of the store's own statements to b.
func (e *encoder) queue(ctx context.Context, conn *pgx.Conn, b *pgconn.Batch, st statement) error {
	prepared, err := preparedOn(conn).getOwn(ctx, conn, st.sql)
	if err != nil {
		return ownError{err}
	}
	if e.space == nil { // an empty value in a nil buffer would be NULL
		e.space = make([]byte, 0, 256)
	}
	values, space := e.values[:0], e.space[:0]
	for i, arg := range st.args {
		var value []byte
		if value, space, err = encode(prepared.ParamOIDs[i], arg, space); err != nil {
			return err
		}
		values = append(values, value)
	}
	b.ExecStatement(prepared, values, binaryFormat, binaryFormat) // ExecStatement copies the values
	e.values, e.space = values, space
	return nil
}

// clear drops the values, which may belong to callers, and keeps the buffers. It drops a large buffer.
func (e *encoder) clear() {
	clear(e.values[:cap(e.values)])
	if cap(e.space) > 1<<12 {
		e.space = nil
	}
}

// ownError is the error of the preparation of one of the store's own statements.
type ownError struct{ error }

func (e ownError) Unwrap() error { return e.error }

// none is the list of columns of a statement that returns no rows. If the list were empty, pgconn would ask the
// server for the columns at each execution.
var none = make([]pgconn.FieldDescription, 1)

var binaryFormat = []int16{pgx.BinaryFormatCode} // for all parameters, or columns

// y2k is the time from which PostgreSQL counts microseconds.
var y2k = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

var errEncode = errors.New("pgxstore: an argument of a statement of once has an unexpected type, which is a bug in package pgxstore") // a mistake in this package, not of the user

// encode returns the binary form of an argument of one of the store's own statements, and the unused part of
// space.
func encode(oid uint32, arg any, space []byte) (value, rest []byte, err error) {
	start := len(space)
	switch v := arg.(type) {
	case nil:
		return nil, space, nil
	case []byte:
		if oid == pgtype.ByteaOID {
			return v, space, nil
		}
	case string:
		if oid == pgtype.TextOID || oid == pgtype.JSONOID {
			space = append(space, v...)
			return space[start:len(space):len(space)], space, nil
		}
	case int64:
		switch oid {
		case pgtype.Int8OID:
			space = binary.BigEndian.AppendUint64(space, uint64(v))
			return space[start:], space, nil
		case pgtype.Int4OID:
			space = binary.BigEndian.AppendUint32(space, uint32(v))
			return space[start:], space, nil
		case pgtype.Int2OID:
			space = binary.BigEndian.AppendUint16(space, uint16(v))
			return space[start:], space, nil
		}
	case bool:
		if oid == pgtype.BoolOID {
			space = append(space, 0)
			if v {
				space[start] = 1
			}
			return space[start:], space, nil
		}
	case float64:
		if oid == pgtype.Float8OID {
			space = binary.BigEndian.AppendUint64(space, math.Float64bits(v))
			return space[start:], space, nil
		}
	case time.Time:
		if oid == pgtype.TimestamptzOID {
			space = binary.BigEndian.AppendUint64(space, uint64(v.UnixMicro()-y2k))
			return space[start:], space, nil
		}
	}
	return nil, space, errEncode
}

// pipelineResults are the results of a pipeline that was sent without the methods of [pgx.Conn].
type pipelineResults struct {
	conn  *pgx.Conn
	all   *pgconn.MultiResultReader
	trace *batchTrace
}

func (r pipelineResults) Exec() (pgconn.CommandTag, error) {
	r.trace.reading()
	if !r.all.NextResult() {
		err := r.ended()
		r.trace.answered(pgconn.CommandTag{}, err)
		return pgconn.CommandTag{}, err
	}
	tag, err := r.all.ResultReader().Close()
	r.trace.answered(tag, err)
	return tag, err
}

// Query does not report to the batchTrace: [readRows] does.
func (r pipelineResults) Query() (pgx.Rows, error) {
	if !r.all.NextResult() {
		return nil, r.ended()
	}
	return pgx.RowsFromResultReader(r.conn.TypeMap(), r.all.ResultReader()), nil
}

func (r pipelineResults) QueryRow() pgx.Row { return r }

// Scan reads the only row of the next result. It avoids the scan plans of [pgx.Rows], which are useful for many
// rows only.
func (r pipelineResults) Scan(dest ...any) error {
	r.trace.reading()
	if !r.all.NextResult() {
		err := r.ended()
		r.trace.answered(pgconn.CommandTag{}, err)
		return err
	}
	result := r.all.ResultReader()
	var err error
	found := result.NextRow()
	if found {
		err = r.decode(result, dest)
	}
	// The error of the server is more exact than an error of decode.
	tag, e := result.Close()
	if e != nil {
		err = e
	}
	r.trace.answered(tag, err)
	if err != nil {
		return err
	}
	if !found {
		return pgx.ErrNoRows
	}
	return nil
}

func (r pipelineResults) decode(row *pgconn.ResultReader, dest []any) error {
	columns, values := row.FieldDescriptions(), row.Values()
	if len(values) != len(dest) {
		return fmt.Errorf("pgxstore: the server has returned %d columns, but the caller reads %d columns", len(values), len(dest))
	}
	for i, d := range dest {
		if quick(&columns[i], values[i], d) {
			continue
		}
		if err := r.conn.TypeMap().Scan(columns[i].DataTypeOID, columns[i].Format, values[i], d); err != nil {
			return err
		}
	}
	return nil
}

// quick decodes the most frequent types, and reports whether it has decoded value.
func quick(column *pgconn.FieldDescription, value []byte, dest any) bool {
	if column.Format != pgx.BinaryFormatCode {
		return false
	}
	switch d := dest.(type) {
	case *bool:
		if column.DataTypeOID == pgtype.BoolOID && len(value) == 1 {
			*d = value[0] != 0
			return true
		}
	case *time.Time:
		if column.DataTypeOID == pgtype.TimestamptzOID && len(value) == 8 {
			*d = time.UnixMicro(y2k + int64(binary.BigEndian.Uint64(value)))
			return true
		}
	}
	return false
}

// ended returns the error of a read after the last result.
func (r pipelineResults) ended() error {
	if err := r.close(); err != nil {
		return err
	}
	return errors.New("pgxstore: no more results")
}

// Close also reports the unread results to the tracer, as pgx does.
func (r pipelineResults) Close() error {
	for r.trace.unread() {
		_, _ = r.Exec()
	}
	err := r.close()
	r.trace.end(err)
	return err
}

// close also closes the connection if a handler has dropped our prepared statements, because pgx does not notice
// that these statements do not exist any more.
func (r pipelineResults) close() error {
	err := r.all.Close()
	if pe := serverError(err); pe != nil && pe.Code == pgsql.NoStatement {
		_ = r.conn.Close(context.Background())
	}
	return err
}

func (r pipelineResults) Tx() pgx.Tx { return nil }
