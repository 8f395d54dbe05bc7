package killstorm

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// ProvidersReport is the result of a storm over providers. Its JSON form is a contract with scripts.
type ProvidersReport struct {
	Calls              int  `json:"calls"`   // to the providers
	Unknown            int  `json:"unknown"` // orders whose outcome was unknown
	Resolved           int  `json:"resolved"`
	ResolvedByCheck    int  `json:"resolved_by_check"`
	ResolvedByOperator int  `json:"resolved_by_operator"`
	DoubleCharges      int  `json:"double_charges"`
	Deduped            int  `json:"deduped"` // repeated calls with the same key
	Refused            int  `json:"refused"` // late calls, after a tombstone
	ProviderKills      int  `json:"provider_kills"`
	ServiceKills       int  `json:"service_kills"`
	OK                 bool `json:"ok"`

	Orders  int           `json:"-"`
	Charges int           `json:"-"`
	Failed  int           `json:"-"` // orders without a charge
	Nodes   int           `json:"-"`
	Took    time.Duration `json:"-"`
	Reasons []string      `json:"-"`
}

// count compares the charges of the providers with the answers to the clients and the bookings of the service.
func (s *Providers) count(ctx context.Context, r *ProvidersReport) error {
	charges, err := s.readCharges(r)
	if err != nil {
		return err
	}
	booked, err := s.Witness.orderBookings(ctx, s.Session)
	if err != nil {
		return fmt.Errorf("the check of the database has failed: %w", err)
	}
	complain := func(format string, args ...any) { r.Reasons = append(r.Reasons, fmt.Sprintf(format, args...)) }
	r.Orders, r.Nodes = s.Orders, len(s.Nodes)
	for i, o := range s.outcomes {
		name := s.nameOf(i)
		r.Charges += len(charges[name])
		r.DoubleCharges += max(0, len(charges[name])-1)
		if !o.done || o.charge == "" {
			r.Failed++
		}
		if wrong := o.contradicts(charges[name], booked[name]); wrong != "" {
			complain("%s %s", name, wrong)
		}
		r.resolved(o)
	}
	r.Resolved = r.ResolvedByCheck + r.ResolvedByOperator
	for p, n := range s.kills {
		if p == s.Dedupes || p == s.Forgets {
			r.ProviderKills += n
		} else {
			r.ServiceKills += n
		}
	}
	if r.Resolved < r.Unknown {
		complain("%d of %d unknown outcomes were not resolved", r.Unknown-r.Resolved, r.Unknown)
	}
	if r.ResolvedByCheck == 0 || r.ResolvedByOperator == 0 {
		complain("this run proves nothing: a question to the provider has resolved %d unknown outcomes, and the operator has resolved %d; both numbers must be greater than zero. Try: use a larger --ops", r.ResolvedByCheck, r.ResolvedByOperator)
	}
	r.OK = len(r.Reasons) == 0
	return nil
}

// contradicts returns the error in an order that has these charges and this booking, or "".
func (o orderOutcome) contradicts(made []string, booked string) string {
	switch {
	case len(made) > 1:
		return fmt.Sprintf("is charged %d times", len(made))
	case !o.done:
		return "has not ended"
	case o.charge == "" && len(made) > 0:
		return "was answered as failed, but is charged"
	case o.charge != "" && (len(made) == 0 || made[0] != o.charge):
		return fmt.Sprintf("was answered with the charge %s, but the provider has made %q", o.charge, made)
	case !o.decided && booked != o.charge:
		return fmt.Sprintf("was answered with the charge %q, but %q is booked", o.charge, booked)
	}
	return ""
}

// resolved counts the way in which an unknown outcome became known.
func (r *ProvidersReport) resolved(o orderOutcome) {
	if o.unknown || o.decided {
		r.Unknown++
	}
	switch {
	case !o.done:
	case o.decided:
		r.ResolvedByOperator++
	case o.unknown:
		r.ResolvedByCheck++
	}
}

// readCharges returns the charges of each order, and counts the other deeds of the providers.
func (s *Providers) readCharges(r *ProvidersReport) (charges map[string][]string, err error) {
	charges = map[string][]string{}
	for _, file := range []string{s.DedupesFile, s.ForgetsFile} {
		deeds, err := readDeeds(file)
		if err != nil {
			return nil, err
		}
		for _, d := range deeds {
			switch d.What {
			case "request":
				r.Calls++
			case "deduped":
				r.Deduped++
			case "refused":
				r.Refused++
			case "charge":
				charges[d.Order] = append(charges[d.Order], d.Charge)
			}
		}
	}
	return charges, nil
}

// orderBookings returns the charges that the service has booked, by order. The nodes must have ended.
func (w Witness) orderBookings(ctx context.Context, session string) (map[string]string, error) {
	if err := w.await(ctx); err != nil {
		return nil, err
	}
	rows, err := w.DB.QueryContext(ctx, "select order_id, charge from demo_booking")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	booked := map[string]string{}
	for rows.Next() {
		var order, charge string
		if err := rows.Scan(&order, &charge); err != nil {
			return nil, err
		}
		if strings.HasPrefix(order, session+"-") { // other orders belong to another storm
			booked[order] = charge
		}
	}
	return booked, rows.Err()
}
