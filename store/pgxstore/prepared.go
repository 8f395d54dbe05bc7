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

// maxPrepared is how many statements of batches and commits stay prepared on a connection. They need a cache of
// their own: pgx drops the statements of its cache with every pipeline that fails, and each duplicate makes one
// fail.
const maxPrepared = 256

// preparedCache has a connection's prepared statements of users in pipelines. pgx must not have them in its
// cache: it would run the user's other queries of the same text with them, and never prepare them again when a
// table has changed.
type preparedCache struct {
	known  map[string]*preparedStatement
	own    map[string]*pgconn.StatementDescription // see getOwn
	trips  uint64
	prefix string // of names, random for each connection: see name
	names  uint64
	args   pgx.ExtendedQueryBuilder
	space  encoder
}

type preparedStatement struct {
	*pgconn.StatementDescription
	used uint64 // by this pipeline, last
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

// get returns sql, prepared; nil if this pipeline alone has as many statements as are kept.
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

// getOwn returns a statement of our own, which pgx keeps.
func (p *preparedCache) getOwn(ctx context.Context, conn *pgx.Conn, sql string) (*pgconn.StatementDescription, error) {
	if sd := p.own[sql]; sd != nil {
		return sd, nil
	}
	sd, err := conn.Prepare(ctx, sql, sql) // asks the server once per connection
	if err != nil {
		return nil, err
	}
	describe(sd)
	// A tracer of Prepare would see each call of it, even when pgx has nothing to prepare.
	if tracersOf(conn).prepare != nil {
		p.own[sql] = sd
	}
	return sd, nil
}

// forgetOwn makes the next use ask pgx again: a handler that has the connection may have called DeallocateAll,
// which only pgx notices.
func (p *preparedCache) forgetOwn() { clear(p.own) }

// name returns a name that no other connection uses, and this connection uses for no other text. With a pooler
// in transaction mode a statement may reach a session in which another client has prepared its statements. With
// a unique name our statement is then missing, and another one is never run instead. A hash of the text would
// find the same text, but perhaps with the parameters of an earlier table. Names of statements that failed are
// not used again, because the server may have prepared them.
func (p *preparedCache) name() string {
	p.names++
	return p.prefix + strconv.FormatUint(p.names, 10)
}

// forget drops sql, so that it is prepared again.
func (p *preparedCache) forget(ctx context.Context, conn *pgconn.PgConn, sql string) {
	if st := p.known[sql]; st != nil {
		delete(p.known, sql)
		_ = conn.Deallocate(ctx, st.Name) // otherwise it ends with the connection
	}
}

// makeRoom drops the statement that was not used for the longest time.
func (p *preparedCache) makeRoom(ctx context.Context, conn *pgconn.PgConn) (bool, error) {
	var oldest *preparedStatement
	for _, st := range p.known {
		if oldest == nil || st.used < oldest.used {
			oldest = st
		}
	}
	// Every statement in the cache belongs to this pipeline, which is not sent yet.
	if oldest.used == p.trips {
		return false, nil
	}
	delete(p.known, oldest.SQL)
	return true, conn.Deallocate(ctx, oldest.Name)
}

// sendPrepared is send for a pipeline that may have statements of users in it. All are prepared
// under ctx, if they are not yet, and then run under within. An error means that nothing was
// sent.
func (s *Store) sendPrepared(ctx, within context.Context, conn *pgx.Conn, t pipeline) (pgx.BatchResults, error) {
	b, err := s.queuePrepared(ctx, conn, t)
	if err == nil && b == nil {
		return conn.SendBatch(within, t.batch()), nil // it reports to the tracer
	}
	within, trace := traceBatch(within, conn, t)
	if err != nil {
		trace.end(err)
		return nil, err
	}
	return pipelineResults{conn, conn.PgConn().ExecBatch(within, b), trace}, nil
}

// queuePrepared prepares a pipeline; it returns nil if pgx must prepare it.
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
				t[i] = st // for the tracer, and to find the statement that has failed
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
		if st.rows && &sd.Fields[0] == &none[0] { // let the server say what it returns
			bare := *sd
			bare.Fields = nil
			sd = &bare
		}
		// b keeps the result formats, which the next Build overwrites: only the formats of the last statement are read.
		b.ExecStatement(sd, p.args.ParamValues, p.args.ParamFormats, p.args.ResultFormats)
	}
	return &b, nil
}

// describe completes sd for [pgconn.Batch], which has the server describe a statement
// without columns each time that it is executed: they might have come later. No write's do.
func describe(sd *pgconn.StatementDescription) {
	if len(sd.Fields) == 0 {
		sd.Fields = none
	}
}

// misfit reports whether a statement does not fit the tables, perhaps because they have
// changed since it was prepared: its parameters keep the types that they had then.
func misfit(pe *pgconn.PgError) bool { return strings.HasPrefix(pe.Code, "42") }

// outdated reports whether a prepared statement no longer fits the tables, or no longer
// exists. Another connection prepares it again.
func outdated(pe *pgconn.PgError) bool {
	return pe.Code == pgsql.NoStatement || pe.Code == pgsql.PlanChanged && pe.Routine == "RevalidateCachedQuery"
}

// explained adds a remedy if err says that a prepared statement is missing, or that its name
// is taken. Unless statements were dropped by hand, only a pooler causes that.
func explained(err error) error {
	if pe := serverError(err); pe != nil && (pe.Code == pgsql.NoStatement || pe.Code == pgsql.DuplicateStatement) {
		return fmt.Errorf("%w. Try: default_query_exec_mode=exec, or PgBouncer 1.21 with max_prepared_statements, if this process connects through a pooler in transaction mode", err)
	}
	return err
}
