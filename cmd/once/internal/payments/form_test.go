package payments

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
)

// FuzzFormMeansItsJSON: whatever is sent, what is accepted means the same to encoding/json,
// and what is refused is the client's mistake, told without a crash.
func FuzzFormMeansItsJSON(f *testing.F) {
	for _, seed := range []string{
		`{"charge_id":"ch_1","amount":100}`, `{"amount":1,"amount":2,"charge_id":"a"}`, `{"charge_id":"a","amount":1}x`,
		`{"charge_id":"\ud83d\ude00","amount":9007199254740991}`, `{"charge_id":"a","amount":9007199254740992}`,
		`{"charge_id":"a","amount":-0}`, `{"charge_id":"a","amount":01}`, `{"charge_id":null,"amount":1e2}`,
		`{"charge_id":"a","amount":1,"":{}}`, `{"a":[{"b":`, `{`, `""`, "", "\xff", `{"charge_id":"\ud800","amount":1}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var charge string
		var amount int64
		in, err := parseForm(body)
		if err == nil {
			charge, amount = in.text("charge_id", 64), in.amount("amount")
			err = in.err()
		}
		if err != nil {
			var p *problem
			if !errors.As(err, &p) || p.Status != 400 && p.Status != 422 || p.Code == "" || p.Detail == "" {
				t.Fatalf("refused with %#v", err)
			}
			if _, err := json.Marshal(p.Problem); err != nil {
				t.Fatal(err)
			}
			return
		}
		var same struct {
			ChargeID string `json:"charge_id"`
			Amount   int64  `json:"amount"`
		}
		d := json.NewDecoder(bytes.NewReader(body))
		d.DisallowUnknownFields()
		if err := d.Decode(&same); err != nil || same.ChargeID != charge || same.Amount != amount {
			t.Fatalf("read %q %d, encoding/json reads %+v, %v", charge, amount, same, err)
		}
		if amount < 1 || amount > MaxAmount || charge == "" || len(charge) > 64 {
			t.Fatalf("accepted %q %d", charge, amount)
		}
	})
}
