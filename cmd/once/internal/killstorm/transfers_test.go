package killstorm

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestTransfersReport: the judge finds each way in which money goes astray, and each lie; and a storm without what it is for proves nothing.
func TestTransfersReport(t *testing.T) {
	entries := func(first, second map[string][]int64) books {
		return books{{"s-0": first}, {"s-0": second}}
	}
	all := map[string][]int64{"withdraw": {-1000}}
	for name, c := range map[string]struct {
		told          transferOutcome
		books         books
		lost, created int64
		complains     string
	}{
		"completed":          {completed, entries(all, map[string][]int64{"deposit": {1000}}), 0, 0, ""},
		"compensated":        {compensated, entries(map[string][]int64{"withdraw": {-1000}, "put back": {1000}}, map[string][]int64{"deposit": {1000}, "take back": {-1000}}), 0, 0, ""},
		"refused at once":    {compensated, books{}, 0, 0, ""},
		"lost":               {completed, entries(all, nil), 1000, 0, "1000 cents are lost"},
		"arrived twice":      {completed, entries(all, map[string][]int64{"deposit": {1000, 1000}}), 0, 1000, "1000 cents are created"},
		"late deposit":       {compensated, entries(map[string][]int64{"withdraw": {-1000}, "put back": {1000}}, map[string][]int64{"deposit": {1000}}), 0, 1000, "created"},
		"told what is wrong": {compensated, entries(all, map[string][]int64{"deposit": {1000}}), 0, 0, "the second bank has"},
		"nothing happened":   {completed, books{}, 0, 0, "the second bank has"},
		"undone twice": {compensated, entries(map[string][]int64{"withdraw": {-1000}, "put back": {1000, 1000}},
			map[string][]int64{"deposit": {1000}, "take back": {-1000, -1000}}), 0, 0, "in 6 entries"},
		"stuck": {stuck, books{}, 0, 0, "is stuck"},
	} {
		file := filepath.Join(t.TempDir(), "clearing")
		seen := `{"what":"request","order":"s-0","key":"/deposits"}
{"what":"undone","order":"s-1"}
{"what":"nothing","order":"s-2"}
{"what":"refused","order":"s-2"}
{"what":"refused","order":"s-2"}
`
		if err := os.WriteFile(file, []byte(seen), 0o600); err != nil {
			t.Fatal(err)
		}
		s := newTransfers(TransfersConfig{Orders: 1, Session: "s", ClearingFile: file})
		s.outcomes[0] = c.told
		s.points = []books{c.books}
		var r TransfersReport
		if err := s.count(&r); err != nil {
			t.Fatal(err)
		}
		resolved := 1
		if c.told == stuck {
			resolved = 0
		}
		if r.MoneyLost != c.lost || r.MoneyCreated != c.created || r.Unknown != 1 || r.Resolved != resolved || r.Undone != 1 || r.Nothing != 1 || r.Refused != 1 || r.OK {
			t.Errorf("%s: %+v", name, r)
		}
		if !slices.ContainsFunc(r.Reasons, func(s string) bool { return strings.HasPrefix(s, "this run proves nothing") }) { // of one transfer
			t.Errorf("%s: %q", name, r.Reasons)
		}
		if got := strings.Join(r.Reasons[:len(r.Reasons)-1], "\n"); !strings.Contains(got, c.complains) || (got == "") != (c.complains == "") {
			t.Errorf("%s: %q", name, got)
		}
	}
}
