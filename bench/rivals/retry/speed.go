package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"
)

// bar is something that the project has promised itself.
type bar struct {
	what  string
	is    figure
	unit  string
	least bool // the bar is a lower bound
	bar   float64
}

func (b bar) row() string {
	holds, word := b.is.median <= b.bar, "at most"
	if b.least {
		holds, word = b.is.median >= b.bar, "at least"
	}
	return fmt.Sprintf("| %s | %s | %s %g%s | %s |", b.what, b.is.in(b.unit), word, b.bar, b.unit, map[bool]string{true: "yes", false: "**no**"}[holds])
}

func (f figure) in(unit string) string {
	digits := 2
	if f.median >= 10 || unit != "x" {
		digits = 0
	}
	n := func(v float64) string { return fmt.Sprintf("%.*f", digits, v) }
	return n(f.median) + unit + " [" + n(f.least) + " .. " + n(f.most) + "]"
}

// speed is the second part of the file.
func (r race) speed(ctx context.Context) (string, error) {
	var w strings.Builder
	p := func(format string, a ...any) { fmt.Fprintf(&w, format+"\n", a...) }
	p("")
	p("## Speed")
	p("")
	p("All take turns, in slices of %v, for %d rounds; every figure is a comparison within a round: the median [least .. most]", r.slice, r.rounds)
	p("of the rounds. A run fails if not all have made the same calls, and have sent the same bytes.")
	p("")
	p("retry and retryhttp are as they are by default, apart from the pauses and Announce: the budget is on (it is made to earn what a")
	p("storm of nothing but retries spends), and so are the 10 s for all attempts and, over HTTP, the keys, the number of the")
	p("attempt and its time in the header, and the reading of answers to requests with a key. There are no pauses.")
	bars, err := r.loops(ctx, p)
	if err != nil {
		return "", err
	}
	more, err := r.requests(ctx, p)
	if err != nil {
		return "", err
	}
	p("")
	p("### Bars")
	p("")
	p("| | measured | bar | holds |")
	p("| --- | --: | --: | :-: |")
	for _, b := range append(bars, more...) {
		p("%s", b.row())
	}
	return w.String(), nil
}

// loops compares what retries a function.
func (r race) loops(ctx context.Context, p func(string, ...any)) (bars []bar, err error) {
	fmt.Fprintln(os.Stderr, "loops")
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ok, again := loops(ctx, new(work)), loops(ctx, &work{fails: true})
	for _, field := range [][]*runner{ok, again} {
		if err := r.run(field); err != nil {
			return nil, err
		}
	}
	p("")
	p("### A function")
	p("")
	p("One that returns at once, and one that fails the first time and is retried without a pause. \"Over\": what is left of the")
	p("time if that of the same calls by hand is taken away. \"Times once\": all of it, divided by that of once. All take a")
	p("context for each call, unless it says otherwise; cenkalti/backoff and avast/retry-go do not give it to the function.")
	p("once has a deadline for the second attempt, unless Total is -1, and makes what ends it when the function waits for it;")
	p("the others have none. The last line is no library, but what a retry costs that is paid from a budget, counted, and")
	p("bounded in time: three atomic additions and a look at the clock.")
	p("")
	p("| | success, over | times once | allocations | one retry, over | times once | allocations |")
	p("| --- | --: | --: | --: | --: | --: | --: |")
	for i, c := range ok {
		if i == 0 {
			continue
		}
		p("| %s | %s | %s | %.0f | %s | %s | %.0f |", label(c.name),
			c.against(ok[0], over).in(" ns"), c.against(ok[1], ratio).in("x"), c.allocs,
			again[i].against(again[0], over).in(" ns"), again[i].against(again[1], ratio).in("x"), again[i].allocs)
	}
	bars = []bar{
		{what: "a function that succeeds, over calling it", is: ok[1].against(ok[0], over), unit: " ns", bar: 15},
		{what: "allocations of that", is: figure{ok[1].allocs, ok[1].allocs, ok[1].allocs}, bar: 0},
		{what: "one retry, over two calls", is: again[1].against(again[0], over), unit: " ns", bar: 130},
		{what: "allocations of that", is: figure{again[1].allocs, again[1].allocs, again[1].allocs}, bar: 1},
		{what: "one retry with Total: -1, over two calls", is: again[2].against(again[0], over), unit: " ns", bar: 45},
		{what: "allocations of that", is: figure{again[2].allocs, again[2].allocs, again[2].allocs}},
	}
	for i, c := range ok {
		if !strings.HasPrefix(c.name, "once") && i > 0 && c.name != floor && !strings.Contains(c.name, "no context") {
			bars = append(bars,
				bar{what: "a success with " + c.name + " / with once", is: c.against(ok[1], ratio), unit: "x", bar: 1, least: true},
				bar{what: "one retry with " + c.name + " / with once", is: again[i].against(again[1], ratio), unit: "x", bar: 1, least: true})
		}
	}
	return bars, nil
}

var tasks = []task{
	{"GET", http.MethodGet, "/", false},
	{"POST of 1 KiB with a key", http.MethodPost, "/", false},
	{"GET, one retry", http.MethodGet, "/retry", false},
	{"POST, one retry", http.MethodPost, "/retry", false},
	{"GET", http.MethodGet, "/", true},
	{"POST of 1 KiB with a key", http.MethodPost, "/", true},
	{"GET, one retry", http.MethodGet, "/retry", true},
	{"POST, one retry", http.MethodPost, "/retry", true},
}

// requests compares HTTP clients.
func (r race) requests(ctx context.Context, p func(string, ...any)) (bars []bar, err error) {
	p("")
	p("### A request")
	p("")
	p("Each is divided by what a bare http.Client takes for the one request without a retry, made in the same way; so one retry")
	p("is 2 at best, or less where the client has work to do only once. The clients are those of the checks, used as each of")
	p("them is meant to be: go-retryablehttp and resty by their own methods, the others below an http.Client. The last line is")
	p("a client by hand that only tells the server the number of the attempt and the time that is left, and leaves the caller's")
	p("request alone.")
	for _, loopback := range []bool{false, true} {
		side := "on a stub instead of a connection, where nothing hides what a client costs"
		if loopback {
			side = "on loopback, HTTP/1.1; the server is in the same process"
		}
		head, line := []string{side}, []string{"---"}
		rows := map[string][]string{}
		var names []string
		for _, t := range tasks {
			if t.loopback != loopback {
				continue
			}
			fmt.Fprintln(os.Stderr, t.name, side)
			field, end := requests(ctx, t)
			err := r.run(field)
			end()
			if err != nil {
				return nil, err
			}
			head, line = append(head, t.name, "allocations"), append(line, "--:", "--:")
			names = names[:0]
			for _, c := range field {
				cell := c.against(field[0], ratio).in("x")
				if c == field[0] {
					cell = time.Duration(c.against(c, func(a, _ float64) float64 { return a }).median).Round(10 * time.Nanosecond).String()
				}
				names, rows[c.name] = append(names, c.name), append(rows[c.name], cell, fmt.Sprintf("%.0f", c.allocs))
			}
			bars = append(bars, barsOf(t, field[1], field[0])...)
		}
		p("")
		p("| %s |", strings.Join(head, " | "))
		p("| %s |", strings.Join(line, " | "))
		for _, name := range names {
			p("| %s | %s |", label(name), strings.Join(rows[name], " | "))
		}
	}
	return bars, nil
}

// barsOf are the bars of a task: how much more once takes than net/http, which makes one request
// where once makes two.
func barsOf(t task, is, bare *runner) []bar {
	b := bar{what: t.name + ", stub, over a bare request", is: is.against(bare, over), unit: " ns", bar: 1000}
	again := t.path == "/retry"
	switch {
	case t.loopback && again:
		b.what, b.is, b.unit, b.bar = t.name+", loopback, of two bare requests", is.against(bare, func(a, b float64) float64 { return a / (2 * b) }), "x", 1.15
	case t.loopback:
		b.what, b.bar = t.name+", loopback, over a bare request", 5000
	case again:
		b.what, b.is, b.bar = t.name+", stub, over two bare requests", is.against(bare, func(a, b float64) float64 { return a - 2*b }), 2000
	}
	if t.loopback || again {
		return []bar{b}
	}
	more := is.allocs - bare.allocs
	return []bar{b, {what: t.name + ", stub, allocations more", is: figure{more, more, more}, bar: 6}}
}

// label is a name with the version of its module.
func label(name string) string {
	plain, _, _ := strings.Cut(name, ",")
	if v := versions()[modules[plain]]; v != "" {
		return strings.Replace(name, plain, plain+" "+v, 1)
	}
	return name
}

var modules = map[string]string{
	"failsafe-go":        "github.com/failsafe-go/failsafe-go",
	"failsafehttp":       "github.com/failsafe-go/failsafe-go",
	"cenkalti/backoff":   "github.com/cenkalti/backoff/v5",
	"sethvargo/go-retry": "github.com/sethvargo/go-retry",
	"avast/retry-go":     "github.com/avast/retry-go/v5",
	"go-retryablehttp":   "github.com/hashicorp/go-retryablehttp",
	"rehttp":             "github.com/PuerkitoBio/rehttp",
	"resty 2":            "github.com/go-resty/resty/v2",
	"resty 3":            "resty.dev/v3",
}
