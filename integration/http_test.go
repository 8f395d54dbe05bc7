package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/oncehttp"
)

const keyHeader = "Idempotency-Key"

// HTTP implements system.
func (r *rig[TX]) HTTP(attempt string, hook func(place string)) http.Handler {
	cfg := oncehttp.Config{Principal: oncehttp.SharedPrincipal()}
	return oncehttp.Handler(r.engine, cfg, func(w http.ResponseWriter, req *http.Request, tx TX) {
		done, err := work{key: req.Header.Get(keyHeader), attempt: attempt, hook: hook}.do(req.Context(), r.execer(tx))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Location", "/charges/"+attempt)
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(done)
	})
}

// serve is a server that is asked once, dead or alive. It ends with its input.
func serve(ctx context.Context, p plan, drained <-chan struct{}) error {
	k := &killer{mode: p.Mode, at: p.At}
	s, err := stores[p.Store](ctx, setup{dsn: p.DSN, dial: k.wire.DialContext, hook: k.named, conns: 1})
	if err != nil {
		return err
	}
	handler := s.HTTP(p.Attempt, k.named)
	for _, suffix := range []string{"-warm", "-warm", "-warmer"} {
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, newRequest(ctx, "http://localhost", p.Key+suffix))
		if rec.Code != http.StatusCreated {
			return fmt.Errorf("warming: %d %s", rec.Code, rec.Body)
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	k.arm()
	fmt.Println(listener.Addr())
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		k.named("before the middleware")
		handler.ServeHTTP(w, req)
		k.named("after the middleware")
	}), BaseContext: func(net.Listener) context.Context { return ctx }}
	go func() { _ = server.Serve(wired{listener, &k.wire}) }()
	<-drained
	return nil
}

// wired is a listener whose connections can be counted.
type wired struct {
	net.Listener
	wire *faultnet.Wire
}

func (l wired) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.wire.Wrap(conn), nil
}

func newRequest(ctx context.Context, url, key string) *http.Request {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/charges", http.NoBody)
	if err != nil {
		panic(err) // of constant parts
	}
	req.Header.Set(keyHeader, key)
	return req
}

// post sends the request once. Answered means that all of an answer came back.
func post(ctx context.Context, url, key string) (a answer, answered bool, err error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(newRequest(ctx, url, key))
	if err != nil {
		return a, false, nil // the connection was cut, as it should be
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return a, false, nil
	}
	if resp.StatusCode != http.StatusCreated {
		return a, true, fmt.Errorf("%s: %s", resp.Status, body)
	}
	err = json.Unmarshal(body, &a)
	a.Wire = fmt.Sprintf("%s\n%s\n%s\n%s", resp.Status, resp.Header.Get("Content-Type"), resp.Header.Get("Location"), body)
	return a, true, err
}

// askServer has a server that may die be asked once.
func askServer(ctx context.Context, tb testing.TB, p plan) (killed bool, ack answer, acked bool, err error) {
	tb.Helper()
	c := harness.Start(tb, p)
	if address, lives := <-c.Lines(); lives {
		ack, acked, err = post(ctx, "http://"+address, p.Key)
	}
	c.EndInput()
	_, killed, end := c.Ends()
	if !killed && !acked {
		err = errors.Join(err, errors.New("the server has survived without an answer"))
	}
	return killed, ack, acked, errors.Join(err, end)
}

// askAgain asks a server that lives, until it has an answer.
func askAgain(ctx context.Context, s system, key string) (answer, error) {
	server := httptest.NewServer(s.HTTP(bySuccessor, nil))
	defer server.Close()
	for {
		req := newRequest(ctx, server.URL, key)
		resp, err := server.Client().Do(req)
		if err != nil {
			return answer{}, err
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusConflict {
			break
		}
	}
	a, answered, err := post(ctx, server.URL, key)
	if err == nil && !answered {
		err = errors.New("no answer of a server that lives")
	}
	return a, err
}
