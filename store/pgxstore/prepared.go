package pgxstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncelib/once/internal/sql/pgsql"
)

// maxPrepared is how many statements of batches and commits stay prepared on a connection. They have a separate
// cache, because pgx drops the statements of its own cache after each failed pipeline, and each duplicate makes a
// pipeline fail.
const maxPrepared = 256

// preparedCache holds the prepared statements of users that were sent in pipelines of one connection. They must not
// be in the cache of pgx. Otherwise pgx would use them for other queries of the same text, and would not prepare them
// again after a table has changed.
type preparedCache struct {
	known  map[string]*preparedStatement
	own    map[string]*pgconn.StatementDescription // see getOwn
	trips  uint64                                  // the number of pipelines so far
	prefix string                                  // the random prefix of the names of this connection: see name
	names  uint64
	args   pgx.ExtendedQueryBuilder
	space  encoder
}

// preparedStatement is a prepared statement, and the last pipeline that has used it.
type preparedStatement struct {
	*pgconn.StatementDescription
	used uint64 // the number of the last pipeline that has used it
}

const preparedKey = "once.preparedCache"

func preparedOn(conn *pgx.Conn) *preparedCache {
	data := conn.PgConn().CustomData()
	p, ok := data[preparedKey].(*preparedCache)
	if !ok {
		p = &preparedCache{known: map[string]*preparedStatement{}, own: map[string]*pgconn.StatementDescription{}, prefix: "once_batch_" + rand.Text() + "_"}
		data[preparedKey] = p
	}
	return p
}

// get returns the prepared statement of a text. It returns nil if the statements of this pipeline alone fill the
// cache.
func (p *preparedCache) get(ctx context.Context, conn *pgx.Conn, sql string) (*pgconn.StatementDescription, error) {
	if st := p.known[sql]; st != nil {
		st.used = p.trips
		return st.StatementDescription, nil
	}
	if len(p.known) >= maxPrepared {
		if made, err := p.makeRoom(ctx, conn.PgConn()); err != nil || !made {
			return nil, err
		}
	}
	sd, err := prepareTraced(ctx, conn, p.name(), sql)
	if err != nil {
		return nil, err
	}
	describe(sd)
	p.known[sql] = &preparedStatement{sd, p.trips}
	return sd, nil
}

// getOwn returns one of the store's own statements. These statements are in the cache of pgx.
func (p *preparedCache) getOwn(ctx context.Context, conn *pgx.Conn, sql string) (*pgconn.StatementDescription, error) {
	if sd := p.own[sql]; sd != nil {
		return sd, nil
	}
	sd, err := conn.Prepare(ctx, sql, sql) // asks the server only for the first time on a connection
	if err != nil {
		return nil, err
	}
	describe(sd)
	// Without a tracer, each use asks pgx, which answers from its cache. With a tracer, each call of Prepare would be
	// reported, even if pgx has nothing to prepare.
	if tracersOf(conn).prepare != nil {
		p.own[sql] = sd
	}
	return sd, nil
}

// forgetOwn makes the next use ask pgx again. A handler that has the connection may have called DeallocateAll, and
// only pgx notices this call.
func (p *preparedCache) forgetOwn() { clear(p.own) }

// name returns a name that is unique among all connections and texts. With a pooler in transaction mode, a
// statement may reach a session in which another client has prepared statements. With a unique name, our statement is
// then missing, and no other statement runs instead. A name from the hash of the text could find a statement with the
// parameter types of an earlier table. A name is not used again after a failure, because the server may have prepared
// the statement.
func (p *preparedCache) name() string {
	p.names++
	return p.prefix + strconv.FormatUint(p.names, 10)
}

// forget drops the prepared form of a text, so that the text is prepared again.
func (p *preparedCache) forget(ctx context.Context, conn *pgconn.PgConn, sql string) {
	if st := p.known[sql]; st != nil {
		delete(p.known, sql)
		_ = conn.Deallocate(ctx, st.Name) // after an error the statement stays until the connection ends
	}
}

// makeRoom drops the statement that was not used for the longest time. It returns false if it cannot drop any.
func (p *preparedCache) makeRoom(ctx context.Context, conn *pgconn.PgConn) (bool, error) {
	var oldest *preparedStatement
	for _, st := range p.known {
		if oldest == nil || st.used < oldest.used {
			oldest = st
		}
	}
	// This pipeline uses every statement of the cache, and is not sent yet.
	if oldest.used == p.trips {
		return false, nil
	}
	delete(p.known, oldest.SQL)
	return true, conn.Deallocate(ctx, oldest.Name)
}

// sendPrepared does the same as send for a pipeline that may contain statements of users. It prepares missing
// statements under ctx, and runs the pipeline under within. An error means that nothing was sent.
func (s *Store) sendPrepared(ctx, within context.Context, conn *pgx.Conn, t pipeline) (pgx.BatchResults, error) {
	b, err := s.queuePrepared(ctx, conn, t)
	if err == nil && b == nil {
		return conn.SendBatch(within, t.batch()), nil // SendBatch reports to the tracer itself
	}
	within, trace := traceBatch(within, conn, t)
	if err != nil {
		trace.end(err)
		return nil, err
	}
	return pipelineResults{conn, conn.PgConn().ExecBatch(within, b), trace}, nil
}

// queuePrepared returns t as a batch of prepared statements. It returns nil if pgx must prepare the statements.
func (s *Store) queuePrepared(ctx context.Context, conn *pgx.Conn, t pipeline) (*pgconn.Batch, error) {
	if !s.prepares {
		return nil, nil //nolint:nilnil // as documented
	}
	p := preparedOn(conn)
	p.trips++
	var b pgconn.Batch
	defer p.space.clear()
	for i, st := range t {
		if own[st.sql] {
			if err := p.space.queue(ctx, conn, &b, st); err != nil {
				return nil, err
			}
			continue
		}
		if len(st.args) > 0 {
			if r, ok := st.args[0].(pgx.QueryRewriter); ok {
				var err error
				if st.sql, st.args, err = r.RewriteQuery(ctx, conn, st.sql, st.args[1:]); err != nil {
					return nil, err
				}
				t[i] = st // for the tracer, and to identify a failed statement
			}
		}
		sd, err := p.get(ctx, conn, st.sql)
		if err != nil {
			return nil, err
		}
		if sd == nil {
			return nil, nil //nolint:nilnil // as documented
		}
		if err := p.args.Build(conn.TypeMap(), sd, st.args); err != nil {
			return nil, err
		}
		if st.rows && &sd.Fields[0] == &none[0] { // the caller needs the columns, so the server must describe them
			bare := *sd
			bare.Fields = nil
			sd = &bare
		}
		// The batch shares the result formats, which the next Build overwrites. Only the formats of the last statement are
		// read.
		b.ExecStatement(sd, p.args.ParamValues, p.args.ParamFormats, p.args.ResultFormats)
	}
	return &b, nil
}

// describe gives a statement without columns the list none. Otherwise the server would describe such a statement
// at each execution, in case that columns have appeared. A write never gets columns.
func describe(sd *pgconn.StatementDescription) {
	if len(sd.Fields) == 0 {
		sd.Fields = none
	}
}

// misfit reports whether a statement does not fit the tables. The tables may have changed since the statement was
// prepared, because its parameters keep their types from that time.
func misfit(pe *pgconn.PgError) bool { return strings.HasPrefix(pe.Code, "42") }

// outdated reports whether a prepared statement does not fit the tables any more, or does not exist any more. On
// another connection the statement is prepared again.
func outdated(pe *pgconn.PgError) bool {
	return pe.Code == pgsql.NoStatement || pe.Code == pgsql.PlanChanged && pe.Routine == "RevalidateCachedQuery"
}

// explained adds advice to err if a prepared statement is missing or its name is taken. Unless a person drops
// statements, only a pooler causes this error.
func explained(err error) error {
	if pe := serverError(err); pe != nil && (pe.Code == pgsql.NoStatement || pe.Code == pgsql.DuplicateStatement) {
		return fmt.Errorf("%w. Try: default_query_exec_mode=exec, or PgBouncer 1.21 with max_prepared_statements, if this process connects through a pooler in transaction mode", err)
	}
	return err
}
