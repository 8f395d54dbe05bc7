package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/base/words"
)

var listenEntry = cli.Entry{
	Name: "webhook listen", Brief: "print and verify the webhooks that arrive on a local port",
	Help: `Waits for webhooks on a port of this machine, and verifies and prints each webhook. The command stores no data. Use
the command to see which requests a sender sends, and how the sender retries.

  once webhook listen --scheme standard --secret-file secret --port 4242

If the signature of a request is correct, the command responds with the status of --answer, otherwise with 401. Ctrl-C
ends the command.`,
	Make: func() cli.Runner { return new(listen) },
}

type listen struct {
	sender

	port, answer int
	body         bool
	output       cli.Form
}

func (c *listen) Flags(fs *pflag.FlagSet) {
	c.sender.Flags(fs)
	fs.IntVar(&c.port, "port", 4242, "the `PORT` on 127.0.0.1 (0 chooses a free port)")
	fs.IntVar(&c.answer, "answer", http.StatusOK, "the `STATUS` of the response to requests with a correct signature")
	fs.BoolVar(&c.body, "payload", false, "also print the body")
	c.output.Flag(fs)
}

// arrived is a request that has arrived.
type arrived struct {
	verdict

	At     time.Time `json:"at"`
	Path   string    `json:"path"`
	Status int       `json:"status"` // of the answer
	Body   string    `json:"body,omitempty"`
}

func (c *listen) Run(ctx context.Context, m *cli.Env, _ []string) error {
	if c.answer < 200 || c.answer > 599 {
		return cli.Usage(fmt.Sprintf("--answer %d is not an HTTP status", c.answer), "--answer 200, or --answer 500 to see how the sender tries again")
	}
	if _, err := c.verifier(); err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(c.port)))
	if err != nil {
		return fmt.Errorf("%w. Try: use another --port", err)
	}
	fmt.Fprintf(m.Stderr, "waiting for webhooks at http://%s/\n", l.Addr())
	var printing sync.Mutex
	server := &http.Server{ReadTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		one := c.look(r)
		printing.Lock()
		defer printing.Unlock()
		c.print(m.Stdout, one)
		w.WriteHeader(one.Status)
	})}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// look verifies a request.
func (c *listen) look(r *http.Request) arrived {
	one := arrived{At: time.Now(), Path: r.URL.Path, Status: http.StatusUnauthorized}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxRequest))
	if err != nil {
		one.Status = http.StatusRequestEntityTooLarge
		return one
	}
	v, err := c.verifier() // it is read again, because the file may have a new secret
	if err == nil {
		one.verdict, err = (&verify{tolerance: 5 * time.Minute}).judge(v, r.Header, body)
	}
	if err == nil && !one.Stale {
		one.Status = c.answer
	}
	if c.body {
		one.Body = string(body)
	}
	return one
}

func (c *listen) print(w io.Writer, one arrived) {
	if c.output != cli.Table {
		_ = cli.WriteJSON(w, cli.JSONL, one)
		return
	}
	what := "the signature is not correct"
	switch {
	case one.Stale:
		what = "the signature is correct, but the time of the request is too far from the present time"
	case one.Genuine:
		what = fmt.Sprintf("%s %s", words.OrDash(one.ID), words.OrDash(one.Type))
	}
	fmt.Fprintf(w, "%s  %d  %s  %s\n", words.Time(one.At), one.Status, what, words.Count(one.Bytes, "byte"))
	if one.Body != "" {
		fmt.Fprintf(w, "  %s\n", words.Shown(one.Body))
	}
}
