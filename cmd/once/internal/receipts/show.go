package receipts

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/gateway/receipt"
	"github.com/oncelib/once/internal/base/words"
)

var showEntry = cli.Entry{
	Quick: true, Name: "receipts show", Args: "OPERATION", Brief: "print the receipt that a service has committed for an operation",
	Help: `Prints the receipt of an operation, or its tombstone (a record that makes the service refuse the operation if it
arrives later). OPERATION is the value of the header Once-Operation, which is in the logs of the gateway. The header and
the body of the response are printed only with --payload.`,
	Make: func() cli.Runner { return new(show) },
}

type show struct {
	db      string
	payload bool
	output  cli.Form
}

func (c *show) Flags(fs *pflag.FlagSet) {
	cli.DBFlag(fs, &c.db)
	fs.BoolVar(&c.payload, "payload", false, "also print the header and the body of the response, which may contain personal data")
	c.output.Flag(fs)
}

// shown is a row as JSON.
type shown struct {
	Operation   string      `json:"operation"`
	State       string      `json:"state"` // committed or tombstone
	Fingerprint string      `json:"fingerprint,omitempty"`
	Status      int         `json:"status,omitempty"`
	CreatedAt   time.Time   `json:"created_at"`
	BodyBytes   int         `json:"body_bytes"`
	Header      http.Header `json:"header,omitempty"` // with --payload
	Body        []byte      `json:"body,omitempty"`
}

func (c *show) Run(ctx context.Context, m *cli.Env, args []string) error {
	if len(args) == 0 || args[0] == "" {
		return cli.Usage("the OPERATION is missing", "once receipts show OPERATION --db URL")
	}
	db, t, err := open(ctx, m, c.db, receipt.Config{})
	if err != nil {
		return err
	}
	defer db.Close()
	r, found, err := t.Get(ctx, args[0])
	if err != nil {
		return refused(db, "read", err)
	}
	if !found {
		return missing(db, args[0])
	}
	s := c.of(r)
	if c.output != cli.Table {
		return cli.WriteJSON(m.Stdout, c.output, s)
	}
	w := tabwriter.NewWriter(m.Stdout, 0, 0, 2, ' ', 0)
	line := func(name, value string) { fmt.Fprintf(w, "%s\t%s\n", name, words.Shown(value)) }
	line("operation", s.Operation)
	line("state", s.State+words.Either(r.Tombstone, ": the service has not executed the operation, and never will", ": the service has executed the operation"))
	line("created", words.Time(s.CreatedAt))
	if !r.Tombstone {
		line("fingerprint", words.Either(s.Fingerprint != "", s.Fingerprint, "none: the service does not notice a key that is reused for another request"))
		line("status", strconv.Itoa(s.Status))
		line("body", words.Count(s.BodyBytes, "byte"))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Header)) {
		line("header", name+": "+strings.Join(s.Header[name], ", "))
	}
	if len(s.Body) > 0 {
		line("", string(s.Body))
	}
	return w.Flush()
}

func (c *show) of(r receipt.Row) shown {
	s := shown{r.Operation, words.Either(r.Tombstone, "tombstone", "committed"), r.Fingerprint, r.Status, r.CreatedAt, len(r.Body), nil, nil}
	if c.payload {
		s.Header, s.Body = r.Header, r.Body
	}
	return s
}
