package webhook

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/oncelib/once/internal/base/seal"
	"github.com/oncelib/once/internal/base/sleep"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/sql/hold"
	"github.com/oncelib/once/store/sqlplane"
)

const (
	sweepEvery = 10 * time.Minute
	listEvery  = time.Second // the pause between two reads of the versions of all endpoints
	listShare  = 20          // the lister uses at most one part in listShare of the time: after a slow read it pauses longer
	listMost   = 200         // the maximum number of endpoints of one read
)

// lister updates the endpoints of the board from the database.
type lister struct{ relay *Relay }

func (l *lister) run(ctx context.Context, changed <-chan struct{}) {
	told, failures := -1, 0
	for ctx.Err() == nil {
		began := time.Now()
		// The list only reads, so it need not keep the parts.
		held, done := l.relay.holder.Use(allParts)
		done()
		if len(held) != told {
			told = len(held)
			l.relay.tell(ctx, RelayEvent{Type: EventTaken, Parts: told})
		}
		if err := l.list(ctx, held); err != nil && ctx.Err() == nil {
			failures++
			l.relay.databaseFailed(ctx, err, failures)
			continue
		}
		failures = 0
		timer := time.NewTimer(max(listEvery, listShare*time.Since(began)))
		select {
		case <-ctx.Done():
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// list reads the versions of all endpoints in the held parts, and then reads the endpoints that are new or have
// changed.
func (l *lister) list(ctx context.Context, held []hold.Part) error {
	versions := map[int64]int64{}
	// Without parts no row is read, and the board drops all of its targets.
	if len(held) > 0 {
		numbers := make([]int64, len(held))
		for i, p := range held {
			numbers[i] = int64(p.Number)
		}
		listed, args := l.relay.listed("part", numbers)
		err := l.relay.query(ctx, l.relay.text("select id, version from once_webhook_endpoint where deleted_at is null and "+listed, args...), func(row sqlplane.Row) error {
			var id, version int64
			err := row.Scan(&id, &version)
			versions[id] = version
			return err
		})
		if err != nil {
			return err
		}
	}
	read := l.relay.board.keep(versions)
	slices.Sort(read)
	for some := range slices.Chunk(read, listMost) {
		if err := l.read(ctx, some); err != nil {
			return err
		}
	}
	return nil
}

// read reads the settings and states of endpoints, and puts them on the board.
func (l *lister) read(ctx context.Context, ids []int64) error {
	r := l.relay
	healths := map[int64]*health{}
	listed, args := r.listed("endpoint", ids)
	err := r.query(ctx, r.text("select endpoint, failures, failing_since, circuit_until, told, NOW from once_webhook_state where "+listed, args...), func(row sqlplane.Row) error {
		var id int64
		h := &health{stored: true}
		var since, until, now time.Time
		err := row.Scan(&id, &h.failures, (*dialect.Time)(&since), (*dialect.Time)(&until), &h.told, (*dialect.Time)(&now))
		ours := time.Now()
		if h.since = ours.Add(since.Sub(now)); !until.IsZero() { // the clock of the database may differ from the clock of this process
			// A wrong clock must not pause an endpoint for longer than any circuit.
			h.until = ours.Add(min(until.Sub(now), circuitMost))
		}
		healths[id] = h
		return err
	})
	if err != nil {
		return err
	}
	listed, args = r.listed("id", ids)
	return r.query(ctx, r.text(`select id, part, version, uid, tenant, url, headers, secret, secret_old, secret_old_until, encrypted, ordered, rate, concurrency,
 case when disabled_at is null then 0 else 1 end, NOW from once_webhook_endpoint where deleted_at is null and `+listed, args...), func(row sqlplane.Row) error {
		var e storedEndpoint
		if err := e.scan(row); err != nil {
			return err
		}
		s, err := e.open(r)
		h := healths[e.id]
		if h == nil {
			h = &health{}
		}
		if s.disabled { // when a person enables the endpoint, it begins without failures
			h = &health{stored: h.stored}
		}
		// A broken target is put on the board too, and gets no deliveries until reopen can decrypt it. The observer hears of the beginning and the end,
		// and not of each try.
		switch wasBroken := r.board.put(e.id, e.part, e.version, s, h); {
		case err != nil && !wasBroken:
			r.tell(ctx, RelayEvent{Type: EventSealed, Tenant: e.tenant, Endpoint: e.uid, Err: err})
		case err == nil && wasBroken:
			r.tell(ctx, RelayEvent{Type: EventUnsealed, Tenant: e.tenant, Endpoint: e.uid})
		}
		return nil
	})
}

// reopen reads the endpoints that could not be decrypted again and again, because an Encrypter may ask a server
// that has failed for a moment. It is not a part of run, because such an Encrypter may also be slow, and run must
// see changes of other endpoints.
func (l *lister) reopen(ctx context.Context) {
	for sleep.For(ctx, sealedPause) {
		broken := l.relay.board.broken()
		slices.Sort(broken)
		for some := range slices.Chunk(broken, listMost) {
			if err := l.read(ctx, some); err != nil && ctx.Err() == nil {
				l.relay.databaseFailed(ctx, err, 1)
			}
		}
	}
}

// storedEndpoint is an endpoint as the database stores it.
type storedEndpoint struct {
	settings

	id, version             int64
	part, isDisabled        int
	heads, secret, before   []byte
	encrypted               bool
	beforeUntil, storedTime time.Time
}

func (e *storedEndpoint) scan(row sqlplane.Row) error {
	return row.Scan(&e.id, &e.part, &e.version, &e.uid, &e.tenant, &e.url, &e.heads, &e.secret, &e.before, (*dialect.Time)(&e.beforeUntil), &e.encrypted, &e.ordered, &e.rate,
		&e.concurrency, &e.isDisabled, (*dialect.Time)(&e.storedTime))
}

// open decrypts the settings of an endpoint. After an error the endpoint gets no deliveries until open succeeds.
func (e *storedEndpoint) open(r *Relay) (*settings, error) {
	s := e.settings
	s.disabled = e.isDisabled == 1
	s.concurrency = cmp.Or(max(0, s.concurrency), r.cfg.Concurrency)
	s.broken = func() error {
		heads, err := r.hooks.open(e.heads, e.encrypted, headersLabel(e.uid))
		if err != nil {
			return err
		}
		if s.headers, err = seal.DecodeHeaders(heads); err != nil {
			return fmt.Errorf("webhook: the stored headers of endpoint %s cannot be read: %w", e.uid, err)
		}
		secret, err := r.hooks.open(e.secret, e.encrypted, secretLabel(e.uid))
		if err != nil {
			return err
		}
		if s.signer, err = NewSigner(string(secret)); err != nil || len(e.before) == 0 {
			return err
		}
		before, err := r.hooks.open(e.before, e.encrypted, secretLabel(e.uid))
		if err != nil {
			return err
		}
		// The time is converted to the clock of this process, which may differ from the clock of the database.
		s.bothUntil = time.Now().Add(e.beforeUntil.Sub(e.storedTime))
		s.both, err = NewSigner(string(secret), string(before))
		return err
	}()
	return &s, s.broken
}

// keepHouse deletes events and attempts that are older than Config.Retain. It works only in the process that
// holds part 0.
func (r *Relay) keepHouse(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		// One relay is enough, and exactly one relay holds part 0.
		held, done := r.holder.Use(allParts[:1])
		done()
		if len(held) == 0 {
			continue
		}
		if _, err := sweep(ctx, r.db, r.hooks.Retain, r.hooks.Archive); err != nil && ctx.Err() == nil {
			r.tell(ctx, RelayEvent{Type: EventDatabase, Err: err})
		}
	}
}
