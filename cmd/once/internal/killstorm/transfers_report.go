package killstorm

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// TransfersReport is the result of a storm over transfers. Its JSON form is a contract with scripts.
type TransfersReport struct {
	Transfers    int   `json:"transfers"`
	Completed    int   `json:"completed"`
	Compensated  int   `json:"compensated"`
	Stuck        int   `json:"stuck"`
	Unknown      int   `json:"unknown"`  // transfers with a deposit that was sent and not answered
	Resolved     int   `json:"resolved"` // unknown transfers that have ended nevertheless
	MoneyLost    int64 `json:"money_lost"`
	MoneyCreated int64 `json:"money_created"` // both in cents, at the worst moment without a running transfer
	OK           bool  `json:"ok"`

	Undone        int           `json:"-"` // undone deposits
	Nothing       int           `json:"-"` // undos that came before their deposit, or instead of it
	Refused       int           `json:"-"` // deposits that came after their undo
	BankKills     int           `json:"-"`
	OtherKills    int           `json:"-"`
	ClearingKills int           `json:"-"`
	Nodes         int           `json:"-"`
	Points        int           `json:"-"` // how often the money was counted
	Took          time.Duration `json:"-"`
	Reasons       []string      `json:"-"`
}

// books are the entries of both banks, by transfer and kind.
type books [2]map[string]map[string][]int64

// of returns the sums of one transfer in both banks, and the number of its entries.
func (b books) of(name string) (first, second int64, entries int) {
	for i, bank := range b {
		for what, list := range bank[name] {
			for _, cents := range list {
				if i == 0 {
					first += cents
				} else {
					second += cents
				}
				if what != "confirm" {
					entries++
				}
			}
		}
	}
	return first, second, entries
}

// quiescent reads the books of both banks. No transfer may be running.
func (s *Transfers) quiescent(ctx context.Context) error {
	var all books
	for i, bank := range s.Banks {
		entries, err := bank.entries(ctx, s.Session)
		if err != nil {
			return fmt.Errorf("the check of the database has failed: %w", err)
		}
		all[i] = entries
	}
	s.points = append(s.points, all)
	return nil
}

// entries returns the entries of the transfers of a session, by transfer and kind.
func (w Witness) entries(ctx context.Context, session string) (map[string]map[string][]int64, error) {
	rows, err := w.DB.QueryContext(ctx, "select transfer, what, cents from demo_entry")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := map[string]map[string][]int64{}
	for rows.Next() {
		var name, what string
		var cents int64
		if err := rows.Scan(&name, &what, &cents); err != nil {
			return nil, err
		}
		if !strings.HasPrefix(name, session+"-") { // other entries belong to another storm
			continue
		}
		if all[name] == nil {
			all[name] = map[string][]int64{}
		}
		all[name][what] = append(all[name][what], cents)
	}
	return all, rows.Err()
}

// count compares the books with the answers to the clients.
func (s *Transfers) count(r *TransfersReport) error {
	complain := func(format string, args ...any) { r.Reasons = append(r.Reasons, fmt.Sprintf(format, args...)) }
	r.Transfers, r.Nodes, r.Points = s.Orders, len(s.Nodes), len(s.points)
	unanswered, err := s.readClearing(r)
	if err != nil {
		return err
	}
	for i, told := range s.outcomes {
		name := s.transferOf(i).Name
		switch told {
		case completed:
			r.Completed++
		case compensated:
			r.Compensated++
		default:
			r.Stuck++
			complain("%s is stuck", name)
		}
		if unanswered[name] {
			r.Unknown++
			if told == completed || told == compensated {
				r.Resolved++
			}
		}
		for p, b := range s.points {
			if wrong := told.contradicts(b, name, s.transferOf(i).Cents); wrong != "" {
				complain("the transfer %s was answered as %s, but at kill point %d: %s", name, told, p+1, wrong)
			}
		}
	}
	for _, b := range s.points {
		var lost, created int64
		for i := range s.outcomes {
			first, second, _ := b.of(s.transferOf(i).Name)
			lost, created = lost+max(0, -first-second), created+max(0, first+second)
		}
		r.MoneyLost, r.MoneyCreated = max(r.MoneyLost, lost), max(r.MoneyCreated, created)
	}
	for p, n := range s.kills {
		switch p {
		case s.Clearing:
			r.ClearingKills += n
		case s.Other:
			r.OtherKills += n
		default:
			r.BankKills += n
		}
	}
	if r.Completed == 0 || r.Compensated == 0 || r.Unknown == 0 || r.Undone == 0 || r.Nothing == 0 || r.Refused == 0 {
		complain("this run proves nothing, because none of these numbers may be 0: %d transfers completed, %d transfers compensated, %d outcomes unknown, %d deposits refused, %d deposits undone, %d deposits undone before their request arrived. Try: use a larger --ops", r.Completed, r.Compensated, r.Unknown, r.Refused, r.Undone, r.Nothing)
	}
	r.OK = len(r.Reasons) == 0
	return nil
}

// contradicts returns the error in the books of a transfer with this outcome, or "".
func (o transferOutcome) contradicts(b books, name string, cents int64) string {
	first, second, entries := b.of(name)
	switch {
	case first+second < 0:
		return fmt.Sprintf("%d cents are lost", -first-second)
	case first+second > 0:
		return fmt.Sprintf("%d cents are created", first+second)
	case o == completed && (second != cents || entries != 2):
		return fmt.Sprintf("the second bank has %d cents in %d entries, but it must have %d cents in 2 entries", second, entries, cents)
	case o == compensated && (second != 0 || entries > 4):
		return fmt.Sprintf("the second bank has %d cents in %d entries, but it must have no cents and no entries", second, entries)
	}
	return ""
}

// readClearing counts the requests at the clearing house, and returns the transfers of which a deposit was not answered.
func (s *Transfers) readClearing(r *TransfersReport) (unanswered map[string]bool, err error) {
	deeds, err := readDeeds(s.ClearingFile)
	if err != nil {
		return nil, err
	}
	open, unanswered := map[string]int{}, map[string]bool{}
	said := map[string]map[string]bool{"undone": {}, "nothing": {}, "refused": {}} // by transfer, because an answer may come twice
	for _, d := range deeds {
		switch {
		case said[d.What] != nil:
			said[d.What][d.Order] = true
		case d.Key != depositsPath:
		case d.What == "request":
			open[d.Order]++
		case d.What == "answered":
			open[d.Order]--
		}
	}
	r.Undone, r.Nothing, r.Refused = len(said["undone"]), len(said["nothing"]), len(said["refused"])
	for name, n := range open {
		unanswered[name] = n > 0
	}
	return unanswered, nil
}
