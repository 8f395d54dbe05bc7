package webhook

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/sql/hold"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// oneEndpoint is a database with an endpoint, the number of which is 7, and without deliveries.
type oneEndpoint struct {
	sqlplane.SQL[int]

	secret, headers []byte

	mu    sync.Mutex
	reads int  // of the endpoint
	asked bool // for its deliveries
}

func (*oneEndpoint) Dialect() sqlplane.Dialect { return sqlplane.SQLite }

func (db *oneEndpoint) Pool() sqlplane.Runner { return oneRunner{db: db} }

func (db *oneEndpoint) count() (reads int, asked bool) {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.reads, db.asked
}

type oneRunner struct {
	sqlplane.Runner

	db *oneEndpoint
}

func (r oneRunner) Query(_ context.Context, s store.Statement, each func(sqlplane.Row) error) error {
	r.db.mu.Lock()
	defer r.db.mu.Unlock()
	switch {
	case strings.HasPrefix(s.SQL, "select id, version from once_webhook_endpoint"):
		return each(values{int64(7), int64(1)})
	case strings.HasPrefix(s.SQL, "select id, part, version"):
		r.db.reads++
		return each(values{int64(7), 0, int64(1), "ep", "acme", "https://hooks.example", r.db.headers, r.db.secret, []byte(nil), time.Time{}, true, false, 0.0, 4, 0, time.Now()})
	case strings.Contains(s.SQL, "from once_webhook_delivery where endpoint = 7"):
		r.db.asked = true
	}
	return nil
}

// values is a row.
type values []any

func (v values) Scan(to ...any) error {
	for i := range to {
		at := reflect.ValueOf(to[i]).Elem()
		at.Set(reflect.ValueOf(v[i]).Convert(at.Type()))
	}
	return nil
}

// allHeld holds all parts.
type allHeld struct{}

func (allHeld) Run(ctx context.Context, _ func()) error { <-ctx.Done(); return nil }

func (allHeld) Use(numbers []int) (held []hold.Part, done func()) {
	for _, n := range numbers {
		held = append(held, hold.Part{Number: n})
	}
	return held, func() {}
}

// keyServer is an Encrypter whose server may be down.
type keyServer struct {
	once.Encrypter

	mu   sync.Mutex
	down bool
	n    int
}

func (k *keyServer) set(down bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.down = down
}

func (k *keyServer) Decrypt(stored, label []byte) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.n++; k.down {
		return nil, fmt.Errorf("request %d: the key server is down", k.n)
	}
	return k.Encrypter.Decrypt(stored, label)
}

type observed func(RelayEvent)

func (o observed) Observe(_ context.Context, e RelayEvent) { o(e) }

// TestEncrypterFailsForAMoment: an endpoint whose secret and headers could not be decrypted is read again every minute, and gets its deliveries when they can be. The observer hears of the beginning
// and of the end, and not of each try.
func TestEncrypterFailsForAMoment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plain, err := once.NewEncrypter(make([]byte, 32))
		if err != nil {
			t.Fatal(err)
		}
		keys := &keyServer{Encrypter: plain}
		cfg := Config{Encrypter: keys}
		secret, err := cfg.seal([]byte(NewSecret()), secretLabel("ep"))
		headers, err2 := cfg.seal([]byte("{}"), headersLabel("ep"))
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		db := &oneEndpoint{secret: secret, headers: headers}
		var mu sync.Mutex
		var list []RelayEventType
		r := New[int](db, cfg).Relay(RelayConfig{Observer: observed(func(e RelayEvent) {
			if mu.Lock(); e.Endpoint == "ep" {
				list = append(list, e.Type)
			}
			mu.Unlock()
		})})
		r.holder = allHeld{}
		check := func(when string, reads int, asked bool, events ...RelayEventType) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if n, is := db.count(); n != reads || is != asked || fmt.Sprint(list) != fmt.Sprint(events) {
				t.Errorf("%s: %d reads, deliveries are looked for: %v, events %v", when, n, is, list)
			}
		}
		keys.set(true)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		<-time.After(sealedPause / 2)
		check("the key server is down", 1, false, EventSealed)
		<-time.After(2 * sealedPause)
		check("it is still down", 3, false, EventSealed)
		keys.set(false)
		<-time.After(sealedPause)
		check("it is up", 4, true, EventSealed, EventUnsealed)
		<-time.After(5 * sealedPause)
		check("it stays up", 4, true, EventSealed, EventUnsealed)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
