package operate_test

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

func names(list []operate.Operation) (all []string) {
	for _, op := range list {
		all = append(all, op.Scope+"/"+op.Key)
	}
	return all
}

// pages lists f a few at a time.
func (g *testDB) pages(tb testing.TB, f operate.KeyFilter, limit int) (all []string) {
	tb.Helper()
	f.Limit = limit
	for range 1000 {
		p, err := g.keys.List(tb.Context(), f)
		list, next := p.Items, p.Next
		must(tb, err)
		if len(list) > limit {
			tb.Fatalf("%d at once, not %d", len(list), limit)
		}
		all = append(all, names(list)...)
		if f.After = next; next == "" {
			return all
		}
	}
	tb.Fatal("there is no end of it")
	return nil
}

// TestListPages: every operation is listed once and in order, whatever its name and
// the size of a page, and a prefix is a prefix and no pattern.
func TestListPages(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, func(t *testing.T, g *testDB) {
		var want []string
		engine := once.New(g.store, once.Config{})
		for _, scope := range append([]string{"k\x7ea", "\ud7ff", "\ue000"}, nasty...) {
			if keyname.Check(scope) != nil {
				t.Fatal(scope)
			}
			for _, key := range append([]string{"k"}, nasty[:5]...) {
				_, err := once.Do(t.Context(), engine, once.Operation{Scope: scope, Key: key}, func(context.Context, *sql.Tx) (int, error) { return 1, nil })
				must(t, err)
				want = append(want, scope+"/"+key)
			}
		}
		slices.SortFunc(want, func(a, b string) int {
			s1, k1, _ := strings.Cut(a, "/")
			s2, k2, _ := strings.Cut(b, "/")
			return cmp.Or(cmp.Compare(s1, s2), cmp.Compare(k1, k2))
		})
		for _, limit := range []int{1, 7, len(want), len(want) + 1} {
			if got := g.pages(t, operate.KeyFilter{}, limit); !slices.Equal(got, want) {
				t.Errorf("%d at once:\n%q\nwant\n%q", limit, got, want)
			}
		}
		for _, prefix := range append([]string{"k", "per%", "_", "%", "K", "schl"}, nasty...) {
			var begin, same []string
			for _, name := range want {
				scope, _, _ := strings.Cut(name, "/")
				if strings.HasPrefix(scope, prefix) {
					begin = append(begin, name)
				}
				if scope == prefix {
					same = append(same, name)
				}
			}
			if got := g.pages(t, operate.KeyFilter{ScopePrefix: prefix}, 4); !slices.Equal(got, begin) {
				t.Errorf("prefix %q: %q, want %q", prefix, got, begin)
			}
			if got := g.pages(t, operate.KeyFilter{Scope: prefix}, 4); !slices.Equal(got, same) {
				t.Errorf("scope %q: %q, want %q", prefix, got, same)
			}
		}
	})
}

func TestListFilters(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, func(t *testing.T, g *testDB) {
		g.leased(t, "s", "running", store.StateRunning)
		g.leased(t, "s", "unknown", store.StateUnknown)
		for _, key := range []string{"done", "expired", "old"} {
			g.done(t, once.Config{}, "s", key)
		}
		g.exec(t, "update once_operation set expires_at = since where key = 'expired'")
		now, err := g.keys.Now(t.Context())
		must(t, err)
		var before any = now.Add(-48 * time.Hour)
		if g.Driver() != "pgx" {
			before = now.Add(-48 * time.Hour).UnixMilli()
		}
		g.exec(t, "update once_operation set since = $1 where key = 'old'", before)
		for _, c := range []struct {
			f    operate.KeyFilter
			want string
		}{
			{operate.KeyFilter{}, "done expired old running unknown"},
			{operate.KeyFilter{State: "done"}, "done old"},
			{operate.KeyFilter{State: "expired"}, "expired"},
			{operate.KeyFilter{State: "running"}, "running"},
			{operate.KeyFilter{State: "unknown", Scope: "s"}, "unknown"},
			{operate.KeyFilter{Since: now.Add(-24 * time.Hour)}, "done expired running unknown"},
			{operate.KeyFilter{Before: now.Add(-24 * time.Hour)}, "old"},
			{operate.KeyFilter{Since: now.Add(-48 * time.Hour), Before: now.Add(-48*time.Hour + time.Millisecond)}, "old"},
			{operate.KeyFilter{Since: now.Add(time.Hour)}, ""},
		} {
			p, err := g.keys.List(t.Context(), c.f)
			list, next := p.Items, p.Next
			got := strings.ReplaceAll(strings.Join(names(list), " "), "s/", "")
			if err != nil || next != "" || got != c.want {
				t.Errorf("%+v: %q, want %q (next %q, %v)", c.f, got, c.want, next, err)
			}
			for _, op := range list {
				if c.f.State != "" && op.State != c.f.State {
					t.Errorf("%+v: %s is %s", c.f, op.Key, op.State)
				}
			}
		}
		for _, f := range []operate.KeyFilter{{State: "lost"}, {Window: operate.Window{After: "x"}}, {Window: operate.Window{After: "AA="}}} {
			if _, err := g.keys.List(t.Context(), f); !contains(err, "Try: ") {
				t.Errorf("%+v: %v", f, err)
			}
		}
	})
}

func TestAuditPages(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, func(t *testing.T, g *testDB) {
		for _, key := range []string{"a", "b", "c"} {
			g.done(t, once.Config{}, "s "+key, key)
			_, err := g.keys.Forget(t.Context(), operate.By{Who: "ada", Reason: "asked"}, operate.ForgetRequest{Scope: "s " + key, Key: key})
			must(t, err)
		}
		f := operate.AuditFilter{Window: operate.Window{Limit: 2}}
		p, err := g.keys.Audit(t.Context(), f)
		must(t, err)
		f.After = p.Next
		last, err := g.keys.Audit(t.Context(), f)
		must(t, err)
		if p.Next == "" || last.Next != "" {
			t.Errorf("next %q, then %q", p.Next, last.Next)
		}
		first, rest := p.Items, last.Items
		for _, after := range []string{"x", "0", "-1", "1.5"} {
			f.After = after
			if _, err := g.keys.Audit(t.Context(), f); !contains(err, "Try: ") {
				t.Errorf("%q: %v", after, err)
			}
		}
		if first[0].Scope+first[1].Scope+rest[0].Scope != "s cs bs a" || len(rest) != 1 {
			t.Errorf("%+v %+v", first, rest)
		}
	})
}

// TestListMost: a list that reads a few rows at a time, to find some of them, lists each key once and says where it was cut; and a search
// that looks in a few scopes at a time finds a key in each.
func TestListMost(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, func(t *testing.T, g *testDB) {
		const scopes, keys = 7, 5
		for s := range scopes {
			for k := range keys {
				state, expires := []store.State{store.StateDone, store.StateUnknown, store.StateRunning}[(s+k)%3], "null"
				if state == store.StateDone {
					expires = g.later()
				}
				g.exec(t, "insert into once_operation (scope, key, state, claim, since, expires_at, name) values ($1, $2, $3, $4, "+g.now()+", "+expires+", $5)",
					"t"+strconv.Itoa(s%2)+" route "+strconv.Itoa(s), "k"+strconv.Itoa(k), int64(state), []byte{1}, strconv.Itoa(k))
			}
		}
		for _, f := range []operate.KeyFilter{{}, {State: "unknown"}, {State: "running"}, {State: "done"}, {Name: "3"}, {ScopePrefix: "t1 "}, {ScopePrefix: "t1 ", State: "unknown"}} {
			want := g.pages(t, f, 100)
			for _, f.Most = range []int{1, 4, 1000} {
				for _, limit := range []int{1, 3, 100} {
					if got := g.pages(t, f, limit); !slices.Equal(got, want) || len(want) == 0 {
						t.Errorf("%+v, %d at once: %q, want %q", f, limit, got, want)
					}
				}
			}
			f.Most, f.Limit = 1, 100
			if p, err := g.keys.List(t.Context(), f); err != nil || !p.Cut || len(p.Items) > 2 {
				t.Errorf("%+v: %d items, cut: %t, %v", f, len(p.Items), p.Cut, err)
			}
		}
		for _, in := range []struct {
			prefix string
			found  int
		}{{"", scopes}, {"t1 ", scopes / 2}, {"t2 ", 0}} {
			prefix := in.prefix
			for _, most := range []int{0, 1, 3} {
				f, n := operate.KeyFilter{ScopePrefix: prefix, Most: most}, 0
				for pages := 0; ; pages++ {
					p, err := g.keys.Search(t.Context(), "k2", f)
					must(t, err)
					for _, op := range p.Items {
						if n++; op.Key != "k2" || !strings.HasPrefix(op.Scope, prefix) {
							t.Errorf("%q is found in %q", op.Key, op.Scope)
						}
					}
					if f.After = p.Next; p.Next == "" || pages > scopes {
						break
					}
				}
				if n != in.found {
					t.Errorf("%q by %d: %d found, want %d", prefix, most, n, in.found)
				}
			}
		}
	})
}

// now and later are times as the database stores them.
func (g *testDB) now() string { return dialect.Text(g.dialect, "NOW") }

func (g *testDB) later() string {
	return strings.ReplaceAll(dialect.Text(g.dialect, "AGO(?)"), map[bool]string{true: "$1", false: "?"}[g.dialect == sqlplane.PostgreSQL], "-3600000000")
}
