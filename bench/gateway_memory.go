package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	receipts "github.com/oncelib/once/gateway/receipt"
	"github.com/oncelib/once/store/memstore"
	"github.com/oncelib/once/store/pgxstore"
	"github.com/oncelib/once/store/sqlstore"
)

const (
	gatewayUpload   = 100 << 20
	gatewayDownload = 64 << 20
	gatewayClients  = 16
)

// gatewayMemory is what the gateway has in memory.
type gatewayMemory struct {
	Requests int     `json:"requests"`
	Resident verdict `json:"resident"`
	Heap     verdict `json:"heap_mib"`
}

// gatewayStores are the stores that are measured.
func (b *bench) gatewayStores(ctx context.Context, clients int) (list []gatewayBar, closeAll func() error, err error) {
	var closers []func() error
	closeAll = func() error {
		var errs []error
		for _, c := range closers {
			errs = append(errs, c())
		}
		return errors.Join(errs...)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, closeAll())
		}
	}()
	dir, err := os.MkdirTemp("", "once-bench-gateway-")
	if err != nil {
		return nil, closeAll, err
	}
	closers = append(closers, func() error { return os.RemoveAll(dir) })
	for _, group := range []bool{false, true} {
		cfg, name := sqlstore.Config{GroupCommit: group}, "SQLite"
		if group {
			name = "SQLite, group commit"
		}
		db, _, err := openSQLite(ctx, filepath.Join(dir, strconv.FormatBool(group)), clients+1, cfg)
		if err != nil {
			return nil, closeAll, err
		}
		closers = append([]func() error{db.Close}, closers...)
		s, err := sqlstore.New(ctx, db, cfg)
		if err != nil {
			return nil, closeAll, err
		}
		list = append(list, gatewayBar{store: name, atMost: 1.35, ops: s})
	}
	database, err := b.server.newDatabase(ctx)
	if err != nil {
		return nil, closeAll, err
	}
	pool, err := b.server.pool(ctx, database, int32(clients)+1, nil)
	if err != nil {
		return nil, closeAll, err
	}
	closers = append(closers, func() error { pool.Close(); return nil })
	if err := pgxstore.Migrate(ctx, pool, receipts.Migrations); err != nil {
		return nil, closeAll, err
	}
	s := pgxstore.New(pool, pgxstore.Config{})
	return append(list, gatewayBar{store: "PostgreSQL", atMost: 1.5, ops: s}, gatewayBar{store: "receipts on PostgreSQL, no store", receipts: receipts.New(s, receipts.Config{}), pool: pool}), closeAll, nil
}

// gatewayService is a gateway with the service behind it, in a process of its own.
func gatewayService(pool *pgxpool.Pool) http.Handler {
	f, err := openGatewayField(func() {})
	var address string
	if err == nil {
		address, err = f.gateway(pgxstore.New(pool, pgxstore.Config{}), nil, 0)
	}
	if err != nil {
		panic(err)
	}
	return http.RedirectHandler(address, http.StatusTemporaryRedirect) // where it is
}

func (b *bench) gatewayMemory(ctx context.Context) (m gatewayMemory, err error) {
	m.Requests = 100_000
	if b.quick {
		m.Requests = 10_000
	}
	if m.Resident, err = b.residentGateway(ctx, m.Requests); err != nil {
		return m, err
	}
	m.Heap, err = heapOfLargeBodies(ctx)
	return m, err
}

// residentGateway is how the resident memory of a gateway grows while it serves nine tenths of so many requests.
func (b *bench) residentGateway(ctx context.Context, requests int) (v verdict, err error) {
	database, err := b.server.newDatabase(ctx)
	if err != nil {
		return v, err
	}
	program, err := os.Executable()
	if err != nil {
		return v, err
	}
	p, err := startProcess(ctx, program, gatewayMode, b.server.pg.URL(database))
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	f := &gatewayField{client: &http.Client{
		Transport:     &http.Transport{MaxIdleConnsPerHost: 64},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.addr, http.NoBody)
	if err != nil {
		return v, err
	}
	where, err := f.client.Do(r)
	if err != nil {
		return v, err
	}
	address := where.Header.Get("Location")
	if err := where.Body.Close(); err != nil {
		return v, err
	}
	var resident [2]float64
	for i, until := range []int{requests / 10, requests - requests/10} {
		if err := f.send(ctx, address, until); err != nil {
			return v, err
		}
		if resident[i], err = residentOf(p.cmd.Process.Pid); err != nil {
			return v, err
		}
	}
	return absolute("resident memory", []float64{resident[1] / resident[0]}, 1.1), nil
}

// send sends so many requests.
func (f *gatewayField) send(ctx context.Context, address string, requests int) error {
	var left atomic.Int64
	left.Store(int64(requests))
	errs := make([]error, gatewayClients)
	var clients sync.WaitGroup
	for i := range errs {
		clients.Go(func() {
			for left.Add(-1) >= 0 && errs[i] == nil {
				_, errs[i] = f.post(ctx, address+"/pay", once.NewKey(), strings.NewReader(gatewayRequest))
			}
		})
	}
	clients.Wait()
	return errors.Join(errs...)
}

// residentOf is the resident memory of a process, in KiB.
func residentOf(pid int) (kib float64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		return 0, fmt.Errorf("the resident memory of a process: %w", err)
	}
	return kib, nil
}

// heapOfLargeBodies is how many MiB the heap grows by while large bodies pass.
func heapOfLargeBodies(ctx context.Context) (v verdict, err error) {
	var mu sync.Mutex
	var largest uint64
	measure := func() {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		mu.Lock()
		defer mu.Unlock()
		largest = max(largest, m.HeapAlloc)
	}
	f, err := openGatewayField(measure)
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	address, err := f.gateway(memstore.New(), nil, 0)
	if err != nil {
		return v, err
	}
	post := func(path string, size int64) error {
		_, err := f.post(ctx, address+path, once.NewKey(), &metered{io.LimitReader(letters{}, size), measure, 0})
		return err
	}
	if err := post("/pay", 512<<10); err != nil {
		return v, err
	}
	measure()
	before := largest
	if err := errors.Join(post("/pay", gatewayUpload), post("/large", 1)); err != nil {
		return v, err
	}
	return absolute("heap", []float64{float64(largest-before) / (1 << 20)}, 2), nil
}

// metered calls measure each time that 8 MiB have passed.
type metered struct {
	io.Reader

	measure func()
	passed  int
}

func (m *metered) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	if m.passed += n; m.passed >= 8<<20 {
		m.passed = 0
		m.measure()
	}
	return n, err
}

// letters never ends.
type letters struct{}

func (letters) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}
