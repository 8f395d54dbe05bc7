package killstorm

import (
	"fmt"
	"slices"
	"time"
)

// Report is the result of a storm. Its JSON form is a contract with scripts.
type Report struct {
	Operations        int  `json:"operations"`
	Attempts          int  `json:"attempts"`
	Replayed          int  `json:"replayed"`
	MismatchesRefused int  `json:"mismatches_refused"`
	InFlightRefused   int  `json:"in_flight_refused"`
	Kills             int  `json:"kills"`
	ClientKills       int  `json:"client_kills"`
	Resumed           int  `json:"resumed"`
	Effects           int  `json:"effects"`
	Duplicates        int  `json:"duplicates"`
	Lost              int  `json:"lost"`
	ReplayDifferences int  `json:"replay_differences"`
	OK                bool `json:"ok"`

	Instruments *Instruments `json:"instruments,omitempty"` // nil if they were not scraped

	Details `json:"-"`
}

// Details are for people.
type Details struct {
	Took      time.Duration
	Clients   int
	Dropped   int      // answers that the network lost
	Broken    int      // connections that ended because the server was killed
	Abandoned int      // requests that their client cut off or disconnected from
	Compared  int      // answers that were compared with the first one of their order
	Open      int      // open intents in the journals of the clients
	Entries   int      // entries of the ledger
	SampleKey string   // the key of an order that met every kind of fault
	Reasons   []string // why it is not OK
}

// report compares the answers to clients with the database.
func (s *Storm) report(f found, took time.Duration) Report {
	n := s.tally.counts()
	r := Report{
		Operations: s.Orders, Attempts: n.attempts,
		Replayed: n.replayed, MismatchesRefused: n.mismatch, InFlightRefused: n.inFlight,
		Kills: n.kills, ClientKills: n.clientKills, Resumed: n.resumed, ReplayDifferences: s.tally.differences(),
		Details: Details{
			Took: took, Clients: s.Clients, Dropped: n.dropped, Broken: n.broken, Abandoned: n.abandoned,
			Compared: n.compared, Open: s.open, Entries: f.entries, SampleKey: s.orders[0].key, Reasons: f.wrong,
		},
	}
	for _, o := range s.orders {
		right, wrong := f.refunds[o.amount], f.refunds[o.amount+wrongAmount]
		delete(f.refunds, o.amount)
		delete(f.refunds, o.amount+wrongAmount)
		effects := len(right) + len(wrong)
		r.Effects += effects
		r.Duplicates += max(0, effects-1)
		told, answered := s.tally.answerOf(o)
		switch {
		case len(right) == 0:
			r.Lost++
		case answered && !slices.Contains(right, resultID(told)):
			r.Lost++ // the customer has an answer for a refund that does not exist
		}
		if !answered {
			r.Reasons = append(r.Reasons, "no client has received the outcome of "+o.key)
		}
	}
	for amount, ids := range f.refunds {
		r.Effects += len(ids)
		r.Duplicates += len(ids)
		r.Reasons = append(r.Reasons, fmt.Sprintf("the database has a refund of %d that no client has requested", amount))
	}
	r.compare(s.instruments)
	r.judge(s.Config)
	return r
}

// judge fills in OK and the reasons. A storm in which an interesting fault did not happen proves nothing, so it is not OK either.
func (r *Report) judge(cfg Config) {
	fail := func(n int, sentence string) {
		if n > 0 {
			r.Reasons = append(r.Reasons, fmt.Sprintf("%d %s", n, sentence))
		}
	}
	fail(r.Duplicates, "refunds too many")
	fail(r.Lost, "refunds lost")
	fail(r.ReplayDifferences, "responses that differ from the first response")
	fail(r.Open, "requests whose outcome no client has received")
	vacuous := func(n, want int, sentence string) {
		if n < want {
			r.Reasons = append(r.Reasons, fmt.Sprintf("this run proves nothing: %d %s, but at least %d are necessary. Try: use a larger --ops", n, sentence, want))
		}
	}
	vacuous(r.Kills, cfg.Kills, "kills")
	vacuous(r.ClientKills, cfg.ClientKills, "kills of clients")
	vacuous(r.Resumed, min(1, cfg.ClientKills), "resumed intents")
	vacuous(r.Dropped, 1, "dropped answers")
	if !cfg.Unsafe {
		vacuous(r.Replayed, 1, "replays")
		vacuous(r.MismatchesRefused, 1, "refusals of another body")
	}
	r.OK = len(r.Reasons) == 0
}
