package oncehttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/limit"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// A program that is no handler, such as a gateway, reads a request, asks another service, and
// stores what it is told.
func ExampleRoute() {
	engine := once.New(memstore.New(), once.Config{})
	route := oncehttp.NewRoute(engine, oncehttp.Config{Principal: oncehttp.SharedPrincipal(), MaxMemory: 256 << 10, MaxRequest: 64 << 20})
	upstream := func(body io.Reader) (status int, header http.Header, answer []byte) {
		order, _ := io.ReadAll(body)
		return http.StatusCreated, http.Header{"Set-Cookie": {"seen=1"}}, append([]byte("made "), order...)
	}
	serve := func(w http.ResponseWriter, r *http.Request) {
		x, ok := route.Read(w, r)
		if !ok {
			return // it was refused, and answered
		}
		defer x.Close()
		ctx, cancel := x.Context()
		defer cancel()
		x.Finish(engine.Exec(ctx, x.Operation, func(context.Context, *memstore.Tx) (once.Answer, error) {
			body, _ := x.Body()
			return x.Answer(upstream(body))
		}))
	}
	for _, body := range []string{"tea", "tea", "coffee"} {
		w := httptest.NewRecorder()
		serve(w, post("/orders", "k", body))
		fmt.Println(w.Code, w.Header().Get("Idempotency-Status"), w.Header()["Set-Cookie"])
	}
	// Output:
	// 201 stored [seen=1]
	// 201 replayed []
	// 422  []
}

// exchanging is a program of its own around a Route.
type exchanging struct {
	engine *once.Engine[*memstore.Tx]
	route  *oncehttp.Route
	fn     func(x *oncehttp.Exchange) (once.Answer, error)
	after  func(x *oncehttp.Exchange, err error) bool // whether the program has answered
	runs   int
}

func (e *exchanging) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x, ok := e.route.Read(w, r)
	if !ok {
		return
	}
	defer x.Close()
	rec, replayed, err := e.engine.Exec(r.Context(), x.Operation, func(context.Context, *memstore.Tx) (once.Answer, error) {
		e.runs++
		return e.fn(x)
	})
	if e.after == nil || !e.after(x, err) {
		x.Finish(rec, replayed, err)
	}
}

// doorkeeper counts those who are inside.
type doorkeeper struct{ inside, entered int }

func (d *doorkeeper) Enter(*http.Request, limit.Replay) (func(), *limit.Refusal) {
	d.inside++
	d.entered++
	return func() { d.inside-- }, nil
}

func startExchanging(fn func(x *oncehttp.Exchange) (once.Answer, error)) (*exchanging, *doorkeeper) {
	door := &doorkeeper{}
	engine := once.New(memstore.New(), once.Config{Observer: once.Discard})
	route := oncehttp.NewRoute(engine, oncehttp.Config{Principal: oncehttp.SharedPrincipal(), Gate: door, MaxStored: 100, MaxRequest: 1000, MaxMemory: 10})
	return &exchanging{engine: engine, route: route, fn: fn}, door
}

func ask(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	w.Header().Set("X-Outside", "1")
	h.ServeHTTP(w, r)
	return w
}

// What an answer says is stored and sent by the rules of the middleware.
func TestAnswersOfAnExchange(t *testing.T) {
	for _, c := range []struct {
		status, size int
		first, again string // Idempotency-Status
		retry        int    // status of the retry
		runs         int
	}{
		{201, 1, "stored", "replayed", 201, 1},
		{422, 1, "stored", "replayed", 422, 1},
		{204, 0, "stored", "replayed", 204, 1},
		{409, 1, "not-stored", "not-stored", 409, 2},
		{503, 1, "not-stored", "not-stored", 503, 2},
		{201, 101, "omitted", "", 409, 1},
	} {
		t.Run(fmt.Sprint(c.status, c.size), func(t *testing.T) {
			e, door := startExchanging(func(x *oncehttp.Exchange) (once.Answer, error) {
				return x.Answer(c.status, http.Header{"Set-Cookie": {"c"}, "Location": {"/1"}, "Content-Type": {"text/plain"}}, []byte(strings.Repeat("x", c.size)))
			})
			first := ask(e, post("/", "k", "a"))
			if h := first.Header(); first.Code != c.status || first.Body.Len() != c.size || h.Get("Set-Cookie") != "c" || h.Get("Location") != "/1" || h.Get("X-Outside") != "1" || h.Get("Idempotency-Status") != c.first {
				t.Errorf("%d %v", first.Code, first.Header())
			}
			again := ask(e, post("/", "k", "a"))
			if h := again.Header(); again.Code != c.retry || h.Get("Idempotency-Status") != c.again || e.runs != c.runs || c.runs == 1 && h.Get("Set-Cookie") != "" {
				t.Errorf("%d %v after %d runs", again.Code, again.Header(), e.runs)
			}
			if door.inside != 0 || door.entered != 2 {
				t.Errorf("%+v", door)
			}
		})
	}
}

// The body can be read again in each run, in memory and in a file, and not when the request is over.
func TestBodyOfAnExchange(t *testing.T) {
	for _, size := range []int{0, 5, 500} {
		var body io.ReadCloser
		var got []string
		e, _ := startExchanging(func(x *oncehttp.Exchange) (once.Answer, error) {
			for range 2 {
				before := body
				var n int64
				body, n = x.Body()
				if before != nil {
					if _, err := before.Read(make([]byte, 1)); !errors.Is(err, http.ErrBodyReadAfterClose) {
						t.Errorf("the reader before: %v", err)
					}
				}
				b, err := io.ReadAll(body)
				if err != nil || n != int64(size) {
					t.Error(n, err)
				}
				got = append(got, string(b))
			}
			return x.Answer(200, nil, nil)
		})
		sent := strings.Repeat("b", size)
		if w := ask(e, post("/", "k"+strconv.Itoa(size), sent)); w.Code != 200 || len(got) != 2 || got[0] != sent || got[1] != sent {
			t.Errorf("%d: %q", w.Code, got)
		}
		if _, err := body.Read(make([]byte, 1)); !errors.Is(err, http.ErrBodyReadAfterClose) {
			t.Errorf("afterwards: %v", err)
		}
	}
}

// A program may answer by itself, as one does that streams: then Finish adds nothing.
func TestAnExchangeThatIsAnsweredByTheProgram(t *testing.T) {
	e, _ := startExchanging(func(*oncehttp.Exchange) (once.Answer, error) {
		return once.Answer{Result: store.Result{Kind: store.ResultOmitted, Status: 200}}, nil
	})
	if w := ask(e, post("/", "k", "")); w.Body.Len() != 0 || w.Header().Get("Idempotency-Status") != "" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	if w := ask(e, post("/", "k", "")); w.Code != 409 || !strings.Contains(w.Body.String(), string(oncehttp.ProblemResultUnavailable)) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	e.fn = func(*oncehttp.Exchange) (once.Answer, error) { return once.Answer{}, errors.New("secret") }
	e.after = func(x *oncehttp.Exchange, err error) bool {
		p := x.Problem(err)
		if p.Code != oncehttp.ProblemHandlerFailed || !p.Retryable || strings.Contains(p.Detail, "secret") {
			t.Errorf("%+v", p)
		}
		p.Status = http.StatusBadGateway
		x.WriteProblem(p)
		return true
	}
	if w := ask(e, post("/", "l", "")); w.Code != http.StatusBadGateway {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// What is refused is answered by Read, has left the gate, and never reaches the program.
func TestReadRefuses(t *testing.T) {
	e, door := startExchanging(func(*oncehttp.Exchange) (once.Answer, error) {
		t.Error("it was executed")
		return once.Answer{}, nil
	})
	consumed := post("/", "k", "body")
	_, _ = io.ReadAll(consumed.Body)
	for want, r := range map[int]*http.Request{
		400: httptest.NewRequest(http.MethodPost, "/", http.NoBody),
		413: post("/", "k", strings.Repeat("b", 1001)),
		500: consumed,
	} {
		if w := ask(e, r); w.Code != want || w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%d %s, want %d", w.Code, w.Body, want)
		}
	}
	if door.inside != 0 || door.entered != 2 {
		t.Errorf("%+v", door)
	}
	if methods := e.route.Config().Preset.Methods; !slices.Contains(methods, "POST") || slices.Contains(methods, "GET") {
		t.Error("methods")
	}
	cfg := e.route.Config()
	if cfg.Preset.Name != "default" || cfg.Retain != e.engine.Config().Retain || cfg.MaxResponse != 8<<20 || cfg.Preset.WriteProblem != nil {
		t.Errorf("%+v", cfg)
	}
}
