package pgxstore

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncelib/once/internal/pgsql"
)

// pinned is how many statements of batches stay prepared on a connection. Those of the
// cache of pgx are dropped with every pipeline that fails, and a duplicate is one.
const pinned = 256

// pins are what a connection knows of the statements of batches.
type pins struct {
	known map[string]*pgconn.StatementDescription
	args  pgx.ExtendedQueryBuilder
}

const pinsKey = "once.pins"

func pinsOf(conn *pgx.Conn) *pins {
	data := conn.PgConn().CustomData()
	p, ok := data[pinsKey].(*pins)
	if !ok {
		p = &pins{known: map[string]*pgconn.StatementDescription{}}
		data[pinsKey] = p
	}
	return p
}

// sendPinned is send for a pipeline with statements of users in it. An error means that
// nothing was sent. What was sent does not end with ctx: the caller gives up by itself.
func (s *Store) sendPinned(ctx context.Context, conn *pgx.Conn, t trip) (pgx.BatchResults, error) {
	if !s.light {
		return conn.SendBatch(context.WithoutCancel(ctx), t.batch()), nil
	}
	p := pinsOf(conn)
	var b pgconn.Batch
	for _, st := range t {
		if len(st.args) > 0 {
			if r, ok := st.args[0].(pgx.QueryRewriter); ok {
				var err error
				if st.sql, st.args, err = r.RewriteQuery(ctx, conn, st.sql, st.args[1:]); err != nil {
					return nil, err
				}
			}
		}
		sd := p.known[st.sql]
		if sd == nil {
			if len(p.known) >= pinned {
				return conn.SendBatch(context.WithoutCancel(ctx), t.batch()), nil
			}
			var err error
			if sd, err = conn.Prepare(ctx, st.sql, st.sql); err != nil {
				return nil, err
			}
			sd = described(sd)
			p.known[st.sql] = sd
		}
		if err := p.args.Build(conn.TypeMap(), sd, st.args); err != nil {
			return nil, err
		}
		b.ExecStatement(sd, p.args.ParamValues, p.args.ParamFormats, p.args.ResultFormats)
	}
	return lightResults{conn, conn.PgConn().ExecBatch(context.WithoutCancel(ctx), &b)}, nil
}

// described is sd for [pgconn.Batch], which has the server describe a statement without
// columns each time that it is executed: they might have come later. No write's do.
func described(sd *pgconn.StatementDescription) *pgconn.StatementDescription {
	if len(sd.Fields) > 0 {
		return sd
	}
	known := *sd
	known.Fields = make([]pgconn.FieldDescription, 1)
	return &known
}

// outdated reports whether what was prepared no longer fits the tables, or is not there
// any more. Another connection prepares anew.
func outdated(pe *pgconn.PgError) bool {
	return pe.Code == pgsql.NoStatement || pe.Code == pgsql.PlanChanged && pe.Routine == "RevalidateCachedQuery"
}
