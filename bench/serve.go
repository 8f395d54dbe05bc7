package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/pgxstore"
)

// The services of the HTTP race are processes of their own: this program again, with
// these in its environment, or another rival's. Each says its address on a line.
const (
	serveMode = "ONCE_BENCH_SERVE"
	serveURL  = "ONCE_BENCH_DATABASE"
)

// serveHTTP is such a process. It ends with its standard input.
func serveHTTP(ctx context.Context, mode string) error {
	cfg, err := pgxpool.ParseConfig(os.Getenv(serveURL))
	if err != nil {
		return err
	}
	cfg.MinConns, cfg.MaxConns = httpClients, httpClients
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer pool.Close()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	server := &http.Server{Handler: service(mode, pool), ReadHeaderTimeout: time.Minute}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until who has started this is gone
		_ = server.Close()
	}()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func service(mode string, pool *pgxpool.Pool) http.Handler {
	cfg := once.Config{}
	switch mode {
	case gatewayMode:
		return gatewayService(pool)
	case nameHTTPFloor:
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			o, err := readOrder(r)
			writeReceipt(w, o.response(), err)
		})
	case nameHTTPCache:
		cfg.Cache, cfg.CacheFor = 64<<20, time.Hour
	}
	engine := once.New(pgxstore.New(pool, pgxstore.Config{}), cfg)
	return oncehttp.Handler(engine, oncehttp.Config{Principal: oncehttp.SharedPrincipal()}, func(w http.ResponseWriter, r *http.Request, tx pgx.Tx) {
		o, err := readOrder(r)
		if err != nil {
			writeReceipt(w, receipt{}, err)
			return
		}
		got, err := o.place(r.Context(), tx)
		if err != nil {
			oncehttp.Fail(w, r, err)
			return
		}
		writeReceipt(w, got, nil)
	})
}

// readOrder reads what the client says; ids are made here.
func readOrder(r *http.Request) (order, error) {
	o := newOrder()
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &o)
	}
	return o, err
}

func writeReceipt(w http.ResponseWriter, r receipt, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	body, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings and a number
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write(body)
}

// process is a running service.
type process struct {
	cmd  *exec.Cmd
	end  io.Closer // its standard input
	addr string
}

// startProcess runs a service on a database: this program in a mode, unless it is the
// program of another owner.
func startProcess(ctx context.Context, program, mode, database string) (*process, error) {
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), serveMode+"="+mode, serveURL+"="+database)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, end: in}
	if _, err := fmt.Fscanln(out, &p.addr); err != nil {
		return nil, errors.Join(fmt.Errorf("%s does not say where it is: %w", mode, err), p.close())
	}
	return p, nil
}

func (p *process) close() error { return errors.Join(p.end.Close(), p.cmd.Wait()) }
